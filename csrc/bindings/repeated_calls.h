// Calls that are like earlier ones, on whichever endpoint, without the binding library between: by arrays, and by
// addresses. An endpoint has `device`, whose memory its arrays are in; `ranks`; `ready`, false where no call is to be
// made so; `recall`, which finds a plan; and `perform`, which runs it, or does nothing and returns false.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "bindings/group_object.h"

namespace repeated_calls {

using ringtree::Bytes;
using ringtree::CallSignature;
using ringtree::form_of;

// Odd arguments (a numpy integer or a truth value as root, no operation) are for the slow path to take or to refuse.
inline bool whole(PyObject* given, Py_ssize_t& number) {
  int odd = 0;
  if (!is_whole(given)) return false;
  number = PyLong_AsLongAndOverflow(given, &odd);
  return !odd;
}

inline bool whole(PyObject* given, int& number) {
  Py_ssize_t wide;
  if (!whole(given, wide)) return false;
  number = static_cast<int>(wide);
  return number == wide;
}

inline bool text(PyObject* given, std::string_view& result) {
  Py_ssize_t length;
  if (!PyUnicode_Check(given)) return false;
  const char* utf8 = PyUnicode_AsUTF8AndSize(given, &length);
  if (!utf8) throw nb::python_error();
  result = {utf8, static_cast<std::size_t>(length)};
  return true;
}

// The plan remembered for a call, and the memory that it is to be run on.
template <class Plan>
struct Known {
  std::shared_ptr<Plan> plan;
  std::byte *x, *out;
};
template <class Endpoint>
using KnownTo = Known<typename Endpoint::Plan>;

// A call's arrays. Their memory stays where it is as long as this lives: Python refuses to resize a bytearray whose
// buffer somebody holds.
struct Arrays {
  ArrayView in, own_out;
  explicit Arrays(int device) : in(device), own_out(device) {}
};

// For (collective, x, out, op, root).
template <class Endpoint>
KnownTo<Endpoint> by_arrays(Endpoint& endpoint, PyObject* const* args, Arrays& arrays) {
  if (!endpoint.ready()) return {};
  CallSignature signature{};
  if (!whole(args[0], signature.collective) || !text(args[3], signature.op) || !whole(args[4], signature.root))
    return {};
  auto& [in, own_out] = arrays;
  bool same = args[1] == args[2];
  if (!in.get(args[1], same) || (!same && !own_out.get(args[2], true))) return {};
  const ArrayView& to = same ? in : own_out;
  const ArrayView& shown = in.form() ? in : to;
  if (!shown.form() || (to.form() && to.form() != shown.form())) return {};
  signature.form = shown.form();
  signature.in_count = in.count();
  signature.out_count = to.count();
  Bytes x{in.data(), in.nbytes()}, out{to.data(), to.nbytes()};
  return {endpoint.recall(signature, x, out, shown.itemsize()), x.data, out.data};
}

// For (collective, dtype, op, root, x_address, x_count, out_address, out_count).
template <class Endpoint>
KnownTo<Endpoint> by_address(Endpoint& endpoint, PyObject* const* args) {
  CallSignature signature{};
  int dtype;
  Py_ssize_t from, to;
  if (!whole(args[0], signature.collective) || !whole(args[1], dtype) || !text(args[2], signature.op) ||
      !whole(args[3], signature.root) || !whole(args[4], from) || !whole(args[5], signature.in_count) ||
      !whole(args[6], to) || !whole(args[7], signature.out_count))
    return {};
  auto itemsize = static_cast<Py_ssize_t>(ringtree::dtype_bytes(dtype));
  signature.form = form_of(dtype);
  Bytes x{reinterpret_cast<std::byte*>(from), signature.in_count * itemsize};
  Bytes out{reinterpret_cast<std::byte*>(to), signature.out_count * itemsize};
  return {endpoint.recall(signature, x, out, itemsize), x.data, out.data};
}

// Group.call.
template <class Endpoint>
bool call(Endpoint& endpoint, PyObject* const* args) {
  Arrays arrays(endpoint.device());
  auto [plan, x, out] = by_arrays(endpoint, args, arrays);
  return plan && endpoint.perform(plan, x, out);
}

// Group.call_at.
template <class Endpoint>
bool call_at(Endpoint& endpoint, PyObject* const* args) {
  auto [plan, x, out] = by_address(endpoint, args);
  return plan && endpoint.perform(plan, x, out);
}

// The result's shape, by that of x: as it is; one for each rank, stacked; a rank's block of its rows; as it is, where
// the rows are cut into one block a rank. As in protocols.py.
enum class Shape { same, stacked, block, blocks };

// Group.call_shaped(collective, x, out, op, root, shape): the result, which is `out` where it is given.
template <class Endpoint>
PyObject* call_shaped(Endpoint& endpoint, PyObject* const* args) {
  auto *x = args[1], *out = args[2];
  auto nothing = [] { return nb::none().release().ptr(); };
  if (!endpoint.ready()) return nothing();
  int number;
  CallSignature signature{};
  if (!whole(args[0], signature.collective) || !text(args[3], signature.op) || !whole(args[4], signature.root) ||
      !whole(args[5], number))
    return nothing();
  auto shape = static_cast<Shape>(number);
  bool by_rows = shape == Shape::block || shape == Shape::blocks;
  auto ranks = static_cast<Py_ssize_t>(endpoint.ranks());
  nb::object result = nb::borrow(out);
  ArrayView from(endpoint.device());
  if (!from.get(x, x == out)) return nothing();
  if (!from.has_shape()) return out != Py_None && !by_rows && call(endpoint, args) ? result.release().ptr() : nothing();
  if (by_rows && (from.shape().empty() || from.shape()[0] % ranks)) return nothing();
  ArrayView own(endpoint.device());
  const ArrayView* to = &own;
  if (out == Py_None) {
    std::array<Py_ssize_t, ArrayView::most_axes + 1> axes;
    bool stacked = shape == Shape::stacked;
    axes[0] = ranks;
    std::ranges::copy(from.shape(), axes.begin() + stacked);
    if (shape == Shape::block) axes[0] /= ranks;
    result = blank(x, from, {axes.data(), from.shape().size() + stacked});
    if (!result.is_valid()) throw nb::python_error();
    if (!own.get_blank(result.ptr())) return nothing();
  } else if (x == out) {
    to = &from;
  } else if (!own.get(out, true)) {
    return nothing();
  }
  if (from.form() != to->form()) return nothing();
  signature.form = from.form();
  signature.in_count = from.count();
  signature.out_count = to->count();
  Bytes read{from.data(), from.nbytes()}, written{to->data(), to->nbytes()};
  auto plan = endpoint.recall(signature, read, written, from.itemsize());
  if (!plan || !endpoint.perform(plan, read.data, written.data)) return nothing();
  return result.release().ptr();
}

// Group.start_call, of arrays that stay where they are while they live; the slow path keeps the buffers of others until
// the call is over. A rank alone has mostly made the call when it has started it; an error is its ticket's.
inline long start_call(GroupObject& endpoint, PyObject* const* args) {
  Arrays arrays(endpoint.device());
  auto [plan, x, out] = by_arrays(endpoint, args, arrays);
  if (!plan || arrays.in.holds_buffer() || arrays.own_out.holds_buffer()) return 0;
  auto& group = endpoint.group();
  auto ticket = group.start(std::move(plan), x, out);
  return group.ranks() == 1 && group.done(ticket) && !group.has_failed(ticket) ? -1 : static_cast<long>(ticket);
}

// A method without the binding library between.
template <class Class, auto method, Py_ssize_t arguments>
PyObject* fast(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != arguments) {
    PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd; see the stub", arguments, n);
    return nullptr;
  }
  auto action = [&] { return method(*nb::inst_ptr<Class>(self), args); };
  if constexpr (std::is_same_v<decltype(action()), PyObject*>)
    return guarded_object(action);
  else
    return guarded(action, std::is_same_v<decltype(action()), bool> ? PyBool_FromLong : PyLong_FromLong);
}

template <class Class, auto method, Py_ssize_t arguments>
PyMethodDef fast_definition(const char* name) {
  auto function = reinterpret_cast<void (*)()>(fast<Class, method, arguments>);
  return {name, reinterpret_cast<PyCFunction>(function), METH_FASTCALL, "The fast path; see the stub."};
}

}  // namespace repeated_calls
