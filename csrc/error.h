// The engine's errors. The text is complete: rank, call, expectation.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ringtree {

enum class Failure : std::uint32_t { mismatch = 1, died, timed_out, poisoned };

struct Error : std::runtime_error {
  Error(Failure kind, int rank, const std::string& text, bool again = false)
      : std::runtime_error(text), kind(kind), rank(rank), again(again) {}
  Failure kind;
  int rank;    // the rank that died, else -1
  bool again;  // of a group that failed before
  // Whether a rank was interrupted, as by Ctrl-C.
  bool of_interrupt() const { return std::string_view(what()).find(" was interrupted in ") != std::string_view::npos; }
};

// The host asked a wait to stop (a signal handler raised); the host knows why.
struct Interrupted {};

}  // namespace ringtree
