#pragma once

#include <cuda.h>

#include <cstdint>

#include "backends/cuda/kernel.hpp"

/// What kernels for Hopper need of the host.
namespace heddle::cuda {

/// Whether the device and the code for it have wgmma.cuh's instructions.
bool has_wgmma(const DeviceFacts& device);

/// Rows of 16-bit units in matrices of sequences, as the copy engine of Hopper reads them: boxes of
/// `box_units` times `box_rows`.
struct TensorShape {
    const void* data;  ///< a multiple of 16, as are the strides
    std::int64_t units, rows, matrices = 1, sequences = 1;
    std::int64_t row_stride, matrix_stride, sequence_stride;  ///< bytes
    unsigned box_units, box_rows;
    bool is_swizzled = false;  ///< boxes have rows of 128 bytes, as wgmma reads them
};

/// Describes a tensor for the copy engine; false if the driver has no words for it.
bool make_tensor_map(const TensorShape& shape, CUtensorMap& map);

}  // namespace heddle::cuda
