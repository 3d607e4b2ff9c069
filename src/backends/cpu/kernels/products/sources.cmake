list(APPEND HEDDLE_CPU_SOURCES
  dot/convert.cpp
  dot/dot.cpp
  dot/encode.cpp
  dot/float_strips.cpp
  dot/grid_dot.cpp
  dot/k_code_strips.cpp
  dot/k_dot.cpp
  dot/k_stream.cpp
  dot/panel.cpp
  dot/plain_dot.cpp
  dot/plain_stream.cpp
  dot/simple_code_strips.cpp
  dot/simple_dot.cpp
  dot/simple_stream.cpp
  dot/strips.cpp
  dot/tile.cpp
  type_traits.cpp
  kernels/products/kernels.cpp
  kernels/products/mul_mat.cpp
  kernels/products/mul_mat_id.cpp
  kernels/products/out_prod.cpp)
list(APPEND HEDDLE_CPU_TESTS
  dot/convert_test.cpp
  dot/dot_test.cpp
  kernels/products/products_test.cpp)
