// The ranks that are alive. Each rank of a world holds a POSIX record lock on byte `rank` of the world's memfd: the
// kernel drops it when the process ends, however it ends, and a forked child does not inherit it. (An
// open-file-description lock would be inherited.) The lock is also dropped when the process closes any descriptor of
// the file, so a free byte alone proves nothing: where the process can be seen, it must be gone too. A group made from
// another is made of the same processes, and asks for the same bytes.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "file_descriptor.h"
#include "health/family.h"
#include "memory/segment.h"
#include "waits/long_waits.h"

namespace ringtree {

// This process's lock on its byte of a world's memfd; it is held as long as this lives.
class Liveness {
 public:
  Liveness(std::shared_ptr<FileDescriptor> file, int byte);

  bool locked_by_another(int byte) const;
  // Whether a member is of this process. In containers the ranks of a machine may all be process 1.
  bool is_of(const Member& member) const;

  std::int32_t process;
  std::uint64_t process_start, process_space;  // as in Member

 private:
  std::shared_ptr<FileDescriptor> file_;
};

// A process of this machine, as others that see it know it: its id, its start and the inode of its pid namespace, as in
// Member. All 0: unknown.
struct ProcessIdentity {
  std::int32_t process = 0;
  std::uint64_t start = 0, space = 0;

  static ProcessIdentity of_this();
};

// The members of a group, for a group made from it: their bytes of the world's memfd. No liveness: no watch, as the
// ranks are threads.
struct InheritedLiveness {
  std::shared_ptr<Liveness> liveness{};
  std::shared_ptr<LongWaits> waits{};  // of the world's ranks; none: nobody writes them down
  std::vector<int> bytes{};            // numbers in the world; none: the members' ranks
  std::shared_ptr<Family> family{};    // of this process's groups; none: a new one
  // By what the members say of themselves when they met: one may end before it attaches. None: unknown.
  std::vector<ProcessIdentity> processes{};

  // The members of a world, whose memfd stays open as long as one of their groups; `waits_at`: rank 0's page of waits.
  // Not `watched`: the ranks are threads.
  static InheritedLiveness of_world(FileDescriptor file, int rank, int ranks, std::size_t waits_at, bool watched);
  // Some of them, by their ranks in the group.
  InheritedLiveness of(const std::vector<int>& ranks) const;
};

class ProcessWatch {
 public:
  ProcessWatch(Segment& segment, InheritedLiveness inherited, int rank);

  // Whether the process of a rank has ended.
  bool ended(int rank) const;
  std::int32_t process(int rank) const;
  // Whether it is a process that this one sees, and that a signal has stopped.
  bool stopped(int rank) const;

  // The members with these ranks, for a group made of them.
  InheritedLiveness of(const std::vector<int>& ranks) const;
  const std::vector<int>& bytes() const { return inherited_.bytes; }
  Family& family() const { return *inherited_.family; }
  // Given back when this rank leaves; another thread that has them by then keeps them as long as it needs.
  std::shared_ptr<Liveness> liveness() const { return kept(inherited_.liveness); }
  std::shared_ptr<LongWaits> waits() const { return kept(inherited_.waits); }
  void end();

 private:
  bool ended_early(int rank, const Liveness& mine) const;
  template <class T>
  std::shared_ptr<T> kept(const std::shared_ptr<T>& one) const {
    std::lock_guard lock(mutex_);
    return one;
  }

  Segment& segment_;
  mutable std::mutex mutex_;  // guards the liveness and the waits
  InheritedLiveness inherited_;
};

}  // namespace ringtree
