#include "backends/cpu/dot/dot.hpp"

#include <algorithm>

#include "backends/cpu/dot/types.hpp"
#include "backends/cpu/type_traits.hpp"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

/// Both rows decoded, a few blocks at a time: for machines without vectors.
template <Type kType>
void dot_decoded(std::int64_t n, const void* x, const void* const* y, float* out, int columns) {
    constexpr std::int64_t kCount = 256;  // a multiple of every block
    const Type other = cpu_traits_of(kType).vec_dot_type;
    const quant::Codec &codec = *quant::codec_of(kType), &other_codec = *quant::codec_of(other);
    float a[kCount], b[kCount];
    std::fill_n(out, columns, 0.0f);
    for (std::int64_t i = 0; i < n; i += kCount) {
        const std::int64_t count = std::min(kCount, n - i);
        codec.decode(static_cast<const std::byte*>(x) + row_size(kType, i), a, count);
        for (int c = 0; c < columns; ++c) {
            other_codec.decode(static_cast<const std::byte*>(y[c]) + row_size(other, i), b, count);
            double sum = 0;
            for (std::int64_t j = 0; j < count; ++j) sum += double{a[j]} * b[j];
            out[c] += static_cast<float>(sum);
        }
    }
}

DotColumns decoded_dot_of(Type type) {
    return find_by_type<DotColumns, Family::simple, Family::k, Family::grid>(
        type, []<Type kType>() -> DotColumns { return dot_decoded<kType>; });
}

}  // namespace

DotColumns dot_columns_of(Type type) {
    for (const auto family : {dot_plain_of, dot_simple_of, dot_k_of, dot_grid_of, decoded_dot_of}) {
        if (const DotColumns dot = family(type); dot != nullptr) return dot;
    }
    return nullptr;
}

DecodeRow decode_row_of(Type type) {
    for (const auto family : {decode_k_of, decode_grid_of, exact_decode_of}) {
        if (const DecodeRow decode = family(type); decode != nullptr) return decode;
    }
    const quant::Codec* codec = quant::codec_of(type);
    return codec != nullptr ? codec->decode : nullptr;
}

}  // namespace heddle::cpu
