// wires/ucx_abi.h beside the headers of a UCX that is installed: compiled, never run
// (tests/runtime/hosts/test_ucx_abi.py).
#include "wires/ucx_abi.h"

#include <ucp/api/ucp.h>

using namespace ringtree::ucx;

template <class One, class Other>
constexpr bool equal(One one, Other other) {
  return static_cast<long long>(one) == static_cast<long long>(other);
}

#define SAME(ours, theirs, last, their_last)                       \
  static_assert(sizeof(ours) >= sizeof(theirs));                   \
  static_assert(alignof(ours) == alignof(theirs));                 \
  static_assert(sizeof(ours::last) == sizeof(theirs::their_last)); \
  static_assert(offsetof(ours, last) == offsetof(theirs, their_last))

static_assert(sizeof(Status) == sizeof(ucs_status_t) && Status(-1) < 0);
static_assert(equal(ok, UCS_OK) && equal(in_progress, UCS_INPROGRESS) && equal(reset, UCS_ERR_CONNECTION_RESET));
static_assert(equal(last_error, UCS_ERR_LAST));

SAME(ContextParameters, ucp_params_t, features, features);
SAME(ContextParameters, ucp_params_t, shared_workers, mt_workers_shared);
SAME(ContextParameters, ucp_params_t, name, name);
static_assert(equal(ContextParameters::has_features, UCP_PARAM_FIELD_FEATURES));
static_assert(equal(ContextParameters::has_shared_workers, UCP_PARAM_FIELD_MT_WORKERS_SHARED));
static_assert(equal(ContextParameters::has_name, UCP_PARAM_FIELD_NAME));
static_assert(equal(ContextParameters::wakeup, UCP_FEATURE_WAKEUP));
static_assert(equal(ContextParameters::active_messages, UCP_FEATURE_AM));

SAME(WorkerParameters, ucp_worker_params_t, thread_mode, thread_mode);
static_assert(equal(WorkerParameters::has_thread_mode, UCP_WORKER_PARAM_FIELD_THREAD_MODE));
static_assert(equal(WorkerParameters::one_at_a_time, UCS_THREAD_MODE_SERIALIZED));

SAME(WorkerAttributes, ucp_worker_attr_t, address_flags, address_flags);
SAME(WorkerAttributes, ucp_worker_attr_t, address, address);
SAME(WorkerAttributes, ucp_worker_attr_t, address_bytes, address_length);
SAME(WorkerAttributes, ucp_worker_attr_t, most_head_bytes, max_am_header);
static_assert(equal(WorkerAttributes::has_most_head_bytes, UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER));
static_assert(equal(WorkerAttributes::has_address, UCP_WORKER_ATTR_FIELD_ADDRESS));
static_assert(equal(WorkerAttributes::has_address_flags, UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS));
static_assert(equal(WorkerAttributes::network_only, UCP_WORKER_ADDRESS_FLAG_NET_ONLY));

SAME(EndpointParameters, ucp_ep_params_t, address, address);
SAME(EndpointParameters, ucp_ep_params_t, error_mode, err_mode);
SAME(EndpointParameters, ucp_ep_params_t, error, err_handler);
static_assert(equal(EndpointParameters::has_address, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS));
static_assert(equal(EndpointParameters::has_error_mode, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE));
static_assert(equal(EndpointParameters::has_error_handler, UCP_EP_PARAM_FIELD_ERR_HANDLER));
static_assert(equal(EndpointParameters::reports_peers, UCP_ERR_HANDLING_MODE_PEER));

SAME(RequestParameters, ucp_request_param_t, mask, op_attr_mask);
SAME(RequestParameters, ucp_request_param_t, flags, flags);
SAME(RequestParameters, ucp_request_param_t, callback, cb);
SAME(RequestParameters, ucp_request_param_t, user_data, user_data);
SAME(RequestParameters, ucp_request_param_t, memory_type, memory_type);
static_assert(equal(RequestParameters::has_callback, UCP_OP_ATTR_FIELD_CALLBACK));
static_assert(equal(RequestParameters::has_user_data, UCP_OP_ATTR_FIELD_USER_DATA));
static_assert(equal(RequestParameters::has_flags, UCP_OP_ATTR_FIELD_FLAGS));
static_assert(equal(RequestParameters::has_memory_type, UCP_OP_ATTR_FIELD_MEMORY_TYPE));
static_assert(equal(RequestParameters::force, UCP_EP_CLOSE_FLAG_FORCE));
static_assert(equal(RequestParameters::eager, UCP_AM_SEND_FLAG_EAGER) && equal(0, UCS_MEMORY_TYPE_HOST));

SAME(Arrival, ucp_am_recv_param_t, flags, recv_attr);
static_assert(equal(Arrival::lasts, UCP_AM_RECV_ATTR_FLAG_DATA));
static_assert(equal(Arrival::rendezvous, UCP_AM_RECV_ATTR_FLAG_RNDV));

SAME(HandlerParameters, ucp_am_handler_param_t, number, id);
SAME(HandlerParameters, ucp_am_handler_param_t, handler, cb);
SAME(HandlerParameters, ucp_am_handler_param_t, argument, arg);
static_assert(equal(HandlerParameters::has_number, UCP_AM_HANDLER_PARAM_FIELD_ID));
static_assert(equal(HandlerParameters::has_handler, UCP_AM_HANDLER_PARAM_FIELD_CB));
static_assert(equal(HandlerParameters::has_argument, UCP_AM_HANDLER_PARAM_FIELD_ARG));
