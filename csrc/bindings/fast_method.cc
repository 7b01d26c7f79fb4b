// A method of a class of Python's, whose calls are tried on the fast path before Python makes a frame for them: that
// takes longer than a call of a few bytes. All that the fast path does not know is its function's.
#include <Python.h>
#include <structmember.h>  // which needs the former

#include <array>
#include <cstddef>
#include <string_view>

#include "bindings/bindings.h"

namespace {

// A method's arguments, as far as the fast path takes them; a call that gives another is the function's.
enum Parameter : std::uint8_t { x, op, root, out, parameters };
using Given = std::array<PyObject*, parameters>;

// Who gives and who gets the arrays, on which the arguments of `call` and `call_shaped` depend.
enum class Roles : std::uint8_t { alike, to_root, from_root, filled, none };
constexpr std::array<std::string_view, 5> roles_names = {"alike", "to_root", "from_root", "filled", "none"};

struct Names {
  std::array<PyObject*, parameters> parameter;
  PyObject *call, *call_shaped, *call_barrier, *rank, *doc, *module, *no_op, *sum, *no_root, *root_0;
};

// Made with the class, and kept as long as the process.
Names names;
PyObject* bound_method;  // types.MethodType

struct FastMethod {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function, *collective, *shape;
  std::array<Parameter, parameters> positional;
  int most_positional;
  bool reduces;
  Roles roles;
};

FastMethod& of(PyObject* object) {
  return *reinterpret_cast<FastMethod*>(object);
}

// False where an argument is given that the fast path does not take, or none that it needs.
bool sort(const FastMethod& method, PyObject* const* args, Py_ssize_t n, PyObject* keywords, Given& given) {
  if (n < 1 || n - 1 > method.most_positional) return false;
  for (int i = 0; i < n - 1; i++) given[method.positional[i]] = args[i + 1];
  auto more = keywords ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t i = 0; i < more; i++) {
    auto* found = std::ranges::find(names.parameter, PyTuple_GetItem(keywords, i));
    if (found == names.parameter.end()) return false;
    auto& place = given[found - names.parameter.begin()];
    if (place) return false;
    place = args[n + i];
  }
  if (!method.reduces && given[op]) return false;
  if (!given[op]) given[op] = method.reduces ? names.sum : names.no_op;
  if (!given[out]) given[out] = Py_None;
  return method.roles == Roles::none || given[x];
}

// Calls a method of `self` by its name; the result of a call that was not made is `nothing`.
template <class... Arguments>
nb::object ask(PyObject* self, PyObject* name, PyObject* nothing, Arguments... arguments) {
  nb::object method = nb::steal(PyObject_GetAttr(self, name));
  if (!method.is_valid()) throw nb::python_error();
  std::array<PyObject*, sizeof...(arguments) + 1> args = {nullptr, arguments...};
  auto n = sizeof...(arguments) | PY_VECTORCALL_ARGUMENTS_OFFSET;
  nb::object made = nb::steal(PyObject_Vectorcall(method.ptr(), args.data() + 1, n, nullptr));
  if (!made.is_valid()) throw nb::python_error();
  return made.ptr() == nothing ? nb::object() : made;
}

bool is_root(PyObject* self, PyObject* given) {
  nb::object rank = nb::steal(PyObject_GetAttr(self, names.rank));
  if (!rank.is_valid()) throw nb::python_error();
  int odd = 0;
  return PyLong_AsLongAndOverflow(rank.ptr(), &odd) == PyLong_AsLongAndOverflow(given, &odd) && !odd;
}

// The result of the call by the fast path; nothing where that did not make it.
nb::object try_fast(const FastMethod& method, PyObject* self, const Given& given) {
  auto call = [&](PyObject* in, PyObject* to, PyObject* at) {
    return ask(self, names.call, Py_False, method.collective, in, to, given[op], at);
  };
  auto call_shaped = [&](PyObject* at) {
    return ask(self, names.call_shaped, Py_None, method.collective, given[x], given[out], given[op], at, method.shape);
  };
  if (method.roles == Roles::none)
    return ask(self, names.call_barrier, Py_False).is_valid() ? nb::none() : nb::object();
  if (method.roles == Roles::alike) return given[root] ? nb::object() : call_shaped(names.no_root);
  PyObject* at = given[root] ? given[root] : names.root_0;
  if (!PyLong_CheckExact(at)) return {};
  if (method.roles == Roles::filled)
    return call(given[x], given[x], at).is_valid() ? nb::borrow(given[x]) : nb::object();
  if (is_root(self, at)) return call_shaped(at);
  if (method.roles == Roles::to_root) return call(given[x], Py_None, at).is_valid() ? nb::none() : nb::object();
  bool made = given[out] != Py_None && call(Py_None, given[out], at).is_valid();
  return made ? nb::borrow(given[out]) : nb::object();
}

PyObject* call(PyObject* object, PyObject* const* args, std::size_t flagged, PyObject* keywords) {
  auto& method = of(object);
  auto n = PyVectorcall_NARGS(flagged);
  return guarded_object([&] {
    Given given{};
    if (sort(method, args, n, keywords, given))
      if (nb::object made = try_fast(method, args[0], given); made.is_valid()) return made.release().ptr();
    return PyObject_Vectorcall(method.function, args, flagged, keywords);
  });
}

[[noreturn]] void refuse(const char* reason) {
  PyErr_SetString(PyExc_ValueError, reason);
  throw nb::python_error();
}

// FastMethod(function, collective, roles, shape): its positional parameters are the function's.
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *collective, *shape;
  const char* roles;
  if (!PyArg_ParseTuple(args, "OOsO", &function, &collective, &roles, &shape)) return nullptr;
  return guarded_object([&] {
    auto known = std::ranges::find(roles_names, roles);
    if (known == roles_names.end()) refuse("unknown roles");
    auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    nb::object made = nb::steal(allocate(type, 0));
    if (!made.is_valid()) throw nb::python_error();
    auto& method = of(made.ptr());
    method.vectorcall = call;
    method.roles = static_cast<Roles>(known - roles_names.begin());
    nb::object code = nb::borrow(function).attr("__code__"), variables = code.attr("co_varnames");
    auto count = nb::cast<int>(code.attr("co_argcount")) - 1;
    if (count < 0 || count > parameters) refuse("another number of parameters by position");
    for (int i = 0; i < count; i++) {
      auto named = [&](PyObject* name) { return PyUnicode_Compare(name, nb::object(variables[i + 1]).ptr()) == 0; };
      auto* found = std::ranges::find_if(names.parameter, named);
      if (found == names.parameter.end()) refuse("a parameter that the fast path does not know");
      method.positional[i] = static_cast<Parameter>(found - names.parameter.begin());
      method.reduces |= method.positional[i] == op;
    }
    method.most_positional = count;
    method.function = nb::borrow(function).release().ptr();
    method.collective = nb::borrow(collective).release().ptr();
    method.shape = nb::borrow(shape).release().ptr();
    return made.release().ptr();
  });
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto& method = of(object);
  Py_VISIT(method.function);
  Py_VISIT(method.collective);
  Py_VISIT(method.shape);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

int clear(PyObject* object) {
  auto& method = of(object);
  Py_CLEAR(method.function);
  Py_CLEAR(method.collective);
  Py_CLEAR(method.shape);
  return 0;
}

void destroy(PyObject* object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  PyTypeObject* type = Py_TYPE(object);
  auto release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(type);
}

// Read from an instance it is a method of that, as a function is.
PyObject* bind(PyObject* object, PyObject* instance, PyObject*) {
  if (instance && instance != Py_None) {
    PyObject* of_both[] = {object, instance};
    return PyObject_Vectorcall(bound_method, of_both, 2, nullptr);
  }
  return nb::borrow(object).release().ptr();
}

PyObject* function(PyObject* object, void*) {
  return nb::borrow(of(object).function).release().ptr();
}

PyObject* documentation(PyObject* object, void*) {
  return PyObject_GetAttr(of(object).function, names.doc);
}

// help(), inspect and all else that asks see the function. The type has a module of its own, an instance has not.
PyObject* attribute(PyObject* object, PyObject* name) {
  bool own = PyUnicode_Compare(name, names.module) != 0;
  if (PyObject* found = own ? PyObject_GenericGetAttr(object, name) : nullptr) return found;
  if (own && !PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
  PyErr_Clear();
  return PyObject_GetAttr(of(object).function, name);
}

PyObject* described(PyObject* object) {
  return PyObject_Repr(of(object).function);
}

PyGetSetDef shown[] = {
    {"__doc__", documentation, nullptr, nullptr, nullptr}, {"__wrapped__", function, nullptr, nullptr, nullptr}, {}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(FastMethod, vectorcall), READONLY, nullptr}, {}};

template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

PyType_Slot slots[] = {{Py_tp_new, slot(make)},
                       {Py_tp_dealloc, slot(destroy)},
                       {Py_tp_traverse, slot(traverse)},
                       {Py_tp_clear, slot(clear)},
                       {Py_tp_call, slot(PyVectorcall_Call)},
                       {Py_tp_descr_get, slot(bind)},
                       {Py_tp_getattro, slot(attribute)},
                       {Py_tp_repr, slot(described)},
                       {Py_tp_members, members},
                       {Py_tp_getset, shown},
                       {}};

PyType_Spec spec = {"ringtree._native.FastMethod", sizeof(FastMethod), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                    slots};

PyObject* interned(const char* text) {
  PyObject* made = PyUnicode_InternFromString(text);
  if (!made) throw nb::python_error();
  return made;
}

}  // namespace

void bind_fast_method(nb::module_& m) {
  names = {{interned("x"), interned("op"), interned("root"), interned("out")},
           interned("call"),
           interned("call_shaped"),
           interned("call_barrier"),
           interned("rank"),
           interned("__doc__"),
           interned("__module__"),
           interned(""),
           interned("sum"),
           PyLong_FromLong(-1),
           PyLong_FromLong(0)};
  bound_method = nb::object(nb::module_::import_("types").attr("MethodType")).release().ptr();
  nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  m.attr("FastMethod") = type;
}
