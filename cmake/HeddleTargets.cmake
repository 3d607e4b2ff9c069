# heddle_library: one layer. Its objects become part of the library that `INTO` names; its tests
# become one program, run by ctest under the layer's name.
#
#   heddle_library(heddle_core SOURCES a.cpp b.cpp LINK threads TESTS a_test.cpp)
function(heddle_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;TESTS" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                            ${PROJECT_SOURCE_DIR}/include/plugin)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  heddle_precompile(${name} library)
  heddle_unity(${name} 6)
  if(BUILD_SHARED_LIBS)
    target_compile_definitions(${name} PUBLIC GGML_SHARED GGML_BACKEND_SHARED PRIVATE GGML_BUILD)
  endif()
  set_property(GLOBAL APPEND PROPERTY HEDDLE_LAYERS ${name})
  if(ARG_TESTS)
    set_property(GLOBAL APPEND PROPERTY HEDDLE_TEST_LAYERS ${name})
    list(TRANSFORM ARG_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_property(GLOBAL PROPERTY HEDDLE_TESTS_OF_${name} ${ARG_TESTS})
  endif()
endfunction()

# heddle_test: a GoogleTest program, run by ctest under its name. OWN_FLAGS: it is compiled with flags that other tests
# do not have, and so are the headers that are compiled before it.
#
#   heddle_test(conformance SOURCES conformance_test.cpp LINK ggml)
function(heddle_test name)
  cmake_parse_arguments(ARG "OWN_FLAGS" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}
                                                  ${PROJECT_SOURCE_DIR}/include/plugin)
  target_link_libraries(${name}_test PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name}_test PRIVATE HEDDLE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  heddle_test_options(${name}_test)
  if(ARG_OWN_FLAGS)
    heddle_precompiled_set(${name}_test test)
  else()
    heddle_precompile(${name}_test test)
  endif()
  heddle_unity(${name}_test 4)
  set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name}_test)
  heddle_test_settings(${name} PROGRAM ${name}_test)
endfunction()

# heddle_test_options: tests are compiled often and run once, so they need not be fast.
function(heddle_test_options target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-O1>
                                           $<$<CONFIG:Instrumented>:-O0>)
  heddle_text_heavy(${target})
endfunction()

# heddle_c_library: a library clients link, with ggml's names and version. It exports what the public
# headers mark and nothing else; NAME-internal is the same code as an archive, for tests that look inside.
# PLUGIN names the function that gives the registration, if the library can be loaded as a plug-in.
#
#   heddle_c_library(ggml-sim SOURCES a.cpp b.cpp USES ggml-base LINK Threads::Threads PLUGIN ggml_backend_sim_reg)
#
# Sources are compiled once, as target NAME-objects: definitions and options go there, those that change what headers
# say (-march) behind OPTIONS. OBJECTS are compiled elsewhere. USES are libraries of ours that clients of this one see too.
function(heddle_c_library name)
  cmake_parse_arguments(ARG "" "PLUGIN" "SOURCES;OBJECTS;USES;LINK;OPTIONS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name}-objects OBJECT ${ARG_SOURCES})
    target_include_directories(${name}-objects PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                                      ${PROJECT_SOURCE_DIR}/include/plugin)
    target_link_libraries(${name}-objects PRIVATE ${ARG_LINK})
    target_compile_definitions(${name}-objects PRIVATE GGML_BUILD GGML_BACKEND_BUILD)
    if(BUILD_SHARED_LIBS)
      target_compile_definitions(${name}-objects PRIVATE GGML_SHARED GGML_BACKEND_SHARED)
    endif()
    if(ARG_OPTIONS)
      target_compile_options(${name}-objects PRIVATE ${ARG_OPTIONS})
      heddle_precompiled_set(${name}-objects library)
    else()
      heddle_precompile(${name}-objects library)
    endif()
    list(APPEND ARG_OBJECTS $<TARGET_OBJECTS:${name}-objects>)
  endif()

  add_library(${name} ${ARG_OBJECTS})
  target_link_libraries(${name} PUBLIC ${ARG_USES} PRIVATE ${ARG_LINK})
  if(ARG_USES)
    target_link_libraries(${name} PRIVATE heddle_internals)
  endif()
  if(BUILD_SHARED_LIBS)
    target_compile_definitions(${name} PUBLIC GGML_SHARED GGML_BACKEND_SHARED)
    # Templates of the standard library are visible whatever the compiler is told.
    set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(${name} PRIVATE LINKER:--version-script=${exports})
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${exports} LINKER_LANGUAGE CXX)
    if(NOT HEDDLE_SANITIZE)
      target_link_options(${name} PRIVATE LINKER:--no-undefined)
    endif()
    if(ARG_PLUGIN)
      target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/plugin_entry.cpp)
      target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include/plugin)
      target_compile_definitions(${name} PRIVATE GGML_BACKEND_BUILD HEDDLE_REGISTRATION=${ARG_PLUGIN})
    endif()
    add_library(${name}-internal STATIC EXCLUDE_FROM_ALL ${ARG_OBJECTS})
    set_target_properties(${name}-internal PROPERTIES LINKER_LANGUAGE CXX)
    list(TRANSFORM ARG_USES APPEND -internal)
    target_link_libraries(${name}-internal PUBLIC ${ARG_USES} ${ARG_LINK})
    target_include_directories(${name}-internal PUBLIC ${PROJECT_SOURCE_DIR}/include)
  else()
    add_library(${name}-internal ALIAS ${name})
  endif()

  add_library(ggml::${name} ALIAS ${name})
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# heddle_text_heavy: GCC 12 takes "text" + string for overlapping memory, string + "text" for memory outside the string, and
# a string that is moved for one that is longer than memory.
function(heddle_text_heavy target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-Wno-array-bounds>
                                             $<$<COMPILE_LANGUAGE:C,CXX>:-Wno-restrict>
                                             $<$<COMPILE_LANGUAGE:C,CXX>:-Wno-stringop-overflow>)
  endif()
endfunction()
