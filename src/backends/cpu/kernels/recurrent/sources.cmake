list(APPEND HEDDLE_CPU_SOURCES
  kernels/recurrent/gated_delta_net.cpp
  kernels/recurrent/kernels.cpp
  kernels/recurrent/linear_attention.cpp
  kernels/recurrent/rwkv_wkv7.cpp
  kernels/recurrent/solve_tri.cpp
  kernels/recurrent/ssm_conv.cpp
  kernels/recurrent/ssm_scan.cpp)
list(APPEND HEDDLE_CPU_TESTS
  kernels/recurrent/recurrence_test.cpp
  kernels/recurrent/solve_tri_test.cpp
  kernels/recurrent/state_space_test.cpp)
