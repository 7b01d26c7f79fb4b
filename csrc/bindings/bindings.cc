// Python's view of the engine. Nothing but the files named bindings knows Python.
#include "bindings/bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "bindings/device.h"
#include "bindings/group_object.h"

using namespace nb::literals;

namespace {

using ringtree::Error;
using ringtree::Failure;

struct ErrorTypes {
  PyObject *died, *mismatch, *timed_out, *poisoned;
};

// Made once, when the module is; an extension module's types live as long as the process.
ErrorTypes& error_types() {
  static ErrorTypes types{};
  return types;
}

PyObject* new_error(nb::module_& m, const char* name, const char* doc) {
  PyObject* type =
      PyErr_NewExceptionWithDoc((std::string("ringtree._native.") + name).c_str(), doc, PyExc_RuntimeError, nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::borrow(type);
  return type;
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    set_error(e);
  } catch (const std::system_error& e) {
    set_error(e);
  } catch (const ringtree::Interrupted&) {  // Python's error is set already
  }
}

// Python shows an exit function no status. The last that is registered runs first, and the others still after it.
void fail_at_exit() {
#ifdef __GLIBC__
  auto fail = [](int status, void*) {
    if (status == 0) exit(1);
  };
  if (on_exit(fail, nullptr) != 0) throw std::bad_alloc();
#else
  if (std::atexit([] { _exit(1); }) != 0) throw std::bad_alloc();  // no other C library shows it the status
#endif
}

}  // namespace

nb::str text_of(std::string_view bytes) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

ringtree::Group& group_of(PyObject* endpoint) {
  return nb::inst_ptr<GroupObject>(endpoint)->group();
}

// A Ctrl-C that all ranks get may come to this one only after another has failed the group because of it. Its handler
// would then run wherever Python looks for signals next, which is often within the report of the error.
static bool signalled(const ringtree::Error& error) {
  constexpr auto longest = std::chrono::milliseconds(20), step = std::chrono::milliseconds(1);
  if (PyErr_CheckSignals() != 0) return true;
  if (error.again || !error.of_interrupt() || getpid() != syscall(SYS_gettid)) return false;
  for (auto waited = step; waited <= longest; waited += step) {
    Py_BEGIN_ALLOW_THREADS;
    std::this_thread::sleep_for(step);
    Py_END_ALLOW_THREADS;
    if (PyErr_CheckSignals() != 0) return true;
  }
  return false;
}

void set_error(const ringtree::Error& error) {
  if (signalled(error)) return;
  auto& types = error_types();
  PyObject* type = error.kind == Failure::died        ? types.died
                   : error.kind == Failure::mismatch  ? types.mismatch
                   : error.kind == Failure::timed_out ? types.timed_out
                                                      : types.poisoned;
  auto text = text_of(error.what());
  nb::object args = error.kind == Failure::died ? nb::make_tuple(text, error.rank) : nb::make_tuple(text);
  PyErr_SetObject(type, args.ptr());
}

void set_error(const std::system_error& error) {
  PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.what()).ptr());
}

NB_MODULE(_native, m) {
  // No leak warnings: when the interpreter ends, a daemon thread in a call still holds its group, and torch's C++ may
  // keep tensors in a group's region.
  nb::set_leak_warnings(false);
  m.doc() = "The shared-memory engine.";
  error_types() = {new_error(m, "PeerDied", "A rank of the group ended; args: (message, rank)."),
                   new_error(m, "Mismatch", "Two ranks called different things; the message names both sides."),
                   new_error(m, "TimedOut", "A wait passed its deadline."),
                   new_error(m, "Poisoned", "The group failed before and can only be closed.")};
  nb::register_exception_translator(translate);

  nb::dict dtypes, ops;
  for (int d = 0; d < ringtree::dtypes; d++) dtypes[nb::str(ringtree::dtype_name(d).data())] = d;
  for (int o = 0; o < ringtree::ops; o++) ops[nb::str(ringtree::op_name(o).data())] = o;
  m.attr("BUILD") = RINGTREE_BUILD;
  m.attr("INTERFACE") = RINGTREE_INTERFACE;
  m.attr("DTYPES") = dtypes;
  m.attr("OPS") = ops;
  m.def(
      "supported",
      [](int dtype, int op) {
        return dtype >= 0 && dtype < ringtree::dtypes && op >= 0 && op < ringtree::ops &&
               ringtree::kernels().reduce[dtype][op] != nullptr;
      },
      "dtype"_a, "op"_a);

  m.def(
      "segment_bytes",
      [](int ranks, int slots, std::size_t slot_bytes) { return ringtree::Layout(ranks, slots, slot_bytes).total; },
      "ranks"_a, "slots"_a, "slot_bytes"_a);
  m.def(
      "reserved_bytes",
      [](int ranks, int slots, std::size_t slot_bytes, bool lazily) {
        return ringtree::Layout(ranks, slots, slot_bytes).reserved(lazily);
      },
      "ranks"_a, "slots"_a, "slot_bytes"_a, "lazily"_a);

  m.def(
      "overflow_bytes",
      [](int ranks, int slots, std::size_t slot_bytes) {
        return ringtree::Layout(ranks, slots, slot_bytes).overflow_bytes;
      },
      "ranks"_a, "slots"_a, "slot_bytes"_a);
  bind_device(m);
  m.def("reads_Bps", &ringtree::PeerMemory::reads_Bps);
  m.def("fail_at_exit", &fail_at_exit);
  m.def("process_identity", [] {
    auto self = ringtree::ProcessIdentity::of_this();
    return std::vector<std::uint64_t>{static_cast<std::uint64_t>(self.process), self.start, self.space};
  });

  nb::class_<ringtree::InheritedLiveness>(m, "InheritedLiveness");
  bind_network(m);
  bind_fast_method(m);
  auto group =
      nb::class_<GroupObject>(m, "Group")
          .def(nb::init<int, int, int, int, std::size_t, double, bool, bool, std::vector<std::string>, std::size_t,
                        const ringtree::InheritedLiveness*, const ringtree::Network*, std::vector<int>,
                        std::vector<int>, double, double, const std::vector<std::vector<std::uint64_t>>&, bool, bool>(),
               "fd"_a, "rank"_a, "ranks"_a, nb::kw_only(), "slots"_a, "slot_bytes"_a, "timeout_s"_a, "oversubscribed"_a,
               "threads"_a, "names"_a, "single_copy_bytes"_a = 0, "inherited"_a.none() = nb::none(),
               "network"_a.none() = nb::none(), "nodes"_a = std::vector<int>{}, "cores"_a = std::vector<int>{},
               "warn_share"_a = 0.0, "warn_least_s"_a = 0.0, "processes"_a = std::vector<std::vector<std::uint64_t>>{},
               "confirms"_a = false, "takes_turns"_a = false)
          .def("prepare", &GroupObject::prepare, "instructions"_a, "operands"_a, "sizes"_a, "input_offsets"_a,
               "output_offsets"_a, "scratch"_a, "window"_a, "dtype"_a, "op"_a, "collective"_a, "root"_a, "count"_a,
               "digest"_a, "single_copy"_a = false)
          .def("forget", &GroupObject::forget, "plan"_a)
          .def("run", nb::overload_cast<int, std::uintptr_t, std::uintptr_t>(&GroupObject::run), "plan"_a, "input"_a,
               "output"_a)
          .def("run_timed", &GroupObject::run_timed, "plan"_a, "input"_a, "output"_a)
          .def("start", &GroupObject::start, "plan"_a, "input"_a, "output"_a)
          .def("start_timed", &GroupObject::start_timed, "plan"_a, "input"_a, "output"_a)
          .def("work_s", &GroupObject::work_s, "ticket"_a)
          .def("done", &GroupObject::done, "ticket"_a)
          .def("wait", &GroupObject::wait, "ticket"_a, "timeout_s"_a)
          .def("remember", &GroupObject::remember, "collective"_a, "format"_a, "dtype"_a, "op"_a, "root"_a,
               "in_count"_a, "out_count"_a, "plan"_a, "offset"_a.none() = 0)
          .def("remember_barrier", &GroupObject::remember_barrier, "plan"_a)
          .def("add_region", &GroupObject::add_region, "fd"_a, "nbytes"_a, "offset"_a, "reserved"_a.none() = nb::none())
          .def("in_region", &GroupObject::in_region, "address"_a, "nbytes"_a)
          .def("add_window", &GroupObject::add_window, "fd"_a, "nbytes"_a)
          .def("prefault", &GroupObject::prefault, "address"_a, "nbytes"_a)
          .def("counters", &GroupObject::counters)
          .def("peers", &GroupObject::peers)
          .def("reset_counters", &GroupObject::reset_counters)
          .def("inherited", &GroupObject::inherited, "ranks"_a)
          .def("check_liveness", &GroupObject::check_liveness, "what"_a, "ranks"_a, "absent"_a)
          .def("begin_wait", &GroupObject::begin_wait, "what"_a, "rank"_a, "timeout_s"_a)
          .def("end_wait", &GroupObject::end_wait, "place"_a, "gave_up"_a)
          .def("give_up", &GroupObject::give_up, "text"_a, "ranks"_a)
          .def("fail_if_bereft", &GroupObject::fail_if_bereft, "what"_a)
          .def("poison", &GroupObject::poison, "message"_a)
          .def("enter_call", &GroupObject::enter_call, "plan"_a)
          .def("announce", &GroupObject::announce, "plan"_a)
          .def("leave_call", &GroupObject::leave_call)
          .def("report_timeout", &GroupObject::report_timeout, "text"_a, "ranks"_a)
          .def("report_mismatch", &GroupObject::report_mismatch, "text"_a)
          .def("is_lost", &GroupObject::is_lost, "what"_a, "ranks"_a, "absent"_a)
          .def("tell_cause", &GroupObject::tell_cause, "text"_a)
          .def("known", &GroupObject::known, "key"_a)
          .def("missing_claimant", &GroupObject::missing_claimant, "key"_a)
          .def("publish", &GroupObject::publish, "key"_a, "value"_a)
          .def("arrive", &GroupObject::arrive, "turn"_a, "ready"_a, "shunned"_a)
          .def("arrivals", &GroupObject::arrivals)
          .def("decide", &GroupObject::decide, "turn"_a, "made"_a, "members"_a)
          .def("decision", &GroupObject::decision)
          .def_prop_ro("failure", &GroupObject::failure)
          .def("set_timeout", &GroupObject::set_timeout, "timeout_s"_a)
          .def("close", &GroupObject::close)
          .def_prop_ro("calls", &GroupObject::calls)
          .def_prop_ro("caller", &GroupObject::caller)
          .def_prop_ro("is_within_call", &GroupObject::is_within_call)
          .def_prop_ro("slots_open", &GroupObject::slots_open);
  bind_fast_path(group);
  bind_messages(group);
  bind_one_sided(group);
  bind_recorder(group);
  bind_device_calls(m);
  bind_flight_records(m);
  bind_observed(m);
}
