// Bridges that cannot begin, which leave nothing behind, and that have ended, by which nobody can put, get or
// signal any more.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "bridge/bridge.h"
#include "loopback.h"
#include "no_descriptors.h"
#include "wires/tcp.h"

namespace {

using ringtree::Bridge;
using ringtree::Endpoint;

constexpr int ranks = 2, slots = 4;
constexpr uid_t nobody = 65534;
constexpr std::size_t slot_bytes = 1024, access_bytes = 1 << 20;

struct Patience : ringtree::Hooks {};

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "ended_bridges: %s\n", what);
  std::abort();
}

// A rank whose peer is on another host, and never answers.
struct Rank {
  ringtree::Layout layout{ranks, slots, slot_bytes};
  std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(4096, layout.total), std::free};
  ringtree::Segment segment{(std::memset(memory.get(), 0, layout.total), memory.get()), layout};
  Endpoint endpoint{segment, 0, members(), options()};
  std::unique_ptr<Bridge> bridge;
  std::uint16_t port = 0;
  int peer = loopback::listening(port);

  ~Rank() { close(peer); }
  void join() {
    bridge = std::make_unique<Bridge>(
        endpoint, ringtree::Network{{0, 1}, [&](int rank, ringtree::Wire::Sink& sink) {
                                      ringtree::TcpWire::Options wire{
                                          ringtree::FileDescriptor(-1), 1, {{}, {"127.0.0.1", port, {}, {}}}, 1, false};
                                      return std::make_unique<ringtree::TcpWire>(rank, std::move(wire), sink);
                                    }});
  }
  // Whether the bridge could not begin.
  bool is_refused() {
    try {
      join();
      return false;
    } catch (const std::system_error&) {
      return true;
    }
  }

 private:
  static ringtree::InheritedLiveness members() {
    ringtree::InheritedLiveness members;
    members.bytes = {0, 1};
    return members;
  }
  static Endpoint::Options options() {
    Endpoint::Options options;
    options.timeout_s = 5;
    options.threads = true;
    options.names = {"0", "1"};
    return options;
  }
};

// In a process of its own, as the limit holds for all of a user's threads, and for all but root's.
void a_bridge_without_a_thread_leaves_nothing_behind() {
  auto child = fork();
  if (child == 0) {
    Rank rank;
    rlimit none{0, 0};
    if ((geteuid() == 0 && setuid(nobody) != 0) || setrlimit(RLIMIT_NPROC, &none) != 0) _exit(EXIT_FAILURE);
    expect(rank.is_refused(), "no thread can be started");
    ringtree::Background::advance_all();  // a wait in another group
    rank.endpoint.health().report_failure(ringtree::Failure::poisoned, -1, "a failure");
    expect(!rank.endpoint.elsewhere(1), "nobody serves the peer");
    _exit(EXIT_SUCCESS);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS, "a bridge without a thread is gone");
}

void a_bridge_without_a_descriptor_names_the_limit() {
  Rank rank;
  std::exception_ptr refused;
  try {
    NoDescriptors none;
    rank.join();
  } catch (...) {
    refused = std::current_exception();
  }
  try {
    expect(refused != nullptr, "a bridge needs a descriptor");
    std::rethrow_exception(refused);
  } catch (const std::system_error& error) {
    std::string why = error.what();
    expect(why.starts_with("cannot make an event descriptor") && why.find("RLIMIT_NOFILE is") != std::string::npos,
           "the error says what there was none for, and names the limit");
  }
}

template <class Access>
bool is_closed(Access access) {
  try {
    access();
    return false;
  } catch (const ringtree::Error& error) {
    return error.kind == ringtree::Failure::poisoned;
  }
}

void who_comes_after_the_end_finds_it_closed() {
  Rank rank;
  Patience hooks;
  std::vector<std::byte> bytes(access_bytes);
  rank.join();
  rank.endpoint.stopping = true;
  rank.bridge->close();
  expect(is_closed([&] { rank.bridge->put(1, 0, 0, bytes, hooks); }), "put() finds it closed");
  expect(is_closed([&] { rank.bridge->get(1, 0, 0, bytes, hooks); }), "get() finds it closed");
  expect(is_closed([&] { rank.bridge->signal(1, 0); }), "signal() finds it closed");
}

// Stays a while in the access whose wait has begun.
struct Lingering : ringtree::Hooks {
  std::atomic<bool> here = false, through = false;
  void blocking() override {
    if (here.exchange(true)) return;
    usleep(200'000);
    through = true;
  }
};

void the_end_waits_for_who_is_in_an_access() {
  for (bool puts : {true, false}) {
    Rank rank;
    rank.join();
    Lingering hooks;
    std::thread accesses([&] {
      std::vector<std::byte> bytes(access_bytes);
      expect(is_closed([&] {
               for (;;) puts ? rank.bridge->put(1, 0, 0, bytes, hooks) : rank.bridge->get(1, 0, 0, bytes, hooks);
             }),
             "an access ends when the bridge does");
    });
    while (!hooks.here) usleep(1000);
    rank.endpoint.stopping = true;
    rank.bridge->close();
    expect(hooks.through, "the bridge ends after the access");
    accesses.join();
  }
}

}  // namespace

int main() {
  a_bridge_without_a_thread_leaves_nothing_behind();
  who_comes_after_the_end_finds_it_closed();
  the_end_waits_for_who_is_in_an_access();
  a_bridge_without_a_descriptor_names_the_limit();  // last: UndefinedBehaviorSanitizer has seen all types by then
  std::puts("ended_bridges: one that cannot begin leaves nothing behind, and one that has ended takes nothing");
}
