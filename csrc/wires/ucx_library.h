// UCX as this process has it: the library, opened when the first group asks for it, its context, and a worker for each
// group.
#pragma once

#include <memory>
#include <string>

#include "wires/ucx_abi.h"

namespace ringtree::ucx {

// The calls that the wire makes, named as the library's documentation names them.
struct Library {
  Status (*config_read)(const char* prefix, const char* file, Config** config);
  Status (*config_modify)(Config*, const char* name, const char* value);
  void (*config_release)(Config*);
  void (*get_version)(unsigned* major, unsigned* minor, unsigned* release);
  Status (*init_version)(unsigned major, unsigned minor, const ContextParameters*, const Config*, Context**);
  Status (*worker_create)(Context*, const WorkerParameters*, WorkerHandle**);
  void (*worker_destroy)(WorkerHandle*);
  Status (*worker_query)(WorkerHandle*, WorkerAttributes*);
  void (*worker_release_address)(WorkerHandle*, Address*);
  unsigned (*worker_progress)(WorkerHandle*);
  Status (*worker_get_efd)(WorkerHandle*, int* descriptor);
  Status (*worker_arm)(WorkerHandle*);
  Status (*worker_set_am_recv_handler)(WorkerHandle*, const HandlerParameters*);
  Status (*ep_create)(WorkerHandle*, const EndpointParameters*, Endpoint**);
  Outcome (*ep_close_nbx)(Endpoint*, const RequestParameters*);
  Outcome (*am_send_nbx)(Endpoint*, unsigned number, const void* head, std::size_t head_bytes, const void* data,
                         std::size_t nbytes, const RequestParameters*);
  Outcome (*am_recv_data_nbx)(WorkerHandle*, void* description, void* into, std::size_t nbytes,
                              const RequestParameters*);
  void (*am_data_release)(WorkerHandle*, void* data);
  void (*request_free)(void* request);
  const char* (*status_string)(Status);
};

// One group's end: it receives from anybody who has its address. Made before the ranks exchange their addresses, used
// by one thread at a time. In a process that was forked from its maker's it does nothing, and is never given back.
class Worker {
 public:
  // `library`: a path or a name for dlopen. Where the process has a libucp already, of an MPI say, it is that one, as
  // two do not live together. Throws std::runtime_error.
  explicit Worker(const std::string& library);
  ~Worker() { close(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::string& address() const { return address_; }
  int descriptor() const { return descriptor_; }
  std::size_t most_head_bytes() const { return most_head_bytes_; }
  const Library& library() const { return library_; }
  WorkerHandle* handle() const { return handle_; }
  // No call may follow.
  void close();

 private:
  void query();

  const Library& library_;
  WorkerHandle* handle_ = nullptr;
  std::string address_;
  int descriptor_ = -1;
  std::size_t most_head_bytes_ = 0;
  unsigned forks_;
};

}  // namespace ringtree::ucx
