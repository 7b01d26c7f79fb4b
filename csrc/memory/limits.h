// Which limit of this process an error of the system's comes from, and the remedy, in words.
#pragma once

#include <string>

namespace ringtree {

// Follows an error's text; "" where no limit explains it.
std::string limit_behind(int error);

}  // namespace ringtree
