#pragma once

#include "backends/cuda/formats/format.cuh"

/// Types whose elements stand for themselves.
namespace heddle::cuda {

template <>
struct Format<GGML_TYPE_F32> {
    static constexpr int block_elements = 1, block_bytes = 4;

    HEDDLE_HD static float load(Bytes p) { return *reinterpret_cast<const float*>(p); }

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = load(block + 4 * (i + j));
    }
};

template <>
struct Format<GGML_TYPE_F16> {
    static constexpr int block_elements = 1, block_bytes = 2;

    HEDDLE_HD static float load(Bytes p) { return load_half(p); }

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = load(block + 2 * (i + j));
    }
};

template <>
struct Format<GGML_TYPE_BF16> {
    static constexpr int block_elements = 1, block_bytes = 2;

    HEDDLE_HD static float load(Bytes p) { return bits_to_float(load16(p) << 16); }

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = load(block + 2 * (i + j));
    }
};

/// Element i of a plain row.
template <>
HEDDLE_HD float decode<Format<GGML_TYPE_F32>>(const void* row, int i) {
    return Format<GGML_TYPE_F32>::load(static_cast<Bytes>(row) + 4 * std::int64_t{i});
}
template <>
HEDDLE_HD float decode<Format<GGML_TYPE_F16>>(const void* row, int i) {
    return Format<GGML_TYPE_F16>::load(static_cast<Bytes>(row) + 2 * std::int64_t{i});
}
template <>
HEDDLE_HD float decode<Format<GGML_TYPE_BF16>>(const void* row, int i) {
    return Format<GGML_TYPE_BF16>::load(static_cast<Bytes>(row) + 2 * std::int64_t{i});
}

}  // namespace heddle::cuda
