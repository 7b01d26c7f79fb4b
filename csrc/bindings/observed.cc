// What `ringtree ps` reads of the groups of other processes.
#include "group/observed.h"

#include "bindings/bindings.h"

using namespace nb::literals;

namespace {

nb::dict wait_of(const ringtree::WaitRecord& record) {
  nb::dict found;
  found["since_ns"] = record.since_ns;
  found["deadline_ns"] = record.deadline_ns;
  found["peer"] = record.peer;
  found["thread"] = record.thread;
  found["where"] = text_of(record.where);
  found["group"] = text_of(record.group);
  return found;
}

nb::dict member_of(const ringtree::ObservedMember& member) {
  nb::dict found;
  nb::list waits;
  for (auto& record : member.waits) waits.append(wait_of(record));
  found["state"] = !member.attached ? "absent" : member.left ? "left" : member.lost ? "lost" : "attached";
  found["process"] = member.process;
  found["process_start"] = member.process_start;
  found["process_space"] = member.process_space;
  found["calls"] = member.calls;
  found["last"] = member.last ? nb::object(text_of(ringtree::describe(*member.last, {}))) : nb::none();
  found["waits"] = waits;
  return found;
}

nb::object observed(int fd) {
  auto group = ringtree::observe(fd);
  if (!group) return nb::none();
  nb::dict found;
  nb::list members;
  for (auto& member : group->members) members.append(member_of(member));
  found["readable"] = group->readable;
  found["failure"] = text_of(group->failure);
  found["members"] = members;
  return found;
}

}  // namespace

void bind_observed(nb::module_& m) {
  m.def("observe", &observed, "fd"_a);
}
