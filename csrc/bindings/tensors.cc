#include "bindings/tensors.h"

#include <algorithm>

using ringtree::Dtype;

// The head of DLPackExchangeAPI, which the attribute __dlpack_c_exchange_api__ of a type points to:
// https://dmlc.github.io/dlpack/latest/c_api.html
struct TensorClass::Interface {
  std::uint32_t major, minor;
  Interface* previous;
  void *allocate, *export_object, *import_object;
  int (*read)(void* object, void* dltensor);  // leaves the tensor's ownership alone; -1 with Python's error
};

namespace {

int dtype_of_tensor(nb::dlpack::dtype dtype) {
  constexpr char kinds[] = {'i', 'u', 'f', 0, 0, 'c', 'b'};
  constexpr int bfloat = 4, float8_e4m3fn = 10, float8_e5m2 = 12;
  if (dtype.lanes != 1) return unknown_dtype;
  if (dtype.code == bfloat && dtype.bits == 16) return static_cast<int>(Dtype::bfloat16);
  if (dtype.code == float8_e4m3fn) return static_cast<int>(Dtype::float8_e4m3fn);
  if (dtype.code == float8_e5m2) return static_cast<int>(Dtype::float8_e5m2);
  return dtype.code < sizeof kinds ? dtype_of_kind(kinds[dtype.code], dtype.bits / 8) : unknown_dtype;
}

// An attribute of an object; an invalid one where there is none.
nb::object attribute(PyObject* object, const char* name) {
  nb::object found = nb::steal(PyObject_GetAttrString(object, name));
  if (!found.is_valid()) PyErr_Clear();
  return found;
}

// Where the object of a tensor keeps it, as torch's functions take it.
torch_abi::Handle handle_of(PyObject* tensor) {
  return tensor + 1;
}

// Whether the object of a tensor is laid out so: it says itself where its tensor is.
bool has_handle(PyObject* tensor) {
  nb::object reported = attribute(tensor, "_cdata");
  if (!reported.is_valid() || !PyLong_Check(reported.ptr())) return false;
  void* found = PyLong_AsVoidPtr(reported.ptr());
  PyErr_Clear();
  return found && found == *static_cast<void* const*>(handle_of(tensor));
}

// Whether a tensor shows its memory negated or conjugated, which DLPack does not say.
bool shows_otherwise(PyObject* tensor, std::uint8_t code) {
  constexpr int complex = 5;
  for (auto question : {"is_neg", "is_conj"}) {
    if (question[3] == 'c' && code != complex) continue;
    nb::object answer = nb::steal(PyObject_CallMethod(tensor, question, nullptr));
    if (answer.ptr() != Py_False) {
      PyErr_Clear();
      return true;
    }
  }
  return false;
}

}  // namespace

int read_tensor(PyObject* object, nb::dlpack::dltensor& found) {
  auto* of = TensorClass::of(object, true);
  return of && of->read(object, found) ? dtype_of_tensor(found.dtype) : unknown_dtype;
}

TensorClass* TensorClass::of(PyObject* object, bool first) {
  static std::array<TensorClass, 16> met;
  auto* type = Py_TYPE(object);
  auto free = met.begin();
  for (; free != met.end() && free->type_; free++)
    if (free->type_ == type) return &*free;
  if (!first || free == met.end()) return nullptr;
  constexpr auto name = "__dlpack_c_exchange_api__", kind = "dlpack_exchange_api";
  auto* its_type = reinterpret_cast<PyObject*>(type);
  nb::object capsule = attribute(its_type, name);
  if (!capsule.is_valid() || !PyCapsule_IsValid(capsule.ptr(), kind)) return nullptr;
  auto* found = static_cast<Interface*>(PyCapsule_GetPointer(capsule.ptr(), kind));
  if (found->major != 1 || !found->read) return nullptr;
  nb::object members = attribute(its_type, "__dict__");
  TensorClass made;
  made.type_ = type;
  made.read_ = found->read;
  made.own_ = members.is_valid() && nb::cast<bool>(members.attr("__contains__")(name));
  made.has_torch_ = made.torch_.find(reinterpret_cast<void*>(found->read)) && has_handle(object);
  made.dtypes_.fill(not_met);
  free = std::ranges::find(met, nullptr, &TensorClass::type_);  // another thread may have come meanwhile
  if (free == met.end()) return nullptr;
  Py_INCREF(its_type);
  return &(*free = made);
}

bool TensorClass::read(PyObject* tensor, nb::dlpack::dltensor& found) const {
  if (read_(tensor, &found) == 0) return true;
  PyErr_Clear();
  return false;
}

bool TensorClass::on_cuda(PyObject* tensor) const {
  std::int32_t kind;
  return has_torch_ && torch_.device_type(handle_of(tensor), &kind) == 0 && kind == torch_abi::cuda;
}

std::optional<PlainTensor> TensorClass::plain(PyObject* tensor, bool blank, int device) {
  if (!has_torch_) return device == on_host ? by_dlpack(tensor, blank, device) : std::nullopt;
  std::int32_t type;
  auto found = by_torch(handle_of(tensor), type, device);
  if (!found) PyErr_Clear();  // of a class whose shapes are Python's affair
  if (!found || found->dtype != not_met) return found;
  auto shown = by_dlpack(tensor, blank, device);
  if (shown && shown->data == found->data && std::ranges::equal(shown->shape, found->shape))
    dtypes_[type] = static_cast<std::int8_t>(shown->dtype);
  return shown;
}

std::optional<PlainTensor> TensorClass::by_torch(torch_abi::Handle tensor, std::int32_t& type, int device) const {
  std::int32_t kind, index, layout;
  std::int64_t axes;
  const std::int64_t* shape;
  bool in_order;
  void* data;
  if (torch_.device_type(tensor, &kind) || kind != (device == on_host ? torch_abi::cpu : torch_abi::cuda)) return {};
  if (device != on_host && (torch_.device_index(tensor, &index) || index != device)) return {};
  if (torch_.layout(tensor, &layout) || layout != torch_.strided() || torch_.is_contiguous(tensor, &in_order) ||
      !in_order || torch_.dtype(tensor, &type) || type < 0 || type >= most_types || torch_.dim(tensor, &axes) ||
      torch_.sizes(tensor, &shape) || torch_.is_neg(tensor) || torch_.is_conj(tensor) || torch_.data(tensor, &data) ||
      !data)
    return {};
  return PlainTensor{data, dtypes_[type], {shape, static_cast<std::size_t>(axes)}};
}

std::optional<PlainTensor> TensorClass::by_dlpack(PyObject* tensor, bool blank, int device) const {
  nb::dlpack::dltensor found{};
  if (!read(tensor, found) || !found.data) return {};
  if (found.device.device_type != (device == on_host ? nb::device::cpu::value : nb::device::cuda::value)) return {};
  if (device != on_host && found.device.device_id != device) return {};
  std::int64_t count = 1;
  for (int axis = found.ndim; axis-- > 0; count *= found.shape[axis])
    if (found.shape[axis] != 1 && found.strides[axis] != count) return {};
  if (count == 0 || (!blank && shows_otherwise(tensor, found.dtype.code))) return {};
  int dtype = dtype_of_tensor(found.dtype);
  if (dtype == unknown_dtype) return {};
  return PlainTensor{static_cast<std::byte*>(found.data) + found.byte_offset,
                     dtype,
                     {found.shape, static_cast<std::size_t>(found.ndim)}};
}
