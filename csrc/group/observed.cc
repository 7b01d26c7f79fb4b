#include "group/observed.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <memory>

#include "memory/segment.h"

namespace ringtree {

namespace {

// A copy of memory that others write meanwhile.
template <class T>
class Copy {
 public:
  Copy(int fd, std::size_t at) : whole_(pread(fd, bytes_, sizeof(T), static_cast<off_t>(at)) == sizeof(T)) {}
  explicit operator bool() const { return whole_; }
  const T* operator->() const { return reinterpret_cast<const T*>(bytes_); }

 private:
  alignas(T) std::byte bytes_[sizeof(T)];
  bool whole_;
};

template <class T>
T read(const std::atomic<T>& value) {
  return value.load(std::memory_order_relaxed);
}

std::string failure_of(const Poison& poison) {
  if (read(poison.state) != 2) return {};
  auto& text = poison.text;
  return std::string(text, strnlen(text, sizeof text));
}

ObservedMember observe(const Member& member) {
  ObservedMember found{read(member.attached) != 0,
                       read(member.left) != 0,
                       read(member.lost) != 0,
                       member.process,
                       member.process_start,
                       member.process_space,
                       0,
                       {},
                       {}};
  for (auto& record : member.calls) {
    auto version = read(record.version);
    auto call = (version + 1) / 2;  // odd: it is being written
    if (call <= found.calls) continue;
    auto both = read(record.code_digest);
    found.calls = call;
    found.last =
        Fingerprint{read(record.count), static_cast<std::uint32_t>(both >> 32), static_cast<std::uint32_t>(both)};
    if (version % 2) found.last.reset();
  }
  return found;
}

}  // namespace

std::optional<ObservedGroup> observe(int fd) {
  struct stat info;
  Copy<Header> header(fd, 0);
  if (!header || fstat(fd, &info) != 0) return {};
  auto magic = read(header->magic);
  if (magic >> 16 != Segment::magic >> 16) return {};
  if (magic != Segment::magic) return ObservedGroup{false, {}, {}};
  try {
    auto layout = Layout::of_shape(read(header->shape));
    if (layout.total > static_cast<std::size_t>(info.st_size)) return {};
    ObservedGroup found{true, failure_of(header->poison), {}};
    for (int rank = 0; rank < layout.ranks; rank++) {
      Copy<Member> member(fd, layout.members + rank * sizeof(Member));
      if (!member) return {};
      found.members.push_back(observe(*member.operator->()));
      if (found.members.back().attached)
        found.members.back().waits = LongWaits::read(fd, layout.waits + rank * LongWaits::page);
    }
    return found;
  } catch (const std::invalid_argument&) {
    return {};
  }
}

}  // namespace ringtree
