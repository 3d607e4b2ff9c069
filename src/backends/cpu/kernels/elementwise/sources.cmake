list(APPEND HEDDLE_CPU_SOURCES
  kernels/elementwise/add_blocks.cpp
  kernels/elementwise/add_id.cpp
  kernels/elementwise/binary.cpp
  kernels/elementwise/generate.cpp
  kernels/elementwise/glu.cpp
  kernels/elementwise/kernels.cpp
  kernels/elementwise/math.cpp
  kernels/elementwise/scale.cpp
  kernels/elementwise/triangle.cpp
  kernels/elementwise/unary.cpp)
list(APPEND HEDDLE_CPU_TESTS
  kernels/elementwise/accuracy_test.cpp
  kernels/elementwise/binary_test.cpp
  kernels/elementwise/generate_test.cpp
  kernels/elementwise/unary_test.cpp)
