# Flags and directories that hold for the whole build.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# What a library exports is what its public headers mark; everything else is its own business.
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Kind of build" FORCE)
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

include(GNUInstallDirs)
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

# Where plug-ins are installed and looked for, beside the libraries. It carries the version, so that two
# versions on one machine do not load each other's.
set(HEDDLE_PLUGIN_SUBDIRECTORY heddle/${PROJECT_VERSION})

# Contraction into fused multiply-adds would change the bits of decoded values from machine to
# machine; kernels that want FMA ask for it by name.
#
# Nobody replaces single functions inside our libraries, so calls within one need no detour.
add_compile_options(-fno-semantic-interposition)
add_compile_options(-Wall -Wextra -Wpedantic -ffp-contract=off)
if(HEDDLE_WERROR)
  add_compile_options(-Werror)
endif()
if(HEDDLE_SANITIZE)
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
  # Programs in C use libraries in C++: the compiler of C++ links them, as clang's of C leaves out what these need.
  set(CMAKE_C_LINK_EXECUTABLE
      "<CMAKE_CXX_COMPILER> <FLAGS> <CMAKE_C_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
endif()

if(UNIX AND NOT APPLE)
  add_link_options(-Wl,-Bsymbolic-functions)
endif()

# Instruction sets that kernels are not compiled for. SSSE3 alone is in no processor that is still in
# use. SVE has vectors of a size unknown to the compiler, which arrays of sums cannot be made of; NEON
# with its dot products is faster than what is left then, and processors with SVE have it as well.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(HEDDLE_HWY_DEFINITIONS "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
  # What Highway's NEON asks for: functions that the compiler makes itself must be able to inline it.
  if(NOT CMAKE_CXX_FLAGS MATCHES "-m(arch|cpu)=")
    add_compile_options(-march=armv8-a+crypto)
  endif()
else()
  set(HEDDLE_HWY_DEFINITIONS "HWY_DISABLED_TARGETS=HWY_SSSE3")
endif()
# One instruction set is the one that the compiler is told to count on; Highway wants AES beside AVX2.
set(HEDDLE_HWY_OPTIONS "")
if(HEDDLE_ONE_ISA AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(features avx2)
  if(HEDDLE_ONE_ISA STREQUAL "NATIVE")
    file(STRINGS /proc/cpuinfo features REGEX "^flags" LIMIT_COUNT 1)
  endif()
  if(features MATCHES "avx512bw" AND features MATCHES "avx512dq" AND features MATCHES "avx512vl")
    set(HEDDLE_HWY_OPTIONS -march=x86-64-v4 -maes -mpclmul)
  elseif(features MATCHES "avx2")
    set(HEDDLE_HWY_OPTIONS -march=x86-64-v3 -maes -mpclmul)
  else()
    set(HEDDLE_ONE_ISA OFF)  # what the compiler counts on anyway is far below what even old machines have
  endif()
endif()
if(HEDDLE_ONE_ISA)
  list(APPEND HEDDLE_HWY_DEFINITIONS HWY_COMPILE_ONLY_STATIC)
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
find_program(HEDDLE_SHLIBDEPS dpkg-shlibdeps DOC "Finds out which packages libraries come from")

# What is built, for messages and reports: the commit if this is a checkout of one.
execute_process(COMMAND git rev-parse --short HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                OUTPUT_VARIABLE HEDDLE_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT HEDDLE_COMMIT)
  set(HEDDLE_COMMIT "unknown")
endif()
