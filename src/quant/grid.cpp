#include <cstring>

#include "core/half.hpp"
#include "ggml-common.h"
#include "quant/codebooks.hpp"
#include "quant/codec.hpp"
#include "quant/grid_encode.hpp"
#include "quant/rows.hpp"

/// Formats that store groups of four or eight magnitudes as rows of a codebook, with signs apart
/// and a scale for every 16 or 32 elements.
namespace heddle::quant {
namespace {

using Values = std::span<float, QK_K>;

/// One row, scaled; bit j of `signs` makes element j negative.
template <std::size_t kCount>
void put_row(const std::int8_t* row, float scale, unsigned signs, float* y) {
    for (std::size_t j = 0; j < kCount; ++j) {
        const float sign = (signs >> j & 1u) != 0 ? -1.0f : 1.0f;
        y[j] = scale * static_cast<float>(row[j]) * sign;
    }
}

/// Nibble number i of a packed array.
unsigned nibble(const std::uint8_t* bytes, std::size_t i) {
    return bytes[i / 2] >> (4 * (i % 2)) & 15u;
}

/// The formats of two bits keep levels times 8 in the codebook: d * (2s + 1) / 8.
float scale_of_iq2(float d, unsigned code) { return d * (0.5f + static_cast<float>(code)) * 0.25f; }

void decode_iq2_xxs(const block_iq2_xxs& block, Values y) {
    const Codebook& book = codebook_of(GGML_TYPE_IQ2_XXS);
    const float d = f16_to_f32(block.d);
    for (std::size_t part = 0; part < QK_K / 32; ++part) {
        std::uint32_t words[2];
        std::memcpy(words, block.qs + 4 * part, sizeof words);
        const float scale = scale_of_iq2(d, words[1] >> 28);
        for (std::size_t g = 0; g < 4; ++g) {
            const std::int8_t* row = book.values_of(words[0] >> (8 * g) & 255u);
            const unsigned signs = even_signs(words[1] >> (7 * g));
            put_row<8>(row, scale, signs, y.data() + 32 * part + 8 * g);
        }
    }
}

void decode_iq2_xs(const block_iq2_xs& block, Values y) {
    const Codebook& book = codebook_of(GGML_TYPE_IQ2_XS);
    const float d = f16_to_f32(block.d);
    for (std::size_t g = 0; g < QK_K / 8; ++g) {
        const float scale = scale_of_iq2(d, nibble(block.scales, g / 2));
        const std::int8_t* row = book.values_of(block.qs[g] & 511u);
        put_row<8>(row, scale, even_signs(block.qs[g] >> 9), y.data() + 8 * g);
    }
}

void decode_iq2_s(const block_iq2_s& block, Values y) {
    const Codebook& book = codebook_of(GGML_TYPE_IQ2_S);
    const float d = f16_to_f32(block.d);
    const std::uint8_t* signs = block.qs + QK_K / 8;
    for (std::size_t g = 0; g < QK_K / 8; ++g) {
        const float scale = scale_of_iq2(d, nibble(block.scales, g / 2));
        const unsigned high = block.qh[g / 4] >> (2 * (g % 4)) & 3u;
        put_row<8>(book.values_of(block.qs[g] | high << 8), scale, signs[g], y.data() + 8 * g);
    }
}

void decode_iq3_xxs(const block_iq3_xxs& block, Values y) {
    const Codebook& book = codebook_of(GGML_TYPE_IQ3_XXS);
    const float d = f16_to_f32(block.d);
    for (std::size_t part = 0; part < QK_K / 32; ++part) {
        std::uint32_t word;
        std::memcpy(&word, block.qs + QK_K / 4 + 4 * part, sizeof word);
        const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
        for (std::size_t g = 0; g < 8; ++g) {
            const unsigned signs = even_signs(word >> (7 * (g / 2))) >> (4 * (g % 2));
            put_row<4>(book.values_of(block.qs[8 * part + g]), scale, signs,
                       y.data() + 32 * part + 4 * g);
        }
    }
}

void decode_iq3_s(const block_iq3_s& block, Values y) {
    const Codebook& book = codebook_of(GGML_TYPE_IQ3_S);
    const float d = f16_to_f32(block.d);
    for (std::size_t g = 0; g < QK_K / 4; ++g) {
        const float scale = d * static_cast<float>(1 + 2 * nibble(block.scales, g / 8));
        const unsigned high = block.qh[g / 8] >> (g % 8) & 1u;
        put_row<4>(book.values_of(block.qs[g] | high << 8), scale, nibble(block.signs, g),
                   y.data() + 4 * g);
    }
}

/// The encoder as it is without importance.
template <auto kEncodeRow>
void encode_plain(const float* values, void* blocks, std::int64_t n) {
    kEncodeRow(values, blocks, n, nullptr);
}

constexpr Codec kCodecs[] = {
    {.type = GGML_TYPE_IQ2_XXS,
     .decode = DecodeRows<decode_iq2_xxs>::run,
     .encode_row = encode_iq2_xxs,
     .needs_importance = true,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_iq2_xxs>>::run},
    {.type = GGML_TYPE_IQ2_XS,
     .decode = DecodeRows<decode_iq2_xs>::run,
     .encode_row = encode_iq2_xs,
     .needs_importance = true,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_iq2_xs>>::run},
    {.type = GGML_TYPE_IQ2_S,
     .decode = DecodeRows<decode_iq2_s>::run,
     .encode = encode_plain<encode_iq2_s>,
     .encode_row = encode_iq2_s,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_iq2_s>>::run},
    {.type = GGML_TYPE_IQ3_XXS,
     .decode = DecodeRows<decode_iq3_xxs>::run,
     .encode = encode_plain<encode_iq3_xxs>,
     .encode_row = encode_iq3_xxs,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_iq3_xxs>>::run},
    {.type = GGML_TYPE_IQ3_S,
     .decode = DecodeRows<decode_iq3_s>::run,
     .encode = encode_plain<encode_iq3_s>,
     .encode_row = encode_iq3_s,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_iq3_s>>::run},
};

}  // namespace

std::span<const Codec> grid_codecs() { return kCodecs; }

}  // namespace heddle::quant
