// Python's view of point-to-point messages.
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "bindings/bindings.h"

using namespace nb::literals;

namespace {

using ringtree::Envelope;
using ringtree::Operation;

Operation operation_of(nb::handle given) {
  auto t = nb::cast<nb::tuple>(given);
  if (t.size() != 7)
    throw std::invalid_argument("an operation is (is_send, peer, tag, address, nbytes, dtype, at_most or synchronous)");
  bool sends = nb::cast<bool>(t[0]), special = nb::cast<bool>(t[6]);
  Operation made{sends,
                 nb::cast<int>(t[1]),
                 nb::cast<int>(t[2]),
                 reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(t[3])),
                 nb::cast<std::size_t>(t[4]),
                 nb::cast<int>(t[5]),
                 special && !sends ? ringtree::Length::at_most : ringtree::Length::exact};
  made.synchronous = special && sends;
  return made;
}

nb::tuple tuple_of(const Envelope& e) {
  return nb::make_tuple(e.source, e.tag, e.nbytes);
}

nb::list exchange(nb::handle endpoint, nb::list operations, double timeout_s) {
  std::vector<Operation> all;
  all.reserve(operations.size());
  for (nb::handle o : operations) all.push_back(operation_of(o));
  {
    auto& group = group_of(endpoint.ptr());
    PythonHooks hooks(group);
    hooks.blocking();
    group.exchange(all, timeout_s, hooks);
  }
  nb::list statuses;
  for (auto& o : all) statuses.append(nb::make_tuple(o.peer, o.tag, o.nbytes));
  return statuses;
}

// A message of any length.
nb::tuple receive(nb::handle endpoint, int peer, int tag, int dtype, double timeout_s) {
  Operation whole{false, peer, tag, nullptr, 0, dtype, ringtree::Length::any};
  {
    auto& group = group_of(endpoint.ptr());
    PythonHooks hooks(group);
    hooks.blocking();
    group.exchange({&whole, 1}, timeout_s, hooks);
  }
  return nb::make_tuple(nb::bytes(whole.data, whole.nbytes), whole.peer, whole.tag);
}

std::uint64_t post(nb::handle endpoint, nb::handle operation) {
  return group_of(endpoint.ptr()).post(operation_of(operation));
}

bool test(nb::handle endpoint, std::uint64_t number) {
  return group_of(endpoint.ptr()).messages().test(number);
}

int complete(nb::handle endpoint, const std::vector<std::uint64_t>& numbers, bool first, double timeout_s) {
  auto& group = group_of(endpoint.ptr());
  PythonHooks hooks(group);
  hooks.blocking();
  return group.messages().wait(numbers, first, timeout_s, hooks);
}

nb::tuple status(nb::handle endpoint, std::uint64_t number) {
  return tuple_of(group_of(endpoint.ptr()).messages().status(number));
}

bool drop(nb::handle endpoint, std::uint64_t number) {
  return group_of(endpoint.ptr()).messages().drop(number);
}

nb::object probe(nb::handle endpoint, int peer, int tag, double timeout_s, bool may_have_left) {
  std::optional<Envelope> found;
  {
    auto& group = group_of(endpoint.ptr());
    PythonHooks hooks(group);
    hooks.blocking();
    found = group.probe(peer, tag, timeout_s, hooks, may_have_left);
  }
  return found ? nb::object(tuple_of(*found)) : nb::none();
}

enum class Kind { send, recv, recv_at_most };

// Group.send(x, peer, tag) and its like: a plain array, to or from one rank or any. The bytes of the message; -1 where
// the slow path must look, and nothing was touched.
long transfer(PyObject* self, Kind kind, PyObject* const* args) {
  if (!is_whole(args[1]) || !is_whole(args[2])) return -1;
  int odd = 0, too_odd = 0;
  long peer = PyLong_AsLongAndOverflow(args[1], &odd), tag = PyLong_AsLongAndOverflow(args[2], &too_odd);
  auto& group = group_of(self);
  bool is_send = kind == Kind::send;
  long least = is_send ? 0 : ringtree::any;
  if (odd || too_odd || peer < least || peer >= group.ranks() || tag < least || tag > INT_MAX) return -1;
  View view;
  if (!view.get(args[0], is_send ? 0 : PyBUF_WRITABLE)) return -1;
  auto dtype = view.format() ? dtype_of_format(view.format(), view.itemsize()) : -1;
  if (dtype < 0) return -1;
  Operation operation{is_send,
                      static_cast<int>(peer),
                      static_cast<int>(tag),
                      view.data(),
                      static_cast<std::size_t>(view.nbytes()),
                      dtype,
                      kind == Kind::recv_at_most ? ringtree::Length::at_most : ringtree::Length::exact};
  PythonHooks hooks(group);
  if (group.threads() || operation.nbytes > quick_bytes) hooks.blocking();
  group.exchange({&operation, 1}, hooks);
  return static_cast<long>(operation.nbytes);
}

template <Kind kind>
PyObject* fast(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != 3) {
    PyErr_SetString(PyExc_TypeError, "expected (x, peer: int, tag: int)");
    return nullptr;
  }
  if constexpr (kind == Kind::recv_at_most) return guarded([&] { return transfer(self, kind, args); }, PyLong_FromLong);
  return guarded([&] { return transfer(self, kind, args) >= 0; });
}

template <Kind kind>
PyMethodDef fast_definition{kind == Kind::send   ? "send"
                            : kind == Kind::recv ? "recv"
                                                 : "recv_at_most",
                            reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fast<kind>)), METH_FASTCALL,
                            "The fast path; see the stub."};

}  // namespace

void bind_messages(nb::object type) {
  auto add = [&](const char* name, auto function, auto... arguments) {
    type.attr(name) = nb::cpp_function(function, nb::name(name), nb::scope(type), nb::is_method(), arguments...);
  };
  add("exchange", exchange, "operations"_a, "timeout_s"_a);
  add("receive", receive, "peer"_a, "tag"_a, "dtype"_a, "timeout_s"_a);
  add("post", post, "operation"_a);
  add("test", test, "number"_a);
  add("complete", complete, "numbers"_a, "first"_a, "timeout_s"_a);
  add("status", status, "number"_a);
  add("drop", drop, "number"_a);
  add("probe", probe, "peer"_a, "tag"_a, "timeout_s"_a, "may_have_left"_a = false);
  add_fast_method(type, fast_definition<Kind::send>);
  add_fast_method(type, fast_definition<Kind::recv>);
  add_fast_method(type, fast_definition<Kind::recv_at_most>);
}
