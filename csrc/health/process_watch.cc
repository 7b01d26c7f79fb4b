#include "health/process_watch.h"

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

std::uint64_t space_of_this_process() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

Liveness::Liveness(FileDescriptor file, int byte, std::size_t waits_at)
    : process(getpid()),
      process_start(start_of(process)),
      process_space(space_of_this_process()),
      waits(file.fd(), waits_at, byte),
      file_(std::move(file)) {
  auto lock = byte_lock(byte);
  if (fcntl(file_.fd(), F_SETLK, &lock) != 0)
    throw std::system_error(errno, std::generic_category(),
                            "rank " + std::to_string(byte) + " is taken already: cannot lock its endpoint");
}

bool Liveness::locked_by_another(int byte) const {
  auto lock = byte_lock(byte);
  return fcntl(file_.fd(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

InheritedLiveness InheritedLiveness::of(const std::vector<int>& ranks) const {
  InheritedLiveness some{liveness, {}};
  for (int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(bytes.size()))
      throw std::invalid_argument("rank " + std::to_string(rank) + " of " + std::to_string(bytes.size()));
    some.bytes.push_back(bytes[rank]);
  }
  return some;
}

ProcessWatch::ProcessWatch(Segment& segment, InheritedLiveness inherited, int rank)
    : segment_(segment), inherited_(std::move(inherited)) {
  Member& me = segment.member(rank);
  me.process = getpid();
  if (auto& mine = inherited_.liveness) {
    me.process_start = mine->process_start;
    me.process_space = mine->process_space;
  }
  me.attached.store(1, std::memory_order_release);  // pairs with ended(): the fields above are complete
}

bool ProcessWatch::ended(int rank) const {
  if (!inherited_.liveness) return false;
  auto& mine = *inherited_.liveness;
  Member& member = segment_.member(rank);
  if (!member.attached.load(std::memory_order_acquire)) return false;
  if (mine.locked_by_another(inherited_.bytes[rank])) return false;
  if (member.process == mine.process) return false;  // one's own locks do not show
  bool visible = mine.process_space != 0 && member.process_space == mine.process_space && member.process_start != 0;
  return !visible || start_of(member.process) != member.process_start;
}

}  // namespace ringtree
