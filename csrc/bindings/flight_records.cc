// What a flight recorder keeps of an operation: written when it begins, read when something has gone wrong.
#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "bindings/arrays.h"

namespace {

constexpr int most_axes = 6;

// The tensors on one side: one of a plain kind, or what Python says of them.
struct Side {
  std::int8_t dtype, axes;
  std::array<std::int64_t, most_axes> shape;
  PyObject* described;
};

struct FlightRecord {
  PyObject_HEAD PyObject *recorder, *name, *peer, *event;
  long long number, record, turn, ticket, tag, begun_ns, ended_ns;
  char failed;
  Side sides[2];
};

FlightRecord* record_of(PyObject* self) {
  return reinterpret_cast<FlightRecord*>(self);
}

long long now_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// False with Python's error.
bool describe(Side& side, PyObject* tensors, PyObject* describe_all) {
  nb::dlpack::dltensor found{};
  if (PyList_Check(tensors) && PyList_Size(tensors) == 1) {
    int dtype = read_tensor(PyList_GetItem(tensors, 0), found);
    if (dtype >= 0 && found.ndim <= most_axes) {
      side.dtype = static_cast<std::int8_t>(dtype);
      side.axes = static_cast<std::int8_t>(found.ndim);
      std::copy_n(found.shape, found.ndim, side.shape.begin());
      return true;
    }
  }
  side.described = PyObject_CallFunctionObjArgs(describe_all, tensors, nullptr);
  return side.described != nullptr;
}

PyObject* made(PyObject* type, PyObject* const* args) {
  nb::object made = nb::steal(PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0));
  if (!made.is_valid()) return nullptr;
  auto& record = *record_of(made.ptr());
  Py_INCREF(record.recorder = args[0]);
  Py_INCREF(record.name = args[1]);
  record.number = PyLong_AsLongLong(args[2]);
  record.record = -1;
  bool described = describe(record.sides[0], args[3], args[5]);
  if (args[4] != args[3])
    described = described && describe(record.sides[1], args[4], args[5]);
  else if (record.sides[1] = record.sides[0]; record.sides[1].described)
    Py_INCREF(record.sides[1].described);
  record.begun_ns = now_ns();
  return described && !PyErr_Occurred() ? made.release().ptr() : nullptr;
}

// FlightRecord.begun(recorder, name, number, inputs, outputs, describe), of the class that it is called of.
PyObject* begun(PyObject* type, PyObject* const* args, Py_ssize_t n) {
  if (n != 6) {
    PyErr_SetString(PyExc_TypeError, "expected (recorder, name, number, inputs, outputs, describe)");
    return nullptr;
  }
  return guarded_object([&] { return made(type, args); });
}

// FlightRecord.end(), and that of its event.
PyObject* end(PyObject* self, PyObject*) {
  auto& record = *record_of(self);
  if (record.ended_ns == 0) record.ended_ns = now_ns();
  if (record.event && record.event != Py_None) return PyObject_CallMethod(record.event, "end", nullptr);
  return nb::none().release().ptr();
}

// FlightRecord.side(number): a shape and the number of an element type, or what `describe` returned.
PyObject* side(PyObject* self, PyObject* number) {
  auto which = PyLong_AsLong(number);
  if (which != 0 && which != 1) return PyErr_Format(PyExc_IndexError, "side %ld of 2", which);
  auto& side = record_of(self)->sides[which];
  if (side.described) return nb::borrow(side.described).release().ptr();
  return guarded_object([&] {
    nb::list found;
    for (int axis = 0; axis < side.axes; axis++) found.append(side.shape[axis]);
    found.append(static_cast<int>(side.dtype));
    return nb::tuple(found).release().ptr();
  });
}

void dealloc(PyObject* self) {
  auto& record = *record_of(self);
  for (auto* held :
       {record.recorder, record.name, record.peer, record.event, record.sides[0].described, record.sides[1].described})
    Py_XDECREF(held);
  auto* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

#define MEMBER(name, kind) {#name, kind, offsetof(FlightRecord, name), 0, nullptr}
PyMemberDef members[] = {MEMBER(recorder, T_OBJECT),   MEMBER(name, T_OBJECT),       MEMBER(peer, T_OBJECT),
                         MEMBER(event, T_OBJECT),      MEMBER(number, T_LONGLONG),   MEMBER(record, T_LONGLONG),
                         MEMBER(turn, T_LONGLONG),     MEMBER(ticket, T_LONGLONG),   MEMBER(tag, T_LONGLONG),
                         MEMBER(begun_ns, T_LONGLONG), MEMBER(ended_ns, T_LONGLONG), MEMBER(failed, T_BOOL),
                         {nullptr, 0, 0, 0, nullptr}};
#undef MEMBER

PyMethodDef methods[] = {{"begun", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(begun)),
                          METH_FASTCALL | METH_CLASS, "A record of what begins now; see the stub."},
                         {"end", end, METH_NOARGS, "Writes the time, once, and ends the event."},
                         {"side", side, METH_O, "The inputs (0) or the outputs (1); see the stub."},
                         {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_members, members},
                       {Py_tp_methods, methods},
                       {Py_tp_doc, const_cast<char*>("An operation of a flight recorder.")},
                       {0, nullptr}};
PyType_Spec spec{"ringtree._native.FlightRecord", sizeof(FlightRecord), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                 slots};

}  // namespace

void bind_flight_records(nb::module_& m) {
  nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  m.attr("FlightRecord") = type;
}
