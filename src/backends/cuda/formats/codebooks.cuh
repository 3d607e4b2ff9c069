#pragma once

#include "backends/cuda/formats/bytes.cuh"
#include "backends/gpu/codebooks.hpp"

/// The codebooks of the grid formats where kernels can read them.
namespace heddle::cuda {

// Host code cannot read a device table, nor device code a host table, so each is there twice.

using gpu::kIq1Grid, gpu::kIq2SGrid, gpu::kIq2XsGrid, gpu::kIq2XxsGrid;
using gpu::kIq3SGrid, gpu::kIq3XxsGrid;

static __device__ constexpr auto kIq2XxsGridOnDevice = kIq2XxsGrid;
static __device__ constexpr auto kIq2XsGridOnDevice = kIq2XsGrid;
static __device__ constexpr auto kIq2SGridOnDevice = kIq2SGrid;
static __device__ constexpr auto kIq1GridOnDevice = kIq1Grid;
static __device__ constexpr auto kIq3XxsGridOnDevice = kIq3XxsGrid;
static __device__ constexpr auto kIq3SGridOnDevice = kIq3SGrid;

#ifdef __CUDA_ARCH__
#define HEDDLE_GRID_ROW(table, index) table##OnDevice.row[index]
#else
#define HEDDLE_GRID_ROW(table, index) table.row[index]
#endif

HEDDLE_HD std::uint64_t iq2_xxs_row(unsigned i) { return HEDDLE_GRID_ROW(kIq2XxsGrid, i); }
HEDDLE_HD std::uint64_t iq2_xs_row(unsigned i) { return HEDDLE_GRID_ROW(kIq2XsGrid, i); }
HEDDLE_HD std::uint64_t iq2_s_row(unsigned i) { return HEDDLE_GRID_ROW(kIq2SGrid, i); }
HEDDLE_HD std::uint64_t iq1_row(unsigned i) { return HEDDLE_GRID_ROW(kIq1Grid, i); }
HEDDLE_HD std::uint32_t iq3_xxs_row(unsigned i) { return HEDDLE_GRID_ROW(kIq3XxsGrid, i); }
HEDDLE_HD std::uint32_t iq3_s_row(unsigned i) { return HEDDLE_GRID_ROW(kIq3SGrid, i); }

#undef HEDDLE_GRID_ROW

}  // namespace heddle::cuda
