#include "backends/cpu/dot/gemm.hpp"

#include <algorithm>

#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

constexpr std::int64_t kChunk = 1024;  ///< elements; whole blocks of every type

}  // namespace

GemmKernel gemm_kernel_of(Type type) {
    for (const auto family : {gemm_simple_of, gemm_k_of, gemm_float_of}) {
        if (const GemmKernel kernel = family(type)) return kernel;
    }
    return {};
}

void put_prepared(const GemmKernel& kernel, const Multiplier& multiplier, Type type,
                  const std::byte* from, std::int64_t depth, std::byte* micro_panel, int column) {
    alignas(64) float prepared[kChunk];
    alignas(64) float decoded[kChunk];
    const bool is_ready = !needs_preparing(multiplier, type);
    const bool is_decoded = kernel.wants_floats && multiplier.prepared != GGML_TYPE_F32;
    for (std::int64_t begin = 0; begin < depth; begin += kChunk) {
        const std::int64_t count = std::min(kChunk, depth - begin);
        const void* piece = from + row_size(type, begin);
        if (!is_ready) {
            prepare_row(multiplier, type, piece, prepared, count);
            piece = prepared;
        }
        if (is_decoded) {
            quant::codec_of(multiplier.prepared)->decode(piece, decoded, count);
            piece = decoded;
        }
        kernel.put_column(piece, count, micro_panel + kernel.column_micro_panel_size(begin),
                          column);
    }
}

void put_zeros(const GemmKernel& kernel, std::int64_t depth, std::byte* micro_panel, int column) {
    // Zero is all bits zero in every kind of prepared row.
    alignas(64) static constexpr float kZeros[kChunk] = {};
    for (std::int64_t begin = 0; begin < depth; begin += kChunk) {
        kernel.put_column(kZeros, std::min(kChunk, depth - begin),
                          micro_panel + kernel.column_micro_panel_size(begin), column);
    }
}

}  // namespace heddle::cpu
