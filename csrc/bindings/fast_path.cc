// Calls that are like earlier ones, without the binding library between: by buffers, and by addresses.
#include <cstring>
#include <type_traits>

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

// The plan remembered for (collective, dtype, op, root, x_address, x_count, out_address, out_count), and its memory.
struct ByAddress {
  std::shared_ptr<ringtree::PreparedProgram> plan;
  std::byte *x, *out;
};

ByAddress by_address(GroupObject& endpoint, PyObject* const* args) {
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

// Group.call_at, with the arguments of by_address.
bool call_at(GroupObject& endpoint, PyObject* const* args) {
  auto [plan, x, out] = by_address(endpoint, args);
  if (!plan) return false;
  PythonHooks hooks;
  endpoint.run(plan, x, out, hooks);
  return true;
}

// Group.start_at, with the arguments of by_address.
std::uint64_t start_at(GroupObject& endpoint, PyObject* const* args) {
  auto [plan, x, out] = by_address(endpoint, args);
  return plan ? endpoint.group().start(std::move(plan), x, out) : 0;
}

// A method without the binding library between.
template <auto method, Py_ssize_t arguments>
PyObject* fast(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != arguments) {
    PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd; see the stub", arguments, n);
    return nullptr;
  }
  auto action = [&] { return method(*nb::inst_ptr<GroupObject>(self), args); };
  return guarded(action, std::is_same_v<decltype(action()), bool> ? PyBool_FromLong : PyLong_FromLong);
}

template <auto method, Py_ssize_t arguments>
PyMethodDef fast_definition(const char* name) {
  auto function = reinterpret_cast<void (*)()>(fast<method, arguments>);
  return {name, reinterpret_cast<PyCFunction>(function), METH_FASTCALL, "The fast path; see the stub."};
}

PyMethodDef definitions[] = {fast_definition<call, 5>("call"), fast_definition<call_at, 8>("call_at"),
                             fast_definition<start_at, 8>("start_at")};

}  // namespace

void bind_fast_path(nb::object type) {
  for (auto& definition : definitions) add_fast_method(type, definition);
}
