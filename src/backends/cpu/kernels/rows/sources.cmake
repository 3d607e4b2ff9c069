list(APPEND HEDDLE_CPU_SOURCES
  kernels/rows/kernels.cpp
  kernels/rows/norm.cpp
  kernels/rows/reduce.cpp
  kernels/rows/rope.cpp
  kernels/rows/scan.cpp
  kernels/rows/soft_max.cpp
  kernels/rows/sort.cpp)
list(APPEND HEDDLE_CPU_TESTS
  kernels/rows/norm_test.cpp
  kernels/rows/reduce_test.cpp
  kernels/rows/rope_test.cpp
  kernels/rows/soft_max_test.cpp
  kernels/rows/sort_test.cpp)
