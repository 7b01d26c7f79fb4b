// Shared memory that is reserved while signals come, as Linux before 6.10 does it: a request that is interrupted has
// reserved nothing. The kernel here may do otherwise, so this program answers the requests itself.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "memory/mapping.h"

namespace {

constexpr off_t at_once = 4 << 20;  // reserved between two signals of a timer
int interruptions = 0, requests = 0;
bool memory_is_full = false;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "reserving: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int posix_fallocate(int fd, off_t at, off_t nbytes) {
  expect(++requests < 1000, "a request that is always interrupted is made for ever");
  if (nbytes > at_once || interruptions-- > 0) return EINTR;
  if (memory_is_full) return ENOSPC;
  return fallocate(fd, 0, at, nbytes) == 0 ? 0 : errno;
}

namespace {

constexpr std::size_t nbytes = 10 << 20, more_than_that = 1;

int file() {
  int fd = memfd_create("reserved", MFD_CLOEXEC);
  expect(ftruncate(fd, nbytes + more_than_that) == 0, "a file");
  return fd;
}

void signals_take_no_memory_away() {
  int fd = file();
  interruptions = 5;
  ringtree::Mapping mapping(fd, nbytes, nbytes);
  struct stat now;
  expect(fstat(fd, &now) == 0 && static_cast<std::size_t>(now.st_blocks) * 512 >= nbytes, "all pages exist");
  expect(interruptions < 0, "and there were signals");
  close(fd);
}

void other_errors_are_raised() {
  int fd = file();
  memory_is_full = true;
  interruptions = 1;
  try {
    ringtree::Mapping mapping(fd, nbytes, nbytes);
    expect(false, "there is no memory");
  } catch (const std::system_error& error) {
    expect(error.code().value() == ENOSPC, "the error is the kernel's");
  }
  close(fd);
}

}  // namespace

int main() {
  signals_take_no_memory_away();
  other_errors_are_raised();
  std::puts("reserving: signals take no memory away");
}
