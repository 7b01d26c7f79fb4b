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

}  // namespace

int LongWaits::begin(std::int64_t since_ns, std::int64_t deadline_ns, int peer, const std::string& where,
                     const std::string& group) noexcept {
  for (int place = 0; place < static_cast<int>(records); place++) {
    if (taken_[place].exchange(true, std::memory_order_acquire)) continue;
    WaitRecord record{};
    record.since_ns = since_ns;
    record.deadline_ns = deadline_ns;
    record.peer = peer;
    record.thread = static_cast<std::int32_t>(syscall(SYS_gettid));
    put(record.where, where);
    put(record.group, group);
    if (write(place, record)) return place;
    taken_[place].store(false, std::memory_order_release);
    return -1;
  }
  return -1;
}

void LongWaits::end(int place) noexcept {
  WaitRecord none{};
  write(place, none);
  taken_[place].store(false, std::memory_order_release);
}

bool LongWaits::write(int place, WaitRecord& record) noexcept {
  record.number = record.again = written_.fetch_add(1, std::memory_order_relaxed) + 1;
  auto at = static_cast<off_t>(first_ + rank_ * page + place * sizeof record);
  return pwrite(fd_, &record, sizeof record, at) == static_cast<ssize_t>(sizeof record);
}

std::vector<WaitRecord> LongWaits::read(int fd, std::size_t at) {
  std::array<WaitRecord, records> first{}, second{};
  std::vector<WaitRecord> found;
  for (auto page : {&first, &second})
    if (pread(fd, page->data(), LongWaits::page, static_cast<off_t>(at)) != static_cast<ssize_t>(LongWaits::page))
      return found;
  for (std::size_t place = 0; place < records; place++) {  // one that changed between is of the next look
    auto& record = second[place];
    if (is_whole(record) && std::memcmp(&first[place], &record, sizeof record) == 0) found.push_back(record);
  }
  return found;
}

}  // namespace ringtree
