#include "bindings/arrays.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace {

using ringtree::Dtype;

constexpr int unknown = unknown_dtype;
constexpr Py_ssize_t widest_alignment = 8;  // of any element type; less is left to the slow path, which copies

// PyArrayInterface, which numpy's __array_struct__ points to:
// https://numpy.org/doc/stable/reference/arrays.interface.html
struct ArrayInterface {
  int two, nd;
  char typekind;
  int itemsize, flags;
  Py_ssize_t *shape, *strides;
  void* data;
  PyObject* descr;
};
constexpr int c_contiguous = 0x1, aligned = 0x100, native = 0x200, writeable = 0x400, has_fields = 0x800;

PyObject* interned(const char* text) {
  PyObject* made = PyUnicode_InternFromString(text);
  if (!made) throw nb::python_error();
  return made;
}

// A member of a module, or of a class there, kept in `at`. No static of C++: its guard would be held while Python runs.
PyObject* kept(PyObject*& at, const char* module, const char* name, const char* of = nullptr) {
  if (!at) {
    nb::object holder = nb::module_::import_(module);
    if (of) holder = holder.attr(of);
    at = nb::object(holder.attr(name)).release().ptr();
  }
  return at;
}

// numpy's class of arrays.
PyTypeObject* numpy_arrays() {
  static PyObject* found = nullptr;
  return reinterpret_cast<PyTypeObject*>(kept(found, "numpy", "ndarray"));
}

// Whether it is an array of numpy.ma: its buffer is there, but not its mask. The slow path refuses it.
bool is_masked(PyObject* object) {
  if (!PyType_IsSubtype(Py_TYPE(object), numpy_arrays())) return false;
  for (nb::handle of : nb::tuple(nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object))).attr("__mro__")))
    if (std::string_view(nb::str(of.attr("__name__")).c_str()) == "MaskedArray") return true;
  return false;
}

// How numpy lays out an array in memory, as all that is compiled with its headers has it inlined (PyArray_DATA and so
// on). Read only where it was seen to agree with the array interface: to make that takes as long as a call.
struct ArrayFields {
  PyObject_HEAD char* data;
  int nd;
  Py_ssize_t *dimensions, *strides;
  PyObject *base, *dtype;
  int flags;

  bool agree(const ArrayInterface& found, PyObject* its_dtype) const {
    constexpr int shown = c_contiguous | aligned | writeable;
    return data == found.data && nd == found.nd && dtype == its_dtype && (flags & shown) == (found.flags & shown) &&
           std::equal(dimensions, dimensions + nd, found.shape);
  }
};

// The element types of dtype objects of numpy's; those met are kept.
std::array<std::pair<PyObject*, int>, 32> dtypes_met{};

int dtype_met(PyObject* dtype) {
  for (auto& [met, code] : dtypes_met) {
    if (met == dtype) return code;
    if (!met) break;
  }
  return unknown;
}

nb::object dtype_object(PyObject* array) {
  static PyObject* text = interned("dtype");
  nb::object dtype = nb::steal(PyObject_GetAttr(array, text));
  if (!dtype.is_valid()) throw nb::python_error();
  return dtype;
}

// The types of ml_dtypes, which numpy knows as bits: by their names.
int dtype_of_bits(PyObject* dtype) {
  nb::object name = nb::steal(PyObject_GetAttrString(dtype, "name"));
  const char* text = name.is_valid() ? PyUnicode_AsUTF8AndSize(name.ptr(), nullptr) : nullptr;
  if (!text) throw nb::python_error();
  for (auto kind : {Dtype::bfloat16, Dtype::float8_e4m3fn, Dtype::float8_e5m2})
    if (ringtree::dtype_name(static_cast<int>(kind)) == text) return static_cast<int>(kind);
  return unknown;
}

}  // namespace

int dtype_of_kind(char kind, int itemsize) {
  struct Plain {
    char kind;
    int itemsize;
    Dtype dtype;
  };
  static constexpr Plain plain[] = {{'f', 4, Dtype::float32},   {'f', 8, Dtype::float64},    {'f', 2, Dtype::float16},
                                    {'i', 4, Dtype::int32},     {'i', 8, Dtype::int64},      {'u', 1, Dtype::uint8},
                                    {'b', 1, Dtype::boolean},   {'i', 1, Dtype::int8},       {'i', 2, Dtype::int16},
                                    {'u', 2, Dtype::uint16},    {'u', 4, Dtype::uint32},     {'u', 8, Dtype::uint64},
                                    {'c', 8, Dtype::complex64}, {'c', 16, Dtype::complex128}};
  for (auto& known : plain)
    if (known.kind == kind && known.itemsize == itemsize) return static_cast<int>(known.dtype);
  return unknown;
}

int dtype_of_format(const char* format, Py_ssize_t itemsize) {
  static constexpr std::pair<std::string_view, Dtype> plain[] = {
      {"f", Dtype::float32}, {"d", Dtype::float64}, {"i", Dtype::int32},      {"l", Dtype::int64},
      {"q", Dtype::int64},   {"B", Dtype::uint8},   {"?", Dtype::boolean},    {"b", Dtype::int8},
      {"h", Dtype::int16},   {"H", Dtype::uint16},  {"I", Dtype::uint32},     {"L", Dtype::uint64},
      {"Q", Dtype::uint64},  {"e", Dtype::float16}, {"Zf", Dtype::complex64}, {"Zd", Dtype::complex128}};
  for (auto& [known, dtype] : plain)
    if (known == format) {
      auto code = static_cast<int>(dtype);
      return itemsize == static_cast<Py_ssize_t>(ringtree::dtype_bytes(code)) ? code : unknown;
    }
  return unknown;
}

bool on_cuda(PyObject* object) {
  if (Py_TYPE(object) == numpy_arrays()) return false;
  auto* of = TensorClass::of(object, false);
  return of && of->on_cuda(object);
}

bool ArrayView::get(PyObject* object, bool written) {
  if (object == Py_None) return true;
  if (device_ == on_host && Py_TYPE(object) == numpy_arrays()) return get_numpy(object, written);
  if (auto* of = TensorClass::of(object, false)) return get_tensor(object, *of, false);
  if (device_ == on_host && view_.get(object, written ? PyBUF_WRITABLE : 0)) return !is_masked(object) && set_buffer();
  auto* of = TensorClass::of(object, true);
  return of && get_tensor(object, *of, false);
}

bool ArrayView::get_blank(PyObject* object) {
  if (Py_TYPE(object) == numpy_arrays()) return get_numpy(object, true);
  auto* of = TensorClass::of(object, false);
  return of && get_tensor(object, *of, true);
}

bool ArrayView::set_buffer() {
  if (!view_.format()) return false;
  if (reinterpret_cast<std::uintptr_t>(view_.data()) % std::clamp<Py_ssize_t>(view_.itemsize(), 1, widest_alignment))
    return false;
  auto dtype = dtype_of_format(view_.format(), view_.itemsize());
  form_ = dtype == unknown ? ringtree::form_of(view_.format()) : ringtree::form_of(dtype);
  data_ = view_.data();
  count_ = view_.count();
  itemsize_ = view_.itemsize();
  return form_ != 0;
}

bool ArrayView::get_numpy(PyObject* array, bool written) {
  auto& fields = *reinterpret_cast<ArrayFields*>(array);
  int needed = c_contiguous | aligned | (written ? writeable : 0), dtype = unknown;
  if (dtypes_met[0].first && (dtype = dtype_met(fields.dtype)) != unknown)
    return (fields.flags & needed) == needed &&
           set_shaped(fields.data, {fields.dimensions, static_cast<std::size_t>(fields.nd)}, dtype);
  static PyObject* name = interned("__array_struct__");
  nb::object capsule = nb::steal(PyObject_GetAttr(array, name));
  auto* found =
      capsule.is_valid() ? static_cast<ArrayInterface*>(PyCapsule_GetPointer(capsule.ptr(), nullptr)) : nullptr;
  if (!found) throw nb::python_error();
  if (found->flags & has_fields || !(found->flags & native)) return false;
  nb::object kind = dtype_object(array);
  dtype = dtype_of_kind(found->typekind, found->itemsize);
  if (dtype == unknown && found->itemsize <= 2) dtype = dtype_of_bits(kind.ptr());
  if (auto free = std::ranges::find(dtypes_met, nullptr, &std::pair<PyObject*, int>::first);
      dtype != unknown && free != dtypes_met.end() && fields.agree(*found, kind.ptr()))
    *free = {kind.release().ptr(), dtype};
  return (found->flags & needed) == needed &&
         set_shaped(found->data, {found->shape, static_cast<std::size_t>(found->nd)}, dtype);
}

bool ArrayView::get_tensor(PyObject* tensor, TensorClass& of, bool blank) {
  auto found = of.plain(tensor, blank, device_);
  if (!found) return false;
  std::int64_t count = 1;
  for (auto n : found->shape) count *= n;
  auto axes = found->shape.size();
  if (of.own() && axes <= most_axes) std::ranges::copy(found->shape, shape_.begin()), axes_ = static_cast<int>(axes);
  return set(found->data, count, found->dtype);
}

bool ArrayView::set_shaped(void* data, std::span<const Py_ssize_t> shape, int dtype) {
  Py_ssize_t count = 1;
  for (auto n : shape) count *= n;
  if (shape.size() <= most_axes) {
    std::ranges::copy(shape, shape_.begin());
    axes_ = static_cast<int>(shape.size());
  }
  return set(data, count, dtype);
}

bool ArrayView::set(void* data, Py_ssize_t count, int dtype) {
  if (dtype == unknown) return false;
  form_ = ringtree::form_of(dtype);
  data_ = static_cast<std::byte*>(data);
  count_ = count;
  itemsize_ = static_cast<Py_ssize_t>(ringtree::dtype_bytes(dtype));
  return true;
}

nb::object blank(PyObject* x, const ArrayView& view, std::span<const Py_ssize_t> shape) {
  bool of_numpy = Py_TYPE(x) == numpy_arrays();
  if (!of_numpy && std::ranges::equal(shape, view.shape())) {
    static PyObject* empty_like = nullptr;
    return nb::steal(PyObject_Vectorcall(kept(empty_like, "torch", "empty_like"), &x, 1, nullptr));
  }
  if (!of_numpy) {
    static PyObject* new_empty = nullptr;
    std::vector<nb::object> numbers;  // which torch takes sooner one by one than as a tuple
    std::vector<PyObject*> given{x};
    for (auto n : shape) given.push_back(numbers.emplace_back(nb::int_(n)).ptr());
    return nb::steal(
        PyObject_Vectorcall(kept(new_empty, "torch", "new_empty", "Tensor"), given.data(), given.size(), nullptr));
  }
  static PyObject* empty = nullptr;
  nb::object axes = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t axis = 0; axis < shape.size(); axis++)
    PyTuple_SetItem(axes.ptr(), static_cast<Py_ssize_t>(axis), PyLong_FromSsize_t(shape[axis]));
  nb::object dtype = dtype_object(x);
  PyObject* given[] = {axes.ptr(), dtype.ptr()};
  return nb::steal(PyObject_Vectorcall(kept(empty, "numpy", "empty"), given, 2, nullptr));
}
