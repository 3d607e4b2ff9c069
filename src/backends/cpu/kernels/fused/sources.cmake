list(APPEND HEDDLE_CPU_SOURCES kernels/fused/bound_steps.cpp kernels/fused/cut.cpp)
