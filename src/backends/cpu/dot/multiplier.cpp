#include "backends/cpu/dot/multiplier.hpp"

#include <cstring>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/type_traits.hpp"

namespace heddle::cpu {
namespace {

/// What rows lie apart at best, but for whole pages: pieces of eight of them then spread evenly
/// over L1. Rows that are closer to a multiple of a page apart take each other's
/// places.
constexpr std::size_t kApart = 512, kPage = 4096;

bool is_crowded(std::size_t pitch) { return pitch >= kPage && pitch % kPage < kApart; }

/// Rows of blocks, four columns at a time; rows change faster, so that the columns stay near.
void multiply_blocks(const MatrixView& view, const std::byte* const* b, float* const* out,
                     int columns) {
    const DotColumns dot = dot_columns_of(view.type);
    const auto* const* y = reinterpret_cast<const void* const*>(b);
    for (int c = 0; c < columns; c += kDotColumns) {
        const int width = columns - c < kDotColumns ? columns - c : kDotColumns;
        const std::byte* row = view.rows;
        for (std::int64_t r = 0; r < view.count; ++r, row += view.pitch) {
            float results[kDotColumns];
            dot(view.depth, row, y + c, results, width);
            for (int i = 0; i < width; ++i) out[c + i][r] = results[i];
        }
    }
}

}  // namespace

Type dot_type_of(Type type) {
    const ggml_type_traits_cpu& traits = cpu_traits_of(type);
    return traits.vec_dot != nullptr ? traits.vec_dot_type : GGML_TYPE_COUNT;
}

Multiplier multiplier_of(Type type) {
    if (const MultiplyRows plain = plain_multiply_of(type); plain != nullptr) {
        Multiplier multiplier{.dot_type = type, .prepared = GGML_TYPE_F32, .multiply = plain};
        if (type == GGML_TYPE_F16) {
            multiplier.prepare = round_to_f16_row;
            multiplier.widen = f16_to_f32_row;
        } else if (type == GGML_TYPE_BF16) {
            multiplier.prepare = round_to_bf16_row;
            multiplier.widen = bf16_to_f32_row;
        }
        return multiplier;
    }
    const Type other = dot_type_of(type);
    if (other == GGML_TYPE_COUNT) return {};
    return {.dot_type = other,
            .prepared = other,
            .prepare = cpu_traits_of(other).from_float,
            .multiply = multiply_blocks};
}

std::size_t prepared_pitch(const Multiplier& multiplier, std::int64_t depth) {
    constexpr std::size_t kLine = 64;
    const std::size_t pitch = (row_size(multiplier.prepared, depth) + kLine - 1) / kLine * kLine;
    return is_crowded(pitch) ? pitch / kPage * kPage + kApart : pitch;
}

void prepare_row(const Multiplier& multiplier, Type type, const void* from, void* to,
                 std::int64_t depth) {
    if (type == GGML_TYPE_F32 && multiplier.prepare != nullptr) {
        multiplier.prepare(static_cast<const float*>(from), to, depth);
    } else if (multiplier.widen != nullptr) {
        multiplier.widen(from, static_cast<float*>(to), depth);
    } else {
        std::memcpy(to, from, row_size(type, depth));
    }
}

bool needs_preparing(const Multiplier& multiplier, Type type) {
    return type == GGML_TYPE_F32 ? multiplier.prepare != nullptr : multiplier.widen != nullptr;
}

bool wants_copies(const Multiplier& multiplier, std::size_t pitch, std::int64_t rows,
                  std::int64_t columns) {
    constexpr std::int64_t kLeastRows = 64, kLeastColumns = 5, kMostColumns = 71;
    return multiplier.prepared == GGML_TYPE_F32 && is_crowded(pitch) && rows >= kLeastRows &&
           columns >= kLeastColumns && columns <= kMostColumns;
}

}  // namespace heddle::cpu
