#include "waits/long_waits.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace ringtree {

namespace {

template <std::size_t size>
void put(char (&to)[size], const std::string& text) {
  std::strncpy(to, text.c_str(), size - 1);
  if (text.size() >= size) std::memcpy(to + size - 4, "...", 4);
}

bool is_whole(const WaitRecord& record) {
  return record.number == record.again && record.since_ns > 0 && std::memchr(record.where, 0, sizeof record.where) &&
         std::memchr(record.group, 0, sizeof record.group);
}

std::vector<WaitRecord> all(int fd, std::size_t at) {
  std::array<WaitRecord, LongWaits::records> first{}, second{};
  std::vector<WaitRecord> found;
  for (auto page : {&first, &second})
    if (pread(fd, page->data(), LongWaits::page, static_cast<off_t>(at)) != static_cast<ssize_t>(LongWaits::page))
      return found;
  for (std::size_t place = 0; place < LongWaits::records; place++) {  // one that changed between is of the next look
    auto& record = second[place];
    if (is_whole(record) && std::memcmp(&first[place], &record, sizeof record) == 0) found.push_back(record);
  }
  return found;
}

}  // namespace

int LongWaits::begin(std::int64_t since_ns, std::int64_t deadline_ns, int peer, const std::string& where,
                     const std::string& group, std::uint64_t memory) noexcept {
  auto next = next_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t k = 0; k < records; k++) {
    auto place = static_cast<int>((next + k) % records);
    if (taken_[place].exchange(true, std::memory_order_acquire)) continue;
    WaitRecord record{};
    record.since_ns = since_ns;
    record.deadline_ns = deadline_ns;
    record.memory = memory;
    record.peer = peer;
    record.thread = static_cast<std::int32_t>(syscall(SYS_gettid));
    put(record.where, where);
    put(record.group, group);
    if (write(rank_, place, record)) return place;
    taken_[place].store(false, std::memory_order_release);
    return -1;
  }
  return -1;
}

void LongWaits::end(int place) noexcept {
  WaitRecord none{};
  write(rank_, place, none);
  taken_[place].store(false, std::memory_order_release);
}

void LongWaits::give_up(int place, std::int64_t now_ns) noexcept {
  WaitRecord record;
  if (pread(fd_, &record, sizeof record, at(rank_, place)) == static_cast<ssize_t>(sizeof record)) {
    record.gave_up_ns = now_ns;
    write(rank_, place, record);
  }
  taken_[place].store(false, std::memory_order_release);
}

// In a place of this rank's own, as far as there are places.
void LongWaits::note_elsewhere(int rank, WaitRecord record) noexcept {
  write(rank, static_cast<int>(rank_ % records), record);
}

bool LongWaits::write(int rank, int place, WaitRecord& record) noexcept {
  record.number = record.again = written_.fetch_add(1, std::memory_order_relaxed) + 1;
  return pwrite(fd_, &record, sizeof record, at(rank, place)) == static_cast<ssize_t>(sizeof record);
}

std::optional<WaitRecord> LongWaits::given_up(int rank) const {
  std::optional<WaitRecord> last;
  for (auto& record : all(fd_, first_ + rank * page))
    if (record.gave_up_ns > (last ? last->gave_up_ns : 0)) last = record;
  return last;
}

std::vector<WaitRecord> LongWaits::read(int fd, std::size_t at) {
  auto found = all(fd, at);
  std::erase_if(found, [](auto& record) { return record.gave_up_ns != 0; });
  return found;
}

}  // namespace ringtree
