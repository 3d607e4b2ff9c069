list(APPEND HEDDLE_CPU_SOURCES
  dot/convert.cpp
  dot/dot.cpp
  dot/encode.cpp
  dot/grid_dot.cpp
  dot/k_dot.cpp
  dot/panel.cpp
  dot/plain_dot.cpp
  dot/simple_dot.cpp
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
