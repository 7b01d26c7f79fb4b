#include "health/process_watch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
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

struct Seen {
  std::uint64_t start = 0;  // clock ticks after boot; 0 if there is no such process, or only a zombie
  bool stopped = false;     // by a signal, or a debugger
  bool known = true;        // false where this process could not look: it has no descriptor left
};

Seen look_at(int process) {
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  std::FILE* file = std::fopen(path, "re");
  if (!file) return {.known = errno == ENOENT || errno == ESRCH};
  std::size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = 0;
  const char* at = std::strrchr(text, ')');  // the name before it may hold anything
  if (!at || at[1] == 0 || at[2] == 'Z' || at[2] == 'X') return {};
  bool stopped = at[2] == 'T' || at[2] == 't';
  for (int field = 2; field < 22 && at; field++) at = std::strchr(at + 1, ' ');  // ')' ends field 2
  return {at ? std::strtoull(at + 1, nullptr, 10) : 0, stopped};
}

std::uint64_t space_of_this_process() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

ProcessIdentity ProcessIdentity::of_this() {
  return {getpid(), look_at(getpid()).start, space_of_this_process()};
}

Liveness::Liveness(std::shared_ptr<FileDescriptor> file, int byte) : file_(std::move(file)) {
  auto self = ProcessIdentity::of_this();
  process = self.process, process_start = self.start, process_space = self.space;
  auto lock = byte_lock(byte);
  if (fcntl(file_->fd(), F_SETLK, &lock) != 0)
    throw std::system_error(errno, std::generic_category(),
                            "rank " + std::to_string(byte) + " is taken already: cannot lock its endpoint");
}

bool Liveness::locked_by_another(int byte) const {
  auto lock = byte_lock(byte);
  return fcntl(file_->fd(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Liveness::is_of(const Member& member) const {
  return member.process == process && member.process_space == process_space && member.process_start == process_start;
}

InheritedLiveness InheritedLiveness::of_world(FileDescriptor file, int rank, int ranks, std::size_t waits_at,
                                              bool watched) {
  struct WaitsInFile {
    std::shared_ptr<FileDescriptor> file;
    LongWaits waits;
  };
  auto shared = std::make_shared<FileDescriptor>(std::move(file));
  std::shared_ptr<WaitsInFile> kept(new WaitsInFile{shared, {shared->fd(), waits_at, rank}});
  InheritedLiveness all{watched ? std::make_shared<Liveness>(shared, rank) : nullptr, {kept, &kept->waits}};
  all.bytes.resize(ranks);
  std::iota(all.bytes.begin(), all.bytes.end(), 0);
  return all;
}

InheritedLiveness InheritedLiveness::of(const std::vector<int>& ranks) const {
  InheritedLiveness some{liveness, waits, {}, family, {}};
  for (int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(bytes.size()))
      throw std::invalid_argument("rank " + std::to_string(rank) + " of " + std::to_string(bytes.size()));
    some.bytes.push_back(bytes[rank]);
    if (!processes.empty()) some.processes.push_back(processes.at(rank));
  }
  return some;
}

ProcessWatch::ProcessWatch(Segment& segment, InheritedLiveness inherited, int rank)
    : segment_(segment), inherited_(std::move(inherited)) {
  if (!inherited_.family) inherited_.family = std::make_shared<Family>();
  Member& me = segment.member(rank);
  me.process = getpid();
  if (auto& mine = inherited_.liveness) {
    me.process_start = mine->process_start;
    me.process_space = mine->process_space;
  }
  me.attached.store(1, std::memory_order_release);  // pairs with ended(): the fields above are complete
}

InheritedLiveness ProcessWatch::of(const std::vector<int>& ranks) const {
  std::lock_guard lock(mutex_);
  return inherited_.of(ranks);
}

// What this held last is given back without the lock.
void ProcessWatch::end() {
  std::shared_ptr<Liveness> liveness;
  std::shared_ptr<LongWaits> waits;
  std::lock_guard lock(mutex_);
  liveness.swap(inherited_.liveness);
  waits.swap(inherited_.waits);
}

bool ProcessWatch::ended(int rank) const {
  auto held = liveness();
  if (!held) return false;
  auto& mine = *held;
  Member& member = segment_.member(rank);
  if (!member.attached.load(std::memory_order_acquire) && !ended_early(rank, mine)) return false;
  if (mine.locked_by_another(inherited_.bytes[rank])) return false;
  if (!member.attached.load(std::memory_order_acquire)) return true;
  if (mine.is_of(member)) return false;  // one's own locks do not show
  bool visible = mine.process_space != 0 && member.process_space == mine.process_space && member.process_start != 0;
  if (!visible) return true;
  auto seen = look_at(member.process);
  return seen.known && seen.start != member.process_start;
}

// Whether a rank that has not attached never will.
bool ProcessWatch::ended_early(int rank, const Liveness& mine) const {
  if (inherited_.processes.empty()) return false;
  auto& reported = inherited_.processes[rank];
  if (reported.process == 0 || reported.start == 0 || reported.space == 0) return false;
  if (reported.space != mine.process_space) return false;
  auto seen = look_at(reported.process);
  return seen.known && seen.start != reported.start;
}

std::int32_t ProcessWatch::process(int rank) const {
  Member& member = segment_.member(rank);
  bool attached = member.attached.load(std::memory_order_acquire) != 0;
  return attached || inherited_.processes.empty() ? member.process : inherited_.processes[rank].process;
}

bool ProcessWatch::stopped(int rank) const {
  auto held = liveness();
  if (!held) return false;
  auto& mine = *held;
  Member& member = segment_.member(rank);
  if (!member.attached.load(std::memory_order_acquire) || mine.is_of(member)) return false;
  if (mine.process_space == 0 || member.process_space != mine.process_space || member.process_start == 0) return false;
  auto seen = look_at(member.process);
  return seen.stopped && seen.start == member.process_start;
}

}  // namespace ringtree
