// Calls that are like earlier ones, without the binding library between: by arrays, and by addresses.
#include <algorithm>
#include <array>
#include <type_traits>

#include "bindings/arrays.h"
#include "bindings/group_object.h"

namespace {

using ringtree::Bytes;
using ringtree::CallSignature;
using ringtree::form_of;

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

// The plan remembered for a call, and the memory that it is to be run on.
struct Known {
  std::shared_ptr<ringtree::PreparedProgram> plan;
  std::byte *x, *out;
};

// For (collective, x, out, op, root).
Known by_arrays(GroupObject& endpoint, PyObject* const* args) {
  CallSignature signature{};
  if (!whole(args[0], signature.collective) || !text(args[3], signature.op) || !whole(args[4], signature.root))
    return {};
  ArrayView in, own_out;
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
Known by_address(GroupObject& endpoint, PyObject* const* args) {
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

// Group.call and Group.call_at.
template <auto find>
bool call(GroupObject& endpoint, PyObject* const* args) {
  auto [plan, x, out] = find(endpoint, args);
  if (!plan) return false;
  PythonHooks hooks;
  endpoint.run(plan, x, out, hooks);
  return true;
}

// The result's shape, by that of x: as it is; one for each rank, stacked; a rank's block of its rows; as it is, where
// the rows are cut into one block a rank. As in protocols.py.
enum class Shape { same, stacked, block, blocks };

// Group.call_shaped(collective, x, out, op, root, shape): the result, which is `out` where it is given.
PyObject* call_shaped(GroupObject& endpoint, PyObject* const* args) {
  auto *x = args[1], *out = args[2];
  auto nothing = [] { return nb::none().release().ptr(); };
  int number;
  CallSignature signature{};
  if (!whole(args[0], signature.collective) || !text(args[3], signature.op) || !whole(args[4], signature.root) ||
      !whole(args[5], number))
    return nothing();
  auto shape = static_cast<Shape>(number);
  bool by_rows = shape == Shape::block || shape == Shape::blocks;
  auto ranks = static_cast<Py_ssize_t>(endpoint.group().ranks());
  nb::object result = nb::borrow(out);
  ArrayView from;
  if (!from.get(x, x == out)) return nothing();
  if (!from.has_shape())
    return out != Py_None && !by_rows && call<by_arrays>(endpoint, args) ? result.release().ptr() : nothing();
  if (by_rows && (from.shape().empty() || from.shape()[0] % ranks)) return nothing();
  ArrayView own;
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
  if (!plan) return nothing();
  PythonHooks hooks;
  endpoint.run(plan, read.data, written.data, hooks);
  return result.release().ptr();
}

// Group.start_at.
long start_at(GroupObject& endpoint, PyObject* const* args) {
  auto [plan, x, out] = by_address(endpoint, args);
  return plan ? static_cast<long>(endpoint.group().start(std::move(plan), x, out)) : 0;
}

// Group.start_call. A rank alone has mostly made the call when it has started it; an error is its ticket's.
long start_call(GroupObject& endpoint, PyObject* const* args) {
  auto [plan, x, out] = by_arrays(endpoint, args);
  if (!plan) return 0;
  auto& group = endpoint.group();
  auto ticket = group.start(std::move(plan), x, out);
  return group.ranks() == 1 && group.done(ticket) && !group.has_failed(ticket) ? -1 : static_cast<long>(ticket);
}

// A method without the binding library between.
template <auto method, Py_ssize_t arguments>
PyObject* fast(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != arguments) {
    PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd; see the stub", arguments, n);
    return nullptr;
  }
  auto action = [&] { return method(*nb::inst_ptr<GroupObject>(self), args); };
  if constexpr (std::is_same_v<decltype(action()), PyObject*>)
    return guarded_object(action);
  else
    return guarded(action, std::is_same_v<decltype(action()), bool> ? PyBool_FromLong : PyLong_FromLong);
}

template <auto method, Py_ssize_t arguments>
PyMethodDef fast_definition(const char* name) {
  auto function = reinterpret_cast<void (*)()>(fast<method, arguments>);
  return {name, reinterpret_cast<PyCFunction>(function), METH_FASTCALL, "The fast path; see the stub."};
}

PyMethodDef definitions[] = {fast_definition<call<by_arrays>, 5>("call"),
                             fast_definition<call_shaped, 6>("call_shaped"),
                             fast_definition<start_call, 5>("start_call"),
                             fast_definition<call<by_address>, 8>("call_at"), fast_definition<start_at, 8>("start_at")};

}  // namespace

void bind_fast_path(nb::object type) {
  for (auto& definition : definitions) add_fast_method(type, definition);
}
