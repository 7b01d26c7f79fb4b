// Which limit of this process an error of the system's comes from, and the remedy, in words.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace ringtree {

// Follows an error's text; "" where no limit explains it.
std::string limit_behind(int error);

// A new thread. std::system_error names the limit where none can be started.
std::thread start_thread(const char* what, std::function<void()> body);

}  // namespace ringtree
