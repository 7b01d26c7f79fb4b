// Programs of devices that were launched before, launched again on other arrays.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/program.h"

namespace ringtree {
struct Hooks;
}

namespace ringtree::device {

// cuLaunchKernel of CUDA's driver.
using LaunchKernel = int (*)(void* kernel, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                             unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void* stream,
                             void** arguments, void** more);

// How a program is launched. `call`: as it was, on other arrays; `input_bytes`, `output_bytes`: of these, what it
// touches.
struct Launch {
  Call call{};
  void* kernel = nullptr;
  unsigned threads = 1;
  std::int64_t input_bytes = 0, output_bytes = 0;
};

// A rank's launches on one device, by the function that CUDA's driver has for that; on this machine's processor where
// that is nullptr. `status`: what calls write, where the host reaches it. One thread launches at a time.
class Launcher {
 public:
  Launcher(const Status* status, LaunchKernel launch_kernel) : status_(status), launch_kernel_(launch_kernel) {}

  // No call is to wait any more.
  void stop() { stopped_.store(true); }
  bool stopped() const { return stopped_.load(); }
  bool has_failed() const { return status_->outcome != fine || stopped(); }
  // Whether all that was launched has ended, as far as was looked.
  bool idle() const { return ended() == static_cast<std::uint32_t>(launches()); }
  std::uint32_t ended() const { return status_->ended; }
  // Whether launching waits for the end of the call.
  bool waits() const { return !launch_kernel_; }

  // Memory from `begin` to `end` that peers reach as a region.
  void add_region(std::uint64_t begin, std::uint64_t end, std::int64_t number);
  // Where peers find an address: the region, and the offset in it; or `nowhere`.
  std::int64_t place(std::uint64_t address) const;

  // The call on other arrays.
  Call call_on(const Launch& launch, std::uint8_t* input, std::uint8_t* output, std::uint64_t limit_ns) const;
  // Launches a call that is counted; false where the driver has refused it. `hooks`: see run_on_host.
  bool launch(const Launch& launch, Call& call, void* stream, Hooks& hooks) const;

  // How many launches there were, counted before each.
  std::uint64_t launches() const { return launches_.load(); }
  void count_launches(std::uint64_t launches);
  // Waits, in another thread, until there is a launch that has not ended, or `end_awaiting` was called.
  void await_launch();
  void end_awaiting();

 private:
  struct Region {
    std::uint64_t begin, end;
    std::int64_t number;
  };

  const volatile Status* status_;
  LaunchKernel launch_kernel_;
  std::vector<Region> regions_;  // by where they begin; apart from each other
  std::int32_t known_regions_ = 0;
  std::atomic<std::uint64_t> launches_ = 0;
  std::atomic<bool> awaited_ = false, stopped_ = false;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable launched_;
};

}  // namespace ringtree::device
