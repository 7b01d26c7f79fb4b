#include "watch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace ringtree {

namespace {

struct flock byte_lock(int rank) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

// When the process started (clock ticks after boot); 0 if there is none, or only a zombie.
std::uint64_t start_of(int process) {
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  std::FILE* file = std::fopen(path, "re");
  if (!file) return 0;
  std::size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = 0;
  const char* at = std::strrchr(text, ')');  // the name before it may hold anything
  if (!at || at[1] == 0 || at[2] == 'Z' || at[2] == 'X') return 0;
  for (int field = 2; field < 22 && at; field++) at = std::strchr(at + 1, ' ');  // ')' ends field 2
  return at ? std::strtoull(at + 1, nullptr, 10) : 0;
}

std::uint64_t process_space() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

Watch::Watch(Segment& segment, int fd, int rank) : segment_(segment), fd_(fd) {
  Member& me = segment.member(rank);
  me.process = getpid();
  if (fd >= 0) {
    auto lock = byte_lock(rank);
    if (fcntl(fd, F_SETLK, &lock) != 0)
      throw std::system_error(errno, std::generic_category(),
                              "rank " + std::to_string(rank) + " is taken already: cannot lock its seat");
    space_ = process_space();
    me.process_start = start_of(me.process);
    me.process_space = space_;
  }
  me.attached.store(1, std::memory_order_release);  // pairs with died(): the fields above are complete
}

bool Watch::died(int rank) const {
  if (fd_ < 0) return false;
  Member& member = segment_.member(rank);
  if (!member.attached.load(std::memory_order_acquire) || member.left.load(std::memory_order_acquire)) return false;
  auto lock = byte_lock(rank);
  if (fcntl(fd_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) return false;
  if (member.process == getpid()) return false;  // one's own locks do not show
  bool visible = space_ != 0 && member.process_space == space_ && member.process_start != 0;
  if (visible && start_of(member.process) == member.process_start) return false;
  return !member.left.load(std::memory_order_acquire);  // it may have left in between
}

}  // namespace ringtree
