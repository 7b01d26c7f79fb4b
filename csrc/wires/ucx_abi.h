// What ringtree needs of UCP's binary interface, as the library documents it: the wire opens the library at run time,
// and a wheel is built where no UCX is.
//
// Every structure begins with a mask of the fields that are set, and the library reads no others; so a structure that a
// later version has made longer is served as well. Fields that are never set here stand only for their size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringtree::ucx {

constexpr unsigned major = 1, least_minor = 18;  // of the interface; a later minor only adds to it

using Status = std::int8_t;  // the library's enumeration is packed into a byte
constexpr Status ok = 0, in_progress = 1, reset = -25;
constexpr std::intptr_t last_error = -100;

// What a call that may go on returns: nothing (it is complete), an error in the place of an address, or a request.
using Outcome = void*;
inline bool failed(Outcome outcome) {
  auto value = reinterpret_cast<std::intptr_t>(outcome);
  return value < 0 && value >= last_error;
}
inline Status status_of(Outcome outcome) {
  return static_cast<Status>(reinterpret_cast<std::intptr_t>(outcome));
}

struct Config;
struct Context;
struct WorkerHandle;
struct Endpoint;
struct Address;

struct ContextParameters {
  enum : std::uint64_t { has_features = 1, has_shared_workers = 1 << 5, has_name = 1 << 8 };
  enum : std::uint64_t { wakeup = 1 << 4, active_messages = 1 << 6 };
  std::uint64_t mask, features;
  std::size_t request_size;
  void *request_init, *request_cleanup;
  std::uint64_t tag_sender_mask;
  int shared_workers;  // whether threads use workers of one context at a time
  std::size_t endpoints, endpoints_per_node;
  const char* name;
  std::size_t node;
};

struct WorkerParameters {
  enum : std::uint64_t { has_thread_mode = 1 };
  enum : int { one_at_a_time = 1 };  // any thread, one at a time
  std::uint64_t mask;
  int thread_mode;
  unsigned long cores[1024 / (8 * sizeof(unsigned long))];
  unsigned events;
  void* user_data;
  int event_fd;
  std::uint64_t flags;
  const char* name;
  std::size_t alignment;
  std::uint64_t client;
};

struct WorkerAttributes {
  enum : std::uint64_t { has_address = 2, has_address_flags = 4, has_most_head_bytes = 8 };
  enum : std::uint32_t { network_only = 1 };
  std::uint64_t mask;
  int thread_mode;
  std::uint32_t address_flags;
  Address* address;
  std::size_t address_bytes, most_head_bytes;
  char name[32];
  std::size_t debug_bytes;
};

struct SocketAddress {
  const void* address;
  unsigned nbytes;
};

using ErrorHandler = void (*)(void* argument, Endpoint* endpoint, Status status);

struct EndpointParameters {
  enum : std::uint64_t { has_address = 1, has_error_mode = 2, has_error_handler = 4 };
  enum : int { reports_peers = 1 };  // every send ends, and the handler hears of a peer that fails
  std::uint64_t mask;
  const Address* address;
  int error_mode;
  struct {
    ErrorHandler handler;
    void* argument;
  } error;
  void* user_data;
  unsigned flags;
  SocketAddress remote;
  void* request;
  const char* name;
  SocketAddress local;
};

using Sent = void (*)(void* request, Status status, void* user_data);
using Received = void (*)(void* request, Status status, std::size_t nbytes, void* user_data);

struct RequestParameters {
  static constexpr std::uint32_t has_callback = 1 << 1, has_user_data = 1 << 2, has_flags = 1 << 4,
                                 has_memory_type = 1 << 6;
  static constexpr std::uint32_t force = 1, eager = 2;  // of a close; of a message
  std::uint32_t mask, flags;
  void* request;
  union {
    Sent sent;
    Received received;
  } callback;
  std::uint64_t datatype;
  void *user_data, *reply;
  int memory_type;  // 0: the host's
  void* information;
  void* registration;
  std::uint64_t remote_datatype;  // from here on since 1.22, never set here
  const void* remote;
  std::size_t remote_count;
};

struct Arrival {
  enum : std::uint64_t { lasts = 1 << 16, rendezvous = 1 << 17 };  // data that may be kept; data that is to be fetched
  std::uint64_t flags;
  Endpoint* reply;
};

using Handler = Status (*)(void* argument, const void* head, std::size_t head_bytes, void* data, std::size_t nbytes,
                           const Arrival* arrival);

struct HandlerParameters {
  enum : std::uint64_t { has_number = 1, has_handler = 4, has_argument = 8 };
  std::uint64_t mask;
  unsigned number;
  std::uint32_t flags;
  Handler handler;
  void* argument;
};

}  // namespace ringtree::ucx
