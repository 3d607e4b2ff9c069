list(APPEND HEDDLE_CPU_SOURCES kernels/custom/custom.cpp)
list(APPEND HEDDLE_CPU_TESTS kernels/custom/custom_test.cpp)
