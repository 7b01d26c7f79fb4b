#include "device/launcher.h"

#include <algorithm>

#include "device/host.h"

namespace ringtree::device {

void Launcher::add_region(std::uint64_t begin, std::uint64_t end, std::int64_t number) {
  auto at = std::ranges::upper_bound(regions_, begin, {}, &Region::begin);
  regions_.insert(at, {begin, end, number});
  known_regions_ = std::max(known_regions_, static_cast<std::int32_t>(number) + 1);
}

std::int64_t Launcher::place(std::uint64_t address) const {
  auto after = std::ranges::upper_bound(regions_, address, {}, &Region::begin);
  if (after == regions_.begin() || address >= std::prev(after)->end) return nowhere;
  auto& region = *std::prev(after);
  return region.number << region_shift | static_cast<std::int64_t>(address - region.begin);
}

Call Launcher::call_on(const Launch& launch, std::uint8_t* input, std::uint8_t* output, std::uint64_t limit_ns) const {
  Call call = launch.call;
  call.input = input;
  call.output = output;
  call.input_place = place(reinterpret_cast<std::uint64_t>(input));
  call.output_place = place(reinterpret_cast<std::uint64_t>(output));
  call.limit_ns = limit_ns;
  call.regions = std::max(call.regions, known_regions_);
  call.same = input < output + launch.output_bytes && output < input + launch.input_bytes;
  return call;
}

bool Launcher::launch(const Launch& launch, Call& call, void* stream, Hooks& hooks) const {
  call.number = static_cast<std::uint32_t>(launches());
  if (!launch_kernel_) {
    run_on_host(call, hooks);
    return true;
  }
  void* arguments[] = {&call};
  auto blocks = static_cast<unsigned>(call.blocks);
  return launch_kernel_(launch.kernel, blocks, 1, 1, launch.threads, 1, 1, 0, stream, arguments, nullptr) == 0;
}

void Launcher::count_launches(std::uint64_t launches) {
  launches_.store(launches);
  if (!awaited_.load()) return;
  std::lock_guard lock(mutex_);
  awaited_.store(false);
  launched_.notify_all();
}

void Launcher::await_launch() {
  std::unique_lock lock(mutex_);
  awaited_.store(true);  // before idle() is asked: whoever launches counts first, and then asks whether it is awaited
  if (!idle()) awaited_.store(false);
  launched_.wait(lock, [&] { return over_ || !awaited_.load(); });
}

void Launcher::end_awaiting() {
  std::lock_guard lock(mutex_);
  over_ = true;
  launched_.notify_all();
}

}  // namespace ringtree::device
