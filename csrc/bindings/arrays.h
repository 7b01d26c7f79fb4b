// The memory of Python's arrays as the fast path reads it.
#pragma once

#include <array>
#include <span>

#include "bindings/tensors.h"
#include "interpreter/fast_path.h"

// The number of the element type that a buffer's format and size of an element mean; -1 for odd ones.
int dtype_of_format(const char* format, Py_ssize_t itemsize);

// Whether an object is a tensor on a device of CUDA, of a class that was met.
bool on_cuda(PyObject* object);

// An array of elements in order, of a known type: tensors by DLPack's exchange interface, numpy's of ml_dtypes' types
// by its array interface, all else by the buffer protocol. Nothing for None, of which 0 elements are read. The object
// must live as long as its view. `device`: of CUDA, whose memory it must be in, as torch's tensors are; or `on_host`.
class ArrayView {
 public:
  explicit ArrayView(int device) : device_(device) {}

  // Arrays of more have no shape here.
  static constexpr int most_axes = 8;

  // False: the slow path must look. `written`: the memory must be writable, too.
  bool get(PyObject* object, bool written);
  // Of what `blank` has made.
  bool get_blank(PyObject* object);

  ringtree::Form form() const { return form_; }
  std::byte* data() const { return data_; }
  Py_ssize_t count() const { return count_; }
  Py_ssize_t itemsize() const { return itemsize_; }
  Py_ssize_t nbytes() const { return count_ * itemsize_; }
  // The shape is that of an array of numpy's, or of a tensor of torch's own class; all else has none.
  bool has_shape() const { return axes_ >= 0; }
  // Whether it is the memory of an object that may let go of it when this view is gone.
  bool holds_buffer() const { return view_.held(); }
  std::span<const Py_ssize_t> shape() const { return {shape_.data(), static_cast<std::size_t>(axes_)}; }

 private:
  bool set_buffer();
  bool get_numpy(PyObject* array, bool written);
  bool get_tensor(PyObject* tensor, TensorClass& of, bool blank);
  bool set_shaped(void* data, std::span<const Py_ssize_t> shape, int dtype);
  bool set(void* data, Py_ssize_t count, int dtype);

  int device_;
  int axes_ = -1;
  std::array<Py_ssize_t, most_axes> shape_;
  ringtree::Form form_ = 0;
  std::byte* data_ = nullptr;
  Py_ssize_t count_ = 0, itemsize_ = 0;
  View view_;
};

// An array of the kind and type of `x`, which has a shape in its view: uninitialized, of the given shape.
nb::object blank(PyObject* x, const ArrayView& view, std::span<const Py_ssize_t> shape);
