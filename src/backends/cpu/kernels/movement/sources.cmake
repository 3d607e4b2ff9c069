list(APPEND HEDDLE_CPU_SOURCES
  kernels/movement/concat.cpp kernels/movement/copy.cpp kernels/movement/copy_units.cpp
  kernels/movement/kernels.cpp kernels/movement/layout.cpp kernels/movement/pad.cpp
  kernels/movement/past_caches.cpp
  kernels/movement/repeat.cpp kernels/movement/roll.cpp kernels/movement/row_converter.cpp
  kernels/movement/rows.cpp kernels/movement/set_acc.cpp kernels/movement/transpose.cpp)
list(APPEND HEDDLE_CPU_TESTS
  kernels/movement/copy_test.cpp kernels/movement/layout_test.cpp kernels/movement/movement_test.cpp
  kernels/movement/rows_test.cpp)
