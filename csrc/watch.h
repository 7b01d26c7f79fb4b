// Who is alive. Each rank holds a POSIX record lock on byte `rank` of the group's memfd: the kernel drops it when the
// process ends, however it ends, and a forked child does not inherit it. (An open-file-description lock would be
// inherited.) The lock is also dropped when the process closes any descriptor of the file, so a free byte alone proves
// nothing: where the process can be seen, it must be gone too.
#pragma once

#include "segment.h"

namespace ringtree {

class Watch {
 public:
  // `fd` < 0: no watch (ranks are threads of one process).
  Watch(Segment& segment, int fd, int rank);

  // Whether `rank` attached, did not leave, and its process has ended.
  bool died(int rank) const;

 private:
  Segment& segment_;
  int fd_;
  std::uint64_t space_ = 0;
};

}  // namespace ringtree
