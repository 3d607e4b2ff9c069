list(APPEND HEDDLE_CPU_SOURCES
  kernels/attention/dsv4.cpp
  kernels/attention/flash_attn.cpp
  kernels/attention/flash_attn_code_scores.cpp
  kernels/attention/flash_attn_code_sums.cpp
  kernels/attention/flash_attn_cut.cpp
  kernels/attention/flash_attn_rows.cpp
  kernels/attention/flash_attn_scores.cpp
  kernels/attention/flash_attn_steps.cpp
  kernels/attention/flash_attn_sums.cpp
  kernels/attention/flash_attn_tiles.cpp
  kernels/attention/kernels.cpp
  kernels/attention/lightning_indexer.cpp
  kernels/attention/soft_rows.cpp)
list(APPEND HEDDLE_CPU_TESTS
  kernels/attention/dsv4_test.cpp
  kernels/attention/flash_attn_blocks_test.cpp
  kernels/attention/flash_attn_cut_test.cpp
  kernels/attention/flash_attn_test.cpp
  kernels/attention/lightning_indexer_test.cpp)
