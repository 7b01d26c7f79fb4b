// Python's view of the engine. Nothing but the files named bindings knows Python.
#include "bindings/bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <unordered_map>

#include "interpreter/fast_path.h"

using namespace nb::literals;

namespace {

using ringtree::Bytes;
using ringtree::CallSignature;
using ringtree::Error;
using ringtree::Failure;
using ringtree::form_of;

struct ErrorTypes {
  PyObject *died, *mismatch, *timed_out, *poisoned;
};

// Made once, when the module is; an extension module's types live as long as the process.
ErrorTypes& error_types() {
  static ErrorTypes types{};
  return types;
}

class GroupObject {
 public:
  GroupObject(int fd, int rank, int ranks, int slots, std::size_t slot_bytes, double timeout_s, bool oversubscribed,
              bool threads, std::vector<std::string> names, const ringtree::InheritedLiveness* inherited,
              const ringtree::Network* network)
      : group_(ringtree::FileDescriptor(fd), rank, ranks,
               {slots,
                slot_bytes,
                threads,
                {timeout_s, oversubscribed, std::move(names)},
                inherited ? std::optional(*inherited) : std::nullopt,
                network ? std::optional(*network) : std::nullopt}) {}

  using Table = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  using Column = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

  int prepare(Table instructions, Table operands, Column sizes, Column input_offsets, Column output_offsets,
              std::int64_t scratch, std::int64_t window, int dtype, int op, std::string collective, int root,
              std::int64_t count, std::uint64_t digest) {
    if (instructions.shape(1) != 6 || operands.shape(1) != 4)
      throw std::invalid_argument("instructions have 6 columns and operands 4");
    ringtree::Encoded program{
        {reinterpret_cast<const ringtree::Encoded::Instruction*>(instructions.data()), instructions.shape(0)},
        {reinterpret_cast<const ringtree::Encoded::Operand*>(operands.data()), operands.shape(0)}};
    ringtree::Binding binding{{sizes.data(), sizes.shape(0)},
                              {input_offsets.data(), input_offsets.shape(0)},
                              {output_offsets.data(), output_offsets.shape(0)},
                              scratch,
                              window,
                              dtype,
                              op,
                              root,
                              count,
                              static_cast<std::uint32_t>(digest ^ digest >> 32),
                              std::move(collective)};
    plans_.emplace(prepared_, group_.prepare(program, binding));
    return prepared_++;
  }

  void forget(int plan) {
    known_.forget(find(plan));
    plans_.erase(plan);
  }

  void run(int plan, std::uintptr_t input, std::uintptr_t output) {
    PythonHooks hooks;
    run(find(plan), reinterpret_cast<std::byte*>(input), reinterpret_cast<std::byte*>(output), hooks);
  }

  std::uint64_t start(int plan, std::uintptr_t input, std::uintptr_t output) {
    return group_.start(find(plan), reinterpret_cast<std::byte*>(input), reinterpret_cast<std::byte*>(output));
  }

  bool done(std::uint64_t ticket) const { return group_.done(ticket); }

  bool wait(std::uint64_t ticket, double timeout_s) {
    PythonHooks hooks;
    return group_.wait(ticket, timeout_s, hooks);
  }

  void remember(int collective, const std::string& format, int dtype, const std::string& op, int root,
                Py_ssize_t in_count, Py_ssize_t out_count, int plan, std::optional<Py_ssize_t> offset) {
    CallSignature signature{collective, form_of(format.c_str()), op, root, in_count, out_count};
    if (signature.form) known_.remember(signature, find(plan), offset);
    signature.form = form_of(dtype);
    known_.remember(signature, find(plan), offset);
  }

  std::shared_ptr<ringtree::PreparedProgram> recall(const CallSignature& signature, Bytes x, Bytes out,
                                                    Py_ssize_t itemsize) const {
    return known_.find(signature, x, out, itemsize);
  }

  void run(const std::shared_ptr<ringtree::PreparedProgram>& plan, std::byte* input, std::byte* output,
           PythonHooks& hooks) {
    if (group_.threads() || plan->moved_bytes > quick_bytes) hooks.blocking();
    group_.run(plan, input, output, hooks);
  }

  std::uintptr_t add_region(int fd, std::size_t nbytes, std::size_t offset, std::optional<std::size_t> reserved) {
    PythonHooks hooks;
    hooks.blocking();
    return reinterpret_cast<std::uintptr_t>(group_.add_region(fd, nbytes, reserved, hooks)) + offset;
  }

  nb::tuple add_window(int fd, std::size_t nbytes) {
    std::byte* base = nullptr;
    {
      PythonHooks hooks;
      hooks.blocking();
      // No page of the shares of ranks elsewhere is needed here.
      auto reserved = group_.over_hosts() ? std::optional<std::size_t>(0) : std::nullopt;
      base = group_.add_region(fd, nbytes * group_.ranks(), reserved, hooks);
      if (reserved) ringtree::Mapping::prefault_large(base + nbytes * group_.rank(), nbytes);
    }
    auto window = group_.add_window(base, nbytes);
    return nb::make_tuple(window, reinterpret_cast<std::uintptr_t>(group_.in_window(window, group_.rank(), 0, nbytes)));
  }

  void prefault(std::uintptr_t address, std::size_t nbytes) const {
    PythonHooks hooks;
    hooks.blocking();
    ringtree::Mapping::prefault_large(reinterpret_cast<std::byte*>(address), nbytes);
  }

  nb::object counters() const {
    auto received = group_.received();
    auto table = new std::int64_t[received.size() * 2];
    for (std::size_t peer = 0; peer < received.size(); peer++) {
      table[2 * peer] = received[peer].bytes;
      table[2 * peer + 1] = received[peer].messages;
    }
    nb::capsule owner(table, [](void* p) noexcept { delete[] static_cast<std::int64_t*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>>(table, {received.size(), 2}, owner));
  }

  nb::object known(std::uint64_t key) {
    auto [state, value] = group_.known(key);
    if (state == ringtree::Memo::State::published) return nb::bytes(value.data(), value.size());
    if (state == ringtree::Memo::State::full) return nb::none();
    return nb::bool_(state == ringtree::Memo::State::claimed_here);
  }
  void publish(std::uint64_t key, nb::bytes value) {
    group_.publish(key, {static_cast<const std::byte*>(value.data()), value.size()});
  }

  ringtree::Group& group() { return group_; }
  void reset_counters() { group_.reset_received(); }
  ringtree::InheritedLiveness inherited(const std::vector<int>& ranks) const { return group_.inherited(ranks); }
  void check_liveness(const std::string& what, const std::vector<int>& ranks, const std::vector<int>& absent) {
    group_.check_liveness(what, ranks, absent);
  }
  void poison(const std::string& message) { group_.poison(message); }
  void set_timeout(double seconds) { group_.set_timeout(seconds); }
  std::uint64_t calls() const { return group_.calls(); }
  int slots_open() const { return group_.slots_open(); }

  void close() {
    nb::gil_scoped_release released;
    group_.close();
  }

 private:
  std::shared_ptr<ringtree::PreparedProgram> find(int plan) {
    auto found = plans_.find(plan);
    if (found == plans_.end())
      throw std::invalid_argument(plan < 0 || plan >= prepared_ ? "no plan " + std::to_string(plan) + ": " +
                                                                      std::to_string(prepared_) + " were prepared"
                                                                : "plan " + std::to_string(plan) + " was forgotten");
    return found->second;
  }

  ringtree::Group group_;
  int prepared_ = 0;  // numbers are not used again
  std::unordered_map<int, std::shared_ptr<ringtree::PreparedProgram>> plans_;
  ringtree::FastPath known_;
};

// Odd arguments (a numpy integer as root, no operation) are for the slow path to take or to refuse.
bool whole(PyObject* given, Py_ssize_t& number) {
  int odd = 0;
  if (!PyLong_Check(given)) return false;
  number = PyLong_AsLongAndOverflow(given, &odd);
  return !odd;
}

bool whole(PyObject* given, int& number) {
  Py_ssize_t wide;
  if (!whole(given, wide)) return false;
  number = static_cast<int>(wide);
  return number == wide;
}

bool text(PyObject* given, std::string_view& result) {
  Py_ssize_t length;
  if (!PyUnicode_Check(given)) return false;
  const char* utf8 = PyUnicode_AsUTF8AndSize(given, &length);
  if (!utf8) throw nb::python_error();
  result = {utf8, static_cast<std::size_t>(length)};
  return true;
}

// Group.call(collective, x, out, op, root).
bool call(GroupObject& endpoint, PyObject* const* args) {
  CallSignature signature{};
  if (!whole(args[0], signature.collective) || !text(args[3], signature.op) || !whole(args[4], signature.root))
    return false;
  View in, own_out;
  bool same = args[1] == args[2];
  if (!in.get(args[1], same ? PyBUF_WRITABLE : 0) || (!same && !own_out.get(args[2], PyBUF_WRITABLE))) return false;
  const View& to = same ? in : own_out;
  const char* format = in.format() ? in.format() : to.format();
  if (!format || (to.format() && std::strcmp(format, to.format()) != 0)) return false;
  signature.form = form_of(format);
  signature.in_count = in.count();
  signature.out_count = to.count();
  auto plan = endpoint.recall(signature, {in.data(), in.nbytes()}, {to.data(), to.nbytes()}, in.itemsize());
  if (!plan) return false;
  PythonHooks hooks;
  endpoint.run(plan, in.data(), to.data(), hooks);
  return true;
}

// Group.call_at(collective, dtype, op, root, x_address, x_count, out_address, out_count).
bool call_at(GroupObject& endpoint, PyObject* const* args) {
  CallSignature signature{};
  int dtype;
  Py_ssize_t from, to;
  if (!whole(args[0], signature.collective) || !whole(args[1], dtype) || !text(args[2], signature.op) ||
      !whole(args[3], signature.root) || !whole(args[4], from) || !whole(args[5], signature.in_count) ||
      !whole(args[6], to) || !whole(args[7], signature.out_count))
    return false;
  auto itemsize = static_cast<Py_ssize_t>(ringtree::dtype_bytes(dtype));
  signature.form = form_of(dtype);
  Bytes x{reinterpret_cast<std::byte*>(from), signature.in_count * itemsize};
  Bytes out{reinterpret_cast<std::byte*>(to), signature.out_count * itemsize};
  auto plan = endpoint.recall(signature, x, out, itemsize);
  if (!plan) return false;
  PythonHooks hooks;
  endpoint.run(plan, x.data, out.data, hooks);
  return true;
}

// A method without the binding library between.
template <auto method, Py_ssize_t arguments>
PyObject* fast(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != arguments) {
    PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd; see the stub", arguments, n);
    return nullptr;
  }
  return guarded([&] { return method(*nb::inst_ptr<GroupObject>(self), args); });
}

template <auto method, Py_ssize_t arguments>
PyMethodDef fast_definition(const char* name) {
  auto function = reinterpret_cast<void (*)()>(fast<method, arguments>);
  return {name, reinterpret_cast<PyCFunction>(function), METH_FASTCALL, "The fast path; see the stub."};
}

PyMethodDef fast_definitions[] = {fast_definition<call, 5>("call"), fast_definition<call_at, 8>("call_at")};

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

}  // namespace

ringtree::Group& group_of(PyObject* endpoint) {
  return nb::inst_ptr<GroupObject>(endpoint)->group();
}

void set_error(const ringtree::Error& error) {
  auto& types = error_types();
  PyObject* type = error.kind == Failure::died        ? types.died
                   : error.kind == Failure::mismatch  ? types.mismatch
                   : error.kind == Failure::timed_out ? types.timed_out
                                                      : types.poisoned;
  nb::object args =
      error.kind == Failure::died ? nb::make_tuple(error.what(), error.rank) : nb::make_tuple(error.what());
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

  nb::class_<ringtree::InheritedLiveness>(m, "InheritedLiveness");
  bind_network(m);
  auto group =
      nb::class_<GroupObject>(m, "Group")
          .def(nb::init<int, int, int, int, std::size_t, double, bool, bool, std::vector<std::string>,
                        const ringtree::InheritedLiveness*, const ringtree::Network*>(),
               "fd"_a, "rank"_a, "ranks"_a, nb::kw_only(), "slots"_a, "slot_bytes"_a, "timeout_s"_a, "oversubscribed"_a,
               "threads"_a, "names"_a, "inherited"_a.none() = nb::none(), "network"_a.none() = nb::none())
          .def("prepare", &GroupObject::prepare, "instructions"_a, "operands"_a, "sizes"_a, "input_offsets"_a,
               "output_offsets"_a, "scratch"_a, "window"_a, "dtype"_a, "op"_a, "collective"_a, "root"_a, "count"_a,
               "digest"_a)
          .def("forget", &GroupObject::forget, "plan"_a)
          .def("run", nb::overload_cast<int, std::uintptr_t, std::uintptr_t>(&GroupObject::run), "plan"_a, "input"_a,
               "output"_a)
          .def("start", &GroupObject::start, "plan"_a, "input"_a, "output"_a)
          .def("done", &GroupObject::done, "ticket"_a)
          .def("wait", &GroupObject::wait, "ticket"_a, "timeout_s"_a)
          .def("remember", &GroupObject::remember, "collective"_a, "format"_a, "dtype"_a, "op"_a, "root"_a,
               "in_count"_a, "out_count"_a, "plan"_a, "offset"_a.none() = 0)
          .def("add_region", &GroupObject::add_region, "fd"_a, "nbytes"_a, "offset"_a, "reserved"_a.none() = nb::none())
          .def("add_window", &GroupObject::add_window, "fd"_a, "nbytes"_a)
          .def("prefault", &GroupObject::prefault, "address"_a, "nbytes"_a)
          .def("counters", &GroupObject::counters)
          .def("reset_counters", &GroupObject::reset_counters)
          .def("inherited", &GroupObject::inherited, "ranks"_a)
          .def("check_liveness", &GroupObject::check_liveness, "what"_a, "ranks"_a, "absent"_a)
          .def("poison", &GroupObject::poison, "message"_a)
          .def("known", &GroupObject::known, "key"_a)
          .def("publish", &GroupObject::publish, "key"_a, "value"_a)
          .def("set_timeout", &GroupObject::set_timeout, "timeout_s"_a)
          .def("close", &GroupObject::close)
          .def_prop_ro("calls", &GroupObject::calls)
          .def_prop_ro("slots_open", &GroupObject::slots_open);
  for (auto& definition : fast_definitions) add_fast_method(group, definition);
  bind_messages(group);
  bind_one_sided(group);
  bind_recorder(group);
}
