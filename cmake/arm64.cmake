# Cross-building for 64-bit Arm with Debian's compiler; what is built runs under qemu.
#
# HEDDLE_ARM_ROOT is a directory with the Arm forms of the libraries that are used, as `scripts/test-arm`
# makes it: Highway, GoogleTest, fmt and the header-only ones.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# Tests of compilers are configured anew and know only what is passed on.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEDDLE_ARM_ROOT)
set(HEDDLE_ARM_ROOT "" CACHE PATH "Directory with libraries for Arm")
set(CMAKE_FIND_ROOT_PATH ${HEDDLE_ARM_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_LIBDIR} ${HEDDLE_ARM_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)

# Which processor is emulated, QEMU_CPU says; without it, one with everything that the emulator knows.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

# Older compilers passed some arguments in another way. All that is linked here is from one compiler.
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)
