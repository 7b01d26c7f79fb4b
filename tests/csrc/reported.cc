// What a transport to other hosts reports of the ranks behind it: their calls, that they left, that they are lost. Rank
// 1 has no thread here; the test reports for it while rank 0 waits for its message.
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "group/group.h"
#include "programs.h"

namespace {

using ringtree::Failure;
using ringtree::Group;
using ringtree::Health;

constexpr std::int64_t count = 4;

std::unique_ptr<Group> join(void* memory) {
  ringtree::Endpoint::Options endpoint;
  endpoint.timeout_s = 60;
  return std::make_unique<Group>(memory, 0, 2, Group::Options{2, 1024, true, endpoint});
}

// Whether rank 0's wait for rank 1 ends as it should once `report` has been made.
bool ends(const char* what, const std::function<void(Health&)>& report, Failure kind, const std::string& text) {
  ringtree::Layout layout(2, 2, 1024);
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, layout.total), std::free);
  std::memset(memory.get(), 0, layout.total);
  auto group = join(memory.get());
  ringtree::Segment segment(memory.get(), layout);
  Health transport(segment, 1, {});
  std::thread reporter([&] { report(transport); });
  bool right = false;
  try {
    std::vector<int> data(count);
    programs::broadcast(*group, 0, 2, 1, data);
    std::fprintf(stderr, "%s: the wait ended without an error\n", what);
  } catch (const ringtree::Error& error) {
    right = error.kind == kind && std::string(error.what()).find(text) != std::string::npos;
    if (!right) std::fprintf(stderr, "%s: %s\n", what, error.what());
  }
  reporter.join();
  return right;
}

Failure raised(Health& health) {
  try {
    health.raise_failure();
  } catch (const ringtree::Error& error) {
    return error.kind;
  }
}

// Whether a caller gets the failure itself, once, where an asynchronous call has raised it before and goes on for a
// while.
bool is_kept_beside_a_caller() {
  ringtree::Layout layout(2, 2, 1024);
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, layout.total), std::free);
  std::memset(memory.get(), 0, layout.total);
  ringtree::Segment segment(memory.get(), layout);
  Health health(segment, 0, {});
  health.report_failure(Failure::mismatch, -1, "rank 1 called barrier");
  std::atomic<bool> is_raised = false, may_end = false;
  Failure kept{};
  std::thread asynchronous([&] {
    Health::Keeping keeping(health);
    kept = raised(health);
    is_raised = true;
    while (!may_end) sched_yield();
  });
  while (!is_raised) sched_yield();
  bool unraised = !health.raised();
  auto first = raised(health);
  may_end = true;
  asynchronous.join();
  auto second = raised(health);
  bool right = kept == Failure::mismatch && unraised && first == Failure::mismatch && second == Failure::poisoned;
  if (!right) std::fprintf(stderr, "a failure that an asynchronous call keeps: its caller got another\n");
  return right && health.raised();
}

}  // namespace

int main() {
  auto other_call = ringtree::Fingerprint{count, ringtree::pack("all_reduce", 0, 0, -1), 0};
  bool right =
      ends(
          "a call", [&](Health& health) { health.report_call(1, 1, other_call); }, Failure::mismatch,
          "rank 1 called all_reduce(bool, sum, count 4) as call 1 while rank 0 called "
          "broadcast(int32, count 4, root 1) as call 1") &
      ends(
          "left", [](Health& health) { health.report_left(1); }, Failure::died, "rank 1 left the group") &
      ends(
          "left, and why",
          [](Health& health) {
            health.report_cause(1, {2, "rank 2 died", ringtree::now_ns()});
            health.report_cause(1, {3, "rank 3 died", ringtree::now_ns()});  // the first counts
            health.report_left(1);
          },
          Failure::died,
          "rank 1 left the group while rank 0 waited for it in broadcast, call 1; the first cause: rank 2 died") &
      ends(
          "left, long after what it had reported",
          [](Health& health) {
            health.report_cause(1, {2, "rank 2 died", ringtree::now_ns() - 40'000'000'000});
            health.report_left(1);
          },
          Failure::died, "; the first cause: (40 s before) rank 2 died") &
      ends(
          "lost",
          [](Health& health) {
            health.report_lost(1, "closed its connection");
            health.report_lost(1, "does not listen any more");  // the first counts
          },
          Failure::died, "rank 1 is out of reach (it closed its connection) while") &
      ends(
          "failure", [](Health& health) { health.report_failure(Failure::died, 1, "host 2 is unreachable"); },
          Failure::died, "host 2 is unreachable") &
      is_kept_beside_a_caller();
  if (!right) return EXIT_FAILURE;
  std::printf("calls, leaving, loss and failure of a rank that a transport reports end the wait for it\n");
}
