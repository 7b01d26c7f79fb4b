#include "memory/limits.h"

#include <sys/resource.h>

#include <cerrno>

namespace ringtree {

namespace {

// "" where there is no such limit.
std::string limit(int resource, const char* name, const char* remedy) {
  rlimit found{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &found) != 0 || found.rlim_cur == RLIM_INFINITY) return "";
  return std::string(" (") + name + " is " + std::to_string(found.rlim_cur) + ": raise it, " + remedy + ")";
}

}  // namespace

std::string limit_behind(int error) {
  switch (error) {
    case ENOMEM: {
      auto of_addresses = limit(RLIMIT_AS, "RLIMIT_AS", "ulimit -v");
      return of_addresses.empty() ? limit(RLIMIT_DATA, "RLIMIT_DATA", "ulimit -d") : of_addresses;
    }
    case EFBIG:
      return limit(RLIMIT_FSIZE, "RLIMIT_FSIZE, which bounds shared memory,", "ulimit -f");
    case EMFILE:
      return limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", "ulimit -n");
    case ENOSPC:
      return " (memory, or /dev/shm where memfd_create is refused, is full: free or enlarge it)";
    default:
      return "";
  }
}

}  // namespace ringtree
