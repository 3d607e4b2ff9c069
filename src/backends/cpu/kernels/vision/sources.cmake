list(APPEND HEDDLE_CPU_SOURCES
  kernels/vision/col2im_1d.cpp
  kernels/vision/conv.cpp
  kernels/vision/conv_2d_dw.cpp
  kernels/vision/conv_transpose.cpp
  kernels/vision/im2col.cpp
  kernels/vision/im2col_back.cpp
  kernels/vision/kernels.cpp
  kernels/vision/patches.cpp
  kernels/vision/pool.cpp
  kernels/vision/pool_back.cpp
  kernels/vision/upscale.cpp
  kernels/vision/window.cpp)
list(APPEND HEDDLE_CPU_TESTS
  kernels/vision/convolution_test.cpp
  kernels/vision/im2col_test.cpp
  kernels/vision/pool_test.cpp
  kernels/vision/upscale_test.cpp
  kernels/vision/window_test.cpp)
