list(APPEND HEDDLE_CPU_SOURCES
  kernels/training/cross_entropy.cpp kernels/training/kernels.cpp kernels/training/optimizer.cpp)
list(APPEND HEDDLE_CPU_TESTS
  kernels/training/cross_entropy_test.cpp kernels/training/optimizer_test.cpp)
