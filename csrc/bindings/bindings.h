// Shared parts of the files that know Python: the GIL, buffers, errors.
#pragma once

#include <nanobind/nanobind.h>
#include <sys/syscall.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "group/group.h"

namespace nb = nanobind;

// Lets go of the GIL when a wait turns out not to be short, and runs signal handlers now and then.
class PythonHooks final : public ringtree::Hooks {
 public:
  PythonHooks() = default;
  // `group`: whose end waits for the call's.
  explicit PythonHooks(const ringtree::Group& group) : group_(&group) {}
  PythonHooks(const PythonHooks&) = delete;
  ~PythonHooks() override {
    if (state_) PyEval_RestoreThread(state_);
  }
  void blocking() override {
    if (!state_) state_ = PyEval_SaveThread();
  }
  void interrupted() override {
    if (!in_main_thread()) return;  // handlers run there only
    bool held = state_ == nullptr;
    if (!held) PyEval_RestoreThread(std::exchange(state_, nullptr));
    calls_.push_back(group_);
    bool ends = PyErr_CheckSignals() != 0;
    calls_.pop_back();
    if (ends) throw ringtree::Interrupted{};
    if (!held) state_ = PyEval_SaveThread();
  }

  // Whether this is a signal's handler within a call of that group.
  static bool handles_within(const ringtree::Group& group) {
    return in_main_thread() && (std::ranges::find(calls_, &group) != calls_.end() || group.is_within_call());
  }

 private:
  static bool in_main_thread() { return getpid() == syscall(SYS_gettid); }

  static inline std::vector<const ringtree::Group*> calls_;  // in which handlers run; the main thread's
  const ringtree::Group* group_ = nullptr;
  PyThreadState* state_ = nullptr;
};

// A contiguous buffer of an object, given back at the end; `absent` for None.
class View {
 public:
  ~View() {
    if (view_.obj) PyBuffer_Release(&view_);
  }
  bool get(PyObject* object, int flags) {
    if (object == Py_None) return true;
    if (PyObject_GetBuffer(object, &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) == 0) return true;
    PyErr_Clear();
    return false;
  }
  bool held() const { return view_.obj; }
  std::byte* data() const { return static_cast<std::byte*>(view_.buf); }
  const char* format() const { return view_.format; }
  Py_ssize_t nbytes() const { return view_.len; }
  Py_ssize_t itemsize() const { return view_.itemsize; }
  Py_ssize_t count() const { return view_.itemsize ? view_.len / view_.itemsize : 0; }

 private:
  Py_buffer view_{};
};

constexpr std::size_t quick_bytes = 32768;  // so little work that letting go of the GIL would cost more

// A text of shared memory or of another host, which may be cut within a character.
nb::str text_of(std::string_view bytes);

// Sets Python's error.
void set_error(const ringtree::Error& error);
void set_error(const std::system_error& error);

// Runs what returns a new reference, for a method that nanobind does not wrap.
template <class Action>
PyObject* guarded_object(Action action) {
  try {
    return action();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const ringtree::Interrupted&) {  // Python's error is set
  } catch (const ringtree::Error& error) {
    set_error(error);
  } catch (const std::system_error& error) {
    set_error(error);
  } catch (const std::exception& error) {
    PyErr_SetObject(PyExc_RuntimeError, text_of(error.what()).ptr());
  }
  return nullptr;
}

// And what returns a truth, or another number.
template <class Action>
PyObject* guarded(Action action, PyObject* (*object_of)(long) = PyBool_FromLong) {
  return guarded_object([&] { return object_of(action()); });
}

// Whether it is an int, or of a class made from it (an IntEnum), and no truth value: the slow path refuses those.
inline bool is_whole(PyObject* given) {
  return PyLong_CheckExact(given) || (PyLong_Check(given) && !PyBool_Check(given));
}

// Adds a method that takes its arguments without the binding library between.
inline void add_fast_method(nb::object type, PyMethodDef& definition) {
  PyObject* method = PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &definition);
  if (!method) throw nb::python_error();
  type.attr(definition.ml_name) = nb::steal(method);
}

// The engine behind an instance of the class Group.
ringtree::Group& group_of(PyObject* endpoint);

// Adds the methods for calls that are like earlier ones to the class Group.
void bind_fast_path(nb::object type);
// Adds the class of methods that try those first.
void bind_fast_method(nb::module_& m);
// Adds the methods for point-to-point messages.
void bind_messages(nb::object type);
// And those for one-sided access.
void bind_one_sided(nb::object type);
// And those for what a rank did, and when.
void bind_recorder(nb::object type);
// Adds the class of what a flight recorder keeps.
void bind_flight_records(nb::module_& m);
// Adds the function that reads the memory of other processes' groups.
void bind_observed(nb::module_& m);
// Adds the classes that give a group its ranks' hosts and their wire.
void bind_network(nb::module_& m);
