#include "backends/cuda/kernels/tensor_map.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <string_view>

namespace heddle::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function: the backend is not linked with the driver, which may be absent.
Encode encode() {
    static const Encode function = [] {
        void* found = nullptr;
        cudaDriverEntryPointQueryResult result{};
        constexpr unsigned kSince = 12000;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kSince,
                                             cudaEnableDefault, &result) != cudaSuccess) {
            cudaGetLastError();
            return Encode{nullptr};
        }
        return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found) : nullptr;
    }();
    return function;
}

}  // namespace

bool has_wgmma(const DeviceFacts& device) {
    constexpr std::string_view compiled_for = HEDDLE_CUDA_COMPILED_FOR;
    return device.architecture == 900 && compiled_for.find("90a") != std::string_view::npos;
}

bool make_tensor_map(const TensorShape& shape, CUtensorMap& map) {
    if (encode() == nullptr) return false;
    const auto word = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
    const std::array extents{word(shape.units), word(shape.rows), word(shape.matrices),
                             word(shape.sequences)};
    const std::array strides{word(shape.row_stride), word(shape.matrix_stride),
                             word(shape.sequence_stride)};
    const std::array<cuuint32_t, 4> box{shape.box_units, shape.box_rows, 1, 1}, steps{1, 1, 1, 1};
    return encode()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, const_cast<void*>(shape.data),
                    extents.data(), strides.data(), box.data(), steps.data(),
                    CU_TENSOR_MAP_INTERLEAVE_NONE,
                    shape.is_swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                    CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace heddle::cuda
