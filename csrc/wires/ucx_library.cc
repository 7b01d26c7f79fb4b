#include "wires/ucx_library.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace ringtree::ucx {

namespace {

std::atomic<unsigned> forks = 0;  // between the first process that asked and this one

// A setting that holds while UCX reads it, where the user has none.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(getenv(name) ? nullptr : name) {
    if (name_) setenv(name_, value, 1);
  }
  ~Setting() {
    if (name_) unsetenv(name_);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

void* opened(const std::string& path) {
  if (void* loaded = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD)) return loaded;
  Setting no_signals("UCX_HANDLE_ERRORS", "none"),
      no_debugger("UCX_DEBUG_SIGNO", "0");  // a program's signals are its own
  if (void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return loaded;
  throw std::runtime_error(std::string("UCX cannot be loaded: ") + dlerror());
}

Library symbols_of(void* loaded) {
  auto find = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(loaded, name));
    if (!call)
      throw std::runtime_error(std::string("this libucp has no ") + name + ": UCX 1.18 or a later 1.x is needed");
  };
  Library library{};
  find(library.get_version, "ucp_get_version");
  unsigned has_major = 0, has_minor = 0, release = 0;
  library.get_version(&has_major, &has_minor, &release);
  if (has_major != major || has_minor < least_minor)
    throw std::runtime_error("this is UCX " + std::to_string(has_major) + "." + std::to_string(has_minor) +
                             ": 1.18 or a later 1.x is needed");
  find(library.config_read, "ucp_config_read");
  find(library.config_modify, "ucp_config_modify");
  find(library.config_release, "ucp_config_release");
  find(library.init_version, "ucp_init_version");
  find(library.worker_create, "ucp_worker_create");
  find(library.worker_destroy, "ucp_worker_destroy");
  find(library.worker_query, "ucp_worker_query");
  find(library.worker_release_address, "ucp_worker_release_address");
  find(library.worker_progress, "ucp_worker_progress");
  find(library.worker_get_efd, "ucp_worker_get_efd");
  find(library.worker_arm, "ucp_worker_arm");
  find(library.worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  find(library.ep_create, "ucp_ep_create");
  find(library.ep_close_nbx, "ucp_ep_close_nbx");
  find(library.am_send_nbx, "ucp_am_send_nbx");
  find(library.am_recv_data_nbx, "ucp_am_recv_data_nbx");
  find(library.am_data_release, "ucp_am_data_release");
  find(library.request_free, "ucp_request_free");
  find(library.status_string, "ucs_status_string");
  return library;
}

void check(const Library& library, Status status, const char* what) {
  if (status != ok) throw std::runtime_error(std::string("UCX ") + what + ": " + library.status_string(status));
}

Context* made_context(const Library& library) {
  Config* config = nullptr;
  check(library, library.config_read(nullptr, nullptr, &config), "cannot read its settings");
  // Hosts share no memory, though namespaces seem to; and payloads are in the host's, whatever the machine has besides.
  if (!getenv("UCX_TLS")) library.config_modify(config, "TLS", "^sm,cuda,rocm,ze");
  ContextParameters parameters{};
  parameters.mask =
      ContextParameters::has_features | ContextParameters::has_shared_workers | ContextParameters::has_name;
  parameters.features = ContextParameters::active_messages | ContextParameters::wakeup;
  parameters.shared_workers = 1;
  parameters.name = "ringtree";
  Context* context = nullptr;
  auto status = library.init_version(major, least_minor, &parameters, config, &context);
  library.config_release(config);
  check(library, status, "finds no network that it can use (UCX_TLS, UCX_NET_DEVICES)");
  return context;
}

// Of the process, as it takes long to find out what the machine has; never given back, as nothing says when the last
// user of UCX here is done.
struct Process {
  std::mutex mutex;
  Library library{};
  Context* context = nullptr;
};

Process& process() {
  static Process& one = *new Process;
  return one;
}

const Library& started(const std::string& path) {
  auto& p = process();
  std::lock_guard lock(p.mutex);
  if (p.context && forks.load())
    throw std::runtime_error(
        "this process was forked from one that uses UCX, which does not survive that: start it anew (spawn), or set "
        "RINGTREE_WIRE=tcp");
  if (!p.context) {
    static std::once_flag counted;
    std::call_once(counted, [] { pthread_atfork(nullptr, nullptr, [] { forks++; }); });
    p.library = symbols_of(opened(path));
    p.context = made_context(p.library);
    forks.store(0);
  }
  return p.library;
}

}  // namespace

Worker::Worker(const std::string& library) : library_(started(library)), forks_(forks.load()) {
  WorkerParameters parameters{};
  parameters.mask = WorkerParameters::has_thread_mode;
  parameters.thread_mode = WorkerParameters::one_at_a_time;
  ucx::check(library_, library_.worker_create(process().context, &parameters, &handle_), "makes no worker");
  try {
    query();
  } catch (...) {
    close();
    throw;
  }
}

void Worker::query() {
  WorkerAttributes attributes{};
  attributes.mask =
      WorkerAttributes::has_address | WorkerAttributes::has_address_flags | WorkerAttributes::has_most_head_bytes;
  attributes.address_flags = WorkerAttributes::network_only;
  ucx::check(library_, library_.worker_query(handle_, &attributes), "has no address");
  most_head_bytes_ = attributes.most_head_bytes;
  address_.assign(reinterpret_cast<const char*>(attributes.address), attributes.address_bytes);
  library_.worker_release_address(handle_, attributes.address);
  ucx::check(library_, library_.worker_get_efd(handle_, &descriptor_), "has no descriptor to sleep on");
}

void Worker::close() {
  if (auto handle = std::exchange(handle_, nullptr); handle && forks_ == forks.load()) library_.worker_destroy(handle);
}

}  // namespace ringtree::ucx
