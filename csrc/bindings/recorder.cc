// Python's view of what a rank did, and when.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"

using namespace nb::literals;

namespace {

using ringtree::Recorder;

// One value of every event, as an array of its own.
template <class T, class Of>
nb::object column(const std::vector<Recorder::Event>& events, Of of) {
  auto values = new T[events.size()];
  for (std::size_t at = 0; at < events.size(); at++) values[at] = of(events[at]);
  nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(values, {events.size()}, owner));
}

void record(nb::handle endpoint, std::size_t most_events) {
  auto& group = group_of(endpoint.ptr());
  PythonHooks hooks(group);
  group.record(most_events, hooks);
}

// The events of `recorder`, in the seconds of `clock`; empty without a recorder.
nb::object as_tuple(const Recorder* recorder, const Recorder::Clock& clock, const std::vector<std::string>& names) {
  using Event = Recorder::Event;
  auto events = recorder ? recorder->events() : std::vector<Event>();
  nb::list calls;
  for (auto& print : recorder ? recorder->calls() : std::vector<ringtree::Fingerprint>())
    calls.append(nb::make_tuple(ringtree::describe(print, names), print.digest));
  return nb::make_tuple(column<std::int32_t>(events, [](const Event& e) { return static_cast<std::int32_t>(e.did); }),
                        column<double>(events, [&](const Event& e) { return clock.seconds(e.start); }),
                        column<double>(events, [&](const Event& e) { return clock.seconds(e.end); }),
                        column<std::int64_t>(events, [](const Event& e) { return e.nbytes; }),
                        column<std::int32_t>(events, [](const Event& e) { return e.peer; }),
                        column<std::int32_t>(events, [](const Event& e) { return e.chunk; }),
                        column<std::int32_t>(events, [](const Event& e) { return e.call; }), calls,
                        recorder ? recorder->dropped() : 0);
}

nb::object recorded(nb::handle endpoint) {
  auto& group = group_of(endpoint.ptr());
  auto recorder = group.recorder();
  return recorder ? as_tuple(recorder.get(), recorder->clock(), group.names()) : nb::none();
}

nb::object recorded_messages(nb::handle endpoint) {
  auto& group = group_of(endpoint.ptr());
  auto recorder = group.recorder();
  return recorder ? as_tuple(group.message_recorder().get(), recorder->clock(), group.names()) : nb::none();
}

}  // namespace

void bind_recorder(nb::object type) {
  auto add = [&](const char* name, auto function, auto... arguments) {
    type.attr(name) = nb::cpp_function(function, nb::name(name), nb::scope(type), nb::is_method(), arguments...);
  };
  add("record", record, "most_events"_a);
  add("recorded", recorded);
  add("recorded_messages", recorded_messages);
}
