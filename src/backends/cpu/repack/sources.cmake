list(APPEND HEDDLE_CPU_SOURCES
  repack/buffer_type.cpp
  repack/k_strips.cpp
  repack/kernels.cpp
  repack/layout.cpp
  repack/product.cpp
  repack/simple_strips.cpp
  repack/strip_kernel.cpp)
list(APPEND HEDDLE_CPU_TESTS
  repack/repack_test.cpp)
