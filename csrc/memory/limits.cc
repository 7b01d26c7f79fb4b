#include "memory/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <system_error>
#include <utility>

namespace ringtree {

namespace {

// "" where there is no such limit.
std::string limit(int resource, const char* name, const char* remedy) {
  rlimit found{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &found) != 0 || found.rlim_cur == RLIM_INFINITY) return "";
  return std::string(" (") + name + " is " + std::to_string(found.rlim_cur) + ": raise it, " + remedy + ")";
}

// The first number in a file; 0 where there is none.
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t found = 0;
  return file >> found ? found : 0;
}

// The control group, or one around it, that has as many threads as it may; "" where none has.
std::string full_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    auto controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "pids") continue;
    auto mount = std::string("/sys/fs/cgroup") + (controllers.empty() ? "" : "/pids");
    for (auto path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      auto most = number_in(mount + path + "/pids.max");
      if (most && number_in(mount + path + "/pids.current") >= most)
        return " (" + mount + path + "/pids.max is " + std::to_string(most) + ": raise it)";
      if (path.find('/') == std::string::npos) break;
    }
  }
  return "";
}

// Whether there are no addresses for one more thread's stack.
bool no_room_for_a_stack() {
  rlimit addresses{}, stack{};
  getrlimit(RLIMIT_AS, &addresses);
  getrlimit(RLIMIT_STACK, &stack);
  if (addresses.rlim_cur == RLIM_INFINITY) return false;
  auto bytes = stack.rlim_cur == RLIM_INFINITY ? std::uint64_t{8} << 20 : stack.rlim_cur;
  auto used = number_in("/proc/self/statm") * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return used + 2 * bytes > addresses.rlim_cur;  // a reserve for what the allocator takes with a thread
}

// Behind a thread that could not be started.
std::string limit_of_threads() {
  auto of_addresses = limit(RLIMIT_AS, "RLIMIT_AS", "ulimit -v");
  if (no_room_for_a_stack()) return of_addresses;
  if (auto of_group = full_group(); !of_group.empty()) return of_group;
  auto of_user = limit(RLIMIT_NPROC, "RLIMIT_NPROC", "ulimit -u");
  return geteuid() == 0 || of_user.empty() ? of_addresses : of_user;
}

}  // namespace

std::thread start_thread(const char* what, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    auto text = std::string("cannot start the thread ") + what + limit_behind(error.code().value());
    throw std::system_error(error.code(), text);
  }
}

std::string limit_behind(int error) {
  switch (error) {
    case ENOMEM: {
      auto of_addresses = limit(RLIMIT_AS, "RLIMIT_AS", "ulimit -v");
      return of_addresses.empty() ? limit(RLIMIT_DATA, "RLIMIT_DATA", "ulimit -d") : of_addresses;
    }
    case EFBIG:
      return limit(RLIMIT_FSIZE, "RLIMIT_FSIZE, which bounds shared memory,", "ulimit -f");
    case EAGAIN:
      return limit_of_threads();
    case EMFILE:
      return limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", "ulimit -n");
    case ENOSPC:
      return " (memory, or /dev/shm where memfd_create is refused, is full: free or enlarge it)";
    default:
      return "";
  }
}

}  // namespace ringtree
