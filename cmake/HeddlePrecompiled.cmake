# Headers that are compiled once and read by many sources: about a third of a build from scratch.
#
# A source includes what it uses all the same: the clang preset, which checks every source, builds without. Compiler
# caches do not take such sources unless they are told to, and find more without: there it is off, too.
set(default ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(default OFF)
endif()
option(HEDDLE_PCH "Precompile headers that many sources include" ${default})

set(heddle_std_headers <algorithm> <array> <atomic> <bit> <cmath> <cstddef> <cstdint> <cstring> <functional> <limits> <map>
    <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string> <string_view> <unordered_map> <utility> <vector>)
set(heddle_library_headers ${heddle_std_headers})
set(heddle_test_headers ${heddle_std_headers} <filesystem> <fstream> <gmock/gmock.h> <gtest/gtest.h> <random>)
# CLI11 is left out: its constants would be compiled in every source, for seconds, and few use them.
set(heddle_program_headers ${heddle_std_headers} <filesystem> <fmt/core.h> <fmt/format.h> <nlohmann/json.hpp>)

# heddle_precompile: `target` reads one of these sets of headers: library, test or program. The first two are
# shared: targets whose sources are compiled with other flags need a set of their own.
#
#   heddle_precompile(sched_plan_test test)
function(heddle_precompile target set)
  if(NOT HEDDLE_PCH)
    return()
  elseif(TARGET heddle_${set}_pch)
    target_precompile_headers(${target} REUSE_FROM heddle_${set}_pch)
  else()
    heddle_precompiled_set(${target} ${set})
  endif()
endfunction()

function(heddle_precompiled_set target set)
  set(headers ${heddle_${set}_headers})
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

if(HEDDLE_PCH)
  set(source ${PROJECT_BINARY_DIR}/precompiled.cpp)
  file(GENERATE OUTPUT ${source} CONTENT "int main() {}\n")
  add_library(heddle_library_pch OBJECT EXCLUDE_FROM_ALL ${source})
  heddle_precompiled_set(heddle_library_pch library)
  if(HEDDLE_TESTS)
    find_package(GTest REQUIRED)
    add_executable(heddle_test_pch EXCLUDE_FROM_ALL ${source})
    target_link_libraries(heddle_test_pch PRIVATE GTest::gmock GTest::gtest)
    heddle_test_options(heddle_test_pch)
    heddle_precompiled_set(heddle_test_pch test)
  endif()
endif()
