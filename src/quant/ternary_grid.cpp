#include "core/half.hpp"
#include "ggml-common.h"
#include "quant/codebooks.hpp"
#include "quant/codec.hpp"
#include "quant/grid_encode.hpp"
#include "quant/rows.hpp"

/// Formats that store groups of eight elements as rows of a codebook of -1, 0 and 1, all shifted a
/// little up or down.
namespace heddle::quant {
namespace {

using Values = std::span<float, QK_K>;

void put_row(const std::int8_t* row, float scale, bool down, float* y) {
    const float shift = down ? -IQ1S_DELTA : IQ1S_DELTA;
    for (std::size_t j = 0; j < 8; ++j) y[j] = scale * (static_cast<float>(row[j]) + shift);
}

void decode_iq1_s(const block_iq1_s& block, Values y) {
    const Codebook& book = codebook_of(GGML_TYPE_IQ1_S);
    const float d = f16_to_f32(block.d);
    for (std::size_t g = 0; g < QK_K / 8; ++g) {
        const unsigned head = block.qh[g / 4];
        const float scale = d * static_cast<float>(2 * (head >> 12 & 7u) + 1);
        const unsigned high = head >> (3 * (g % 4)) & 7u;
        put_row(book.values_of(block.qs[g] | high << 8), scale, (head & 0x8000u) != 0,
                y.data() + 8 * g);
    }
}

/// Field number i of the four 16-bit words of scales.
unsigned scale_word(const block_iq1_m& block, std::size_t i) {
    return block.scales[2 * i] | static_cast<unsigned>(block.scales[2 * i + 1]) << 8;
}

/// The half float that lies in the top nibbles of the words of scales, the lowest nibble first.
std::uint16_t scale_bits(const block_iq1_m& block) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < 4; ++i) bits |= scale_word(block, i) >> 12 << (4 * i);
    return static_cast<std::uint16_t>(bits);
}

void decode_iq1_m(const block_iq1_m& block, Values y) {
    const Codebook& book = codebook_of(GGML_TYPE_IQ1_M);
    const float d = f16_to_f32(scale_bits(block));
    for (std::size_t g = 0; g < QK_K / 8; ++g) {
        const unsigned code = scale_word(block, g / 8) >> (3 * (g / 2 % 4)) & 7u;
        const float scale = d * static_cast<float>(2 * code + 1);
        const unsigned head = block.qh[g / 2] >> (4 * (g % 2)) & 15u;
        put_row(book.values_of(block.qs[g] | (head & 7u) << 8), scale, (head & 8u) != 0,
                y.data() + 8 * g);
    }
}

bool has_finite_spread_scale(const block_iq1_m& block) { return is_finite_half(scale_bits(block)); }

constexpr Codec kCodecs[] = {
    {.type = GGML_TYPE_IQ1_S,
     .decode = DecodeRows<decode_iq1_s>::run,
     .encode_row = encode_iq1_s,
     .needs_importance = true,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_iq1_s>>::run},
    {.type = GGML_TYPE_IQ1_M,
     .decode = DecodeRows<decode_iq1_m>::run,
     .encode_row = encode_iq1_m,
     .first_bad_block = FirstBadBlock<has_finite_spread_scale>::run},
};

}  // namespace

std::span<const Codec> ternary_grid_codecs() { return kCodecs; }

}  // namespace heddle::quant
