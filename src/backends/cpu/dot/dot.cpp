#include "backends/cpu/dot/dot.hpp"

#include <algorithm>

#include "backends/cpu/dot/convert.hpp"
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

struct DecodedEntry {
    Type type;
    DotColumns dot;
};

template <Type... kTypes>
DotColumns find_decoded(Type type) {
    static constexpr DecodedEntry kEntries[] = {{kTypes, dot_decoded<kTypes>}...};
    for (const DecodedEntry& entry : kEntries) {
        if (entry.type == type) return entry.dot;
    }
    return nullptr;
}

DotColumns decoded_dot_of(Type type) {
    return find_decoded<
        GGML_TYPE_Q1_0, GGML_TYPE_Q2_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
        GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_MXFP4, GGML_TYPE_NVFP4, GGML_TYPE_IQ4_NL,
        GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K,
        GGML_TYPE_IQ4_XS, GGML_TYPE_TQ1_0, GGML_TYPE_TQ2_0, GGML_TYPE_IQ1_S, GGML_TYPE_IQ1_M,
        GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS, GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ3_S>(
        type);
}

}  // namespace

DotColumns dot_columns_of(Type type) {
    for (const auto family : {plain_dot_of, simple_dot_of, k_dot_of, grid_dot_of, decoded_dot_of}) {
        if (const DotColumns dot = family(type); dot != nullptr) return dot;
    }
    return nullptr;
}

DecodeRow decode_row_of(Type type) {
    for (const auto family : {k_decode_of, grid_decode_of, exact_decode_of}) {
        if (const DecodeRow decode = family(type); decode != nullptr) return decode;
    }
    const quant::Codec* codec = quant::codec_of(type);
    return codec != nullptr ? codec->decode : nullptr;
}

}  // namespace heddle::cpu
