// The work of a process for its peers while it waits for something else: its non-blocking messages that are under way,
// in all groups.
#pragma once

namespace ringtree {

class Background {
 public:
  virtual ~Background() { retire(); }

  // From the first call on, until retire(), every slow wait of this process calls advance() now and then, in any
  // thread.
  void enlist();
  // Returns when no thread is in advance() any more.
  void retire();

  // Goes on with what can go on now; never waits and never throws. Whether it did anything.
  virtual bool advance() noexcept = 0;

  static bool advance_all();
};

}  // namespace ringtree
