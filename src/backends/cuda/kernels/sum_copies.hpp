#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "core/tensor.hpp"

namespace heddle::cuda {

inline constexpr std::size_t kMostCopies = 16;

/// Arrays of one type whose elements are added up.
struct Addends {
    std::array<const void*, kMostCopies> from{};
    int count = 0;
};

/// Enqueues `to` = the sum of `addends`, in their order and in f32; zeros if there are none. `to`
/// may be one of them. The type is F32, F16 or BF16.
cudaError_t sum_copies(const Addends& addends, void* to, Type type, std::int64_t count,
                       cudaStream_t stream);

}  // namespace heddle::cuda
