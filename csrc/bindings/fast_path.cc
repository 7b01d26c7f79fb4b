// The methods of Group for calls that are like earlier ones.
#include "bindings/group_object.h"
#include "bindings/repeated_calls.h"

namespace {

using repeated_calls::fast_definition;

// Group.start_at.
long start_at(GroupObject& endpoint, PyObject* const* args) {
  auto [plan, x, out] = repeated_calls::by_address(endpoint, args);
  return plan ? static_cast<long>(endpoint.group().start(std::move(plan), x, out)) : 0;
}

// Group.call_barrier.
PyObject* call_barrier(PyObject* self, PyObject*) {
  return guarded([&] { return nb::inst_ptr<GroupObject>(self)->call_barrier(); });
}

PyMethodDef definitions[] = {fast_definition<GroupObject, repeated_calls::call<GroupObject>, 5>("call"),
                             fast_definition<GroupObject, repeated_calls::call_shaped<GroupObject>, 6>("call_shaped"),
                             fast_definition<GroupObject, repeated_calls::start_call, 5>("start_call"),
                             fast_definition<GroupObject, repeated_calls::call_at<GroupObject>, 8>("call_at"),
                             fast_definition<GroupObject, start_at, 8>("start_at"),
                             {"call_barrier", call_barrier, METH_NOARGS, "The fast path; see the stub."}};

}  // namespace

void bind_fast_path(nb::object type) {
  for (auto& definition : definitions) add_fast_method(type, definition);
}
