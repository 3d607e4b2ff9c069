#pragma once

#include "backends/cuda/formats/bytes.cuh"
#include "ggml.h"

/// What a kernel must know of an element type, one specialisation for each:
///
///     block_elements, block_bytes   as in `TypeInfo`
///     decode8(block, i, y)          y[0..7] = elements i .. i + 7 of the block, i a multiple of 8;
///                                   plain types: `block` is the first element, i is anything
///
/// Values are those of `quant`'s decoders, bit for bit. Families have a header each; all.cuh has
/// them all and the dispatch from a type's number.
namespace heddle::cuda {

template <ggml_type kType>
struct Format;

/// Element i of a block (of a row, for plain types).
template <class F>
HEDDLE_HD float decode(const void* block, int i) {
    float y[8];
    F::decode8(static_cast<Bytes>(block), i & ~7, y);
    float value = y[0];
#pragma unroll
    for (int j = 1; j < 8; ++j) value = (i & 7) == j ? y[j] : value;
    return value;
}

/// Elements i .. i + 7 of a row, i a multiple of 8.
template <class F>
HEDDLE_HD void decode8_of_row(const void* row, std::int64_t i, float (&y)[8]) {
    if constexpr (F::block_elements == 1) {
        F::decode8(static_cast<Bytes>(row) + i * F::block_bytes, 0, y);
    } else {
        const std::int64_t block = i / F::block_elements;
        F::decode8(static_cast<Bytes>(row) + block * F::block_bytes,
                   static_cast<int>(i % F::block_elements), y);
    }
}

}  // namespace heddle::cuda
