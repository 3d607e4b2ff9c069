# How tests are run, and which of them every change must pass under sanitizers.

# Tests ask for more memory than there is: that is to fail as it does without sanitizers.
set(HEDDLE_TEST_ENVIRONMENT
  "ASAN_OPTIONS=allocator_may_return_null=1"
  "TSAN_OPTIONS=allocator_may_return_null=1 die_after_fork=0 suppressions=${PROJECT_SOURCE_DIR}/tests/thread-sanitizer.supp")

# The bounded suite: tests that are built (target `bounded_suite`) and run (`ctest -L bounded`) under a sanitizer
# within a few minutes. Left to `make sanitize-all` are the tests of single kernels and of the program.
if(HEDDLE_SANITIZE MATCHES "thread")
  set(HEDDLE_BOUNDED_SUITE conformance cpu_threads mpi registry runtime sched_clients sched_faults sched_fuzz
      sched_late_reader sched_scheduler sched_submit sim)
else()
  set(HEDDLE_BOUNDED_SUITE backend_2024 capi client_sequences conformance core cpu_threads gguf golden model mpi ops
      quant registry runtime sched_clients sched_explain sched_faults sched_fuzz sched_late_reader sched_place
      sched_plan sched_scheduler sched_split sched_submit sim train)
endif()
if(HEDDLE_TESTS)
  add_custom_target(bounded_suite)
endif()

# Labels, for `ctest -L NAME`. Tests that stand in no list are unit tests: they need a second or a few, and nothing but
# themselves; `make unit` builds and runs them.
set(HEDDLE_GOLDEN_TESTS conformance conformance_loom golden verify_generated verify_golden)
set(HEDDLE_FUZZ_TESTS campaign campaign_doors sched_fuzz)
set(HEDDLE_SLOW_TESTS api chat_model check_rules cli client_sequences cpu docs explain_page faults gguf_python gradient help_coverage install memory_steps
    misuse misuse_null new_op opt package page_look program_sweep sched_clients sched_faults)
if(HEDDLE_TESTS)
  add_custom_target(unit_tests)
endif()

# heddle_test_label: the label of a test, and unit tests become part of target unit_tests.
function(heddle_test_label name)
  cmake_parse_arguments(ARG "" "PROGRAM" "" ${ARGN})
  set(label unit)
  if(name MATCHES "^(cuda|vulkan)")
    set(label gpu)
  elseif(name MATCHES "^mpi")
    set(label mpi)
  endif()
  foreach(other GOLDEN FUZZ SLOW)
    if(name IN_LIST HEDDLE_${other}_TESTS)
      string(TOLOWER ${other} label)
    endif()
  endforeach()
  set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
  # Tests run side by side. What takes long begins first, so that no single test is waited for at the end.
  if(name STREQUAL "mpi")
    set_property(TEST ${name} PROPERTY COST 100)
  elseif(NOT label STREQUAL "unit")
    set_property(TEST ${name} PROPERTY COST 10)
  endif()
  # Each of these starts more processes than there are cores, and gives them seconds to answer.
  if(name MATCHES "^mpi_")
    set_property(TEST ${name} APPEND PROPERTY RESOURCE_LOCK mpi_processes)
  endif()
  if(label STREQUAL "unit" AND ARG_PROGRAM)
    add_dependencies(unit_tests ${ARG_PROGRAM})
  endif()
endfunction()

# heddle_test_settings: what every test that ctest runs has, whatever made its program.
#
#   heddle_test_settings(sched_fuzz PROGRAM sched_fuzz)
function(heddle_test_settings name)
  cmake_parse_arguments(ARG "" "PROGRAM" "" ${ARGN})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${HEDDLE_TEST_ENVIRONMENT}")
  # Open MPI and Mesa's driver leave memory behind, and have been unloaded when leaks are looked for: these cannot be told from
  # our own, which the test `mpi`, without Open MPI, would find.
  if(name MATCHES "^(mpi_|vulkan)")
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
      "ASAN_OPTIONS=allocator_may_return_null=1 detect_leaks=0")
  endif()
  heddle_test_label(${name} PROGRAM ${ARG_PROGRAM})
  if(name IN_LIST HEDDLE_BOUNDED_SUITE)
    set_property(TEST ${name} APPEND PROPERTY LABELS bounded)
    add_dependencies(bounded_suite ${ARG_PROGRAM})
  endif()
endfunction()
