# Cross-compilation for 64-bit ARM with Debian's g++-aarch64-linux-gnu. Python's headers are those of the building
# interpreter: on 64-bit Linux they do not depend on the processor.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
