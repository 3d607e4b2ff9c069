# What makes a build from scratch short: headers that are compiled once and read by many sources, and sources that are
# compiled several at a time.
#
# A source includes what it uses all the same: the clang preset, which checks every source, builds without. Compiler
# caches do not take such sources unless they are told to, and find more without: there it is off, too.
set(default ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(default OFF)
endif()
option(HEDDLE_PCH "Precompile headers that many sources include" ${default})
option(HEDDLE_UNITY "Compile several small sources as one" ${default})

set(heddle_std_headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstddef> <cstdint>
    <cstring> <deque> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string>
    <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
set(heddle_library_headers ${heddle_std_headers})
set(heddle_test_headers ${heddle_std_headers} <filesystem> <fstream> <gmock/gmock.h> <gtest/gtest.h> <random>)
# CLI11 is left out: its constants would be compiled in every source, for seconds, and few use them.
set(heddle_program_headers ${heddle_std_headers} <filesystem> <fmt/core.h> <fmt/format.h> <nlohmann/json.hpp>)

# heddle_precompile: `target` reads one of these sets of headers: library, test or program. The first two are
# shared; a target whose sources are compiled with other flags takes heddle_precompiled_set.
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

# heddle_precompiled_set: the same for a target with flags of its own: the set is compiled for it alone.
function(heddle_precompiled_set target set)
  if(NOT HEDDLE_PCH)
    return()
  endif()
  set(headers ${heddle_${set}_headers})
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# heddle_unity: sources of `target` are compiled `count` at a time, so what they include and instantiate alike is compiled
# once. Names in their anonymous namespaces must differ; sources with options of their own are compiled alone.
#
#   heddle_unity(heddle_sched 6)
function(heddle_unity target count)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HEDDLE_UNITY} UNITY_BUILD_BATCH_SIZE ${count})
endfunction()

# heddle_unity_group: these sources of `target` are compiled as one, and all that are in no group alone.
function(heddle_unity_group target)
  list(GET ARGN 0 group)
  string(MAKE_C_IDENTIFIER ${group} group)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HEDDLE_UNITY} UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${group})
endfunction()

# heddle_not_in_unity: all sources of `target`, or some of them, are compiled alone all the same: a name in them stands in
# another source of their target, too.
#
#   heddle_not_in_unity(heddle_core graph.cpp)
function(heddle_not_in_unity target)
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  else()
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

if(HEDDLE_PCH)
  set(source ${PROJECT_BINARY_DIR}/precompiled.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
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
