// The main of a fuzzer's target without the fuzzer. Usage: target FILE_OR_FOLDER... runs each file;
// target --seeds FOLDER writes the inputs to begin with.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/input.h"

namespace {

int write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int n = 0;
  for (auto& seed : fuzz::seeds()) std::ofstream(folder / ("seed" + std::to_string(n++)), std::ios::binary) << seed;
  return 0;
}

void replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  std::fprintf(stderr, "%s\r", path.c_str());  // read where a sanitizer ends the process
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--seeds") return write_seeds(argv[2]);
  int n = 0;
  for (int k = 1; k < argc; k++) {
    if (!std::filesystem::is_directory(argv[k])) {
      replay(argv[k]);
      n++;
      continue;
    }
    for (auto& entry : std::filesystem::directory_iterator(argv[k])) {
      replay(entry.path());
      n++;
    }
  }
  std::printf("%d inputs, and nothing out of bounds\n", n);
}
