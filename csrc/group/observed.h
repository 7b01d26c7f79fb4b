// What another process of the user can read of a world of ranks: its members, their last calls and long waits, and how
// it failed. Nothing is mapped or written, and no lock is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpreter/call.h"
#include "waits/long_waits.h"

namespace ringtree {

struct ObservedMember {
  bool attached, left, lost;
  std::int32_t process;
  std::uint64_t process_start, process_space;  // as in Member
  std::uint64_t calls;                         // collectives that it has begun in this world
  std::optional<Fingerprint> last;             // of them
  std::vector<WaitRecord> waits;
};

struct ObservedGroup {
  bool readable;  // false: another version's, of which nothing is known
  std::string failure;
  std::vector<ObservedMember> members;
};

// The group in this memory; none where it is no group's.
std::optional<ObservedGroup> observe(int fd);

}  // namespace ringtree
