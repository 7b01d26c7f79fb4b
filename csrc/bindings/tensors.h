// The memory of tensors as the fast path reads it.
#pragma once

#include <nanobind/ndarray.h>

#include <array>
#include <optional>
#include <span>

#include "bindings/bindings.h"
#include "bindings/torch_abi.h"

constexpr int unknown_dtype = -1;
constexpr int on_host = -1;  // in the place of a device's number

// The number of the element type of a kind, as numpy's array interface has it, and a size in bytes.
int dtype_of_kind(char kind, int itemsize);

// What DLPack's exchange interface shows of a tensor, whose type must have it and whose elements the engine must know:
// the number of its element type; -1 for all else. `found` is the tensor's own, and good as long as that is left alone.
int read_tensor(PyObject* object, nb::dlpack::dltensor& found);

// A dense tensor whose elements lie in order and as they are.
struct PlainTensor {
  void* data;
  int dtype;
  std::span<const std::int64_t> shape;  // the tensor's own
};

// A class of tensors that DLPack's exchange interface reads.
class TensorClass {
 public:
  // The class of an object, or nullptr. Such classes are few; those met are kept, and others are looked at where
  // `first`.
  static TensorClass* of(PyObject* object, bool first);

  // Whether the interface was written for this class, and not for one that it derives from.
  bool own() const { return own_; }
  // What DLPack shows, of any tensor; false where it shows nothing.
  bool read(PyObject* tensor, nb::dlpack::dltensor& found) const;
  // Nothing for a tensor that is not plain, or elsewhere than on that device of CUDA, or `on_host`. `blank`: one that
  // was made a moment ago, which is not asked whether it shows its memory as it is.
  std::optional<PlainTensor> plain(PyObject* tensor, bool blank, int device);
  // Whether a tensor is on a device of CUDA; false where torch's functions are not used.
  bool on_cuda(PyObject* tensor) const;

 private:
  struct Interface;
  static constexpr int most_types = 64;
  static constexpr std::int8_t not_met = -2;

  std::optional<PlainTensor> by_torch(torch_abi::Handle tensor, std::int32_t& type, int device) const;
  std::optional<PlainTensor> by_dlpack(PyObject* tensor, bool blank, int device) const;

  PyTypeObject* type_ = nullptr;
  int (*read_)(void* object, void* dltensor) = nullptr;
  bool own_ = false;
  // Torch's functions take a tenth of the time. They are used for tensors of the types of which one was seen to be what
  // DLPack shows.
  bool has_torch_ = false;
  torch_abi::Calls torch_{};
  std::array<std::int8_t, most_types> dtypes_;  // by torch's number of a type
};
