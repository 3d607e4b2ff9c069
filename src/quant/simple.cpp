#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/half.hpp"
#include "ggml-common.h"
#include "quant/codec.hpp"
#include "quant/lanes.hpp"
#include "quant/packing.hpp"
#include "quant/rounding.hpp"
#include "quant/rows.hpp"
#include "quant/search.hpp"

/// Formats with one scale (and perhaps one minimum) per block and evenly spaced levels.
namespace heddle::quant {
namespace {

// ---- one and two bits, elements in sequence ---------------------------------
void decode_q1_0(const block_q1_0& block, std::span<float, QK1_0> y) {
    const float d = f16_to_f32(block.d);
    const auto bits = unpack<1, 1>(block.qs);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = bits[i] != 0 ? d : -d;
}

block_q1_0 encode_q1_0(Floats<QK1_0> x) {
    float sum = 0;
    for (const float value : x) sum += std::fabs(value);
    std::array<std::uint8_t, QK1_0> bits;
    for (std::size_t i = 0; i < x.size(); ++i) bits[i] = x[i] >= 0;
    block_q1_0 block;
    block.d = f32_to_f16(sum / QK1_0);
    pack<1, 1>(bits, block.qs);
    return block;
}

void decode_q2_0(const block_q2_0& block, std::span<float, QK2_0> y) {
    const float d = f16_to_f32(block.d);
    const auto codes = unpack<2, 1>(block.qs);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(codes[i] - 1) * d;
}

block_q2_0 encode_q2_0(Floats<QK2_0> x) {
    const float d = std::fabs(extreme_of(x)), r = inverse(d);
    std::array<std::uint8_t, QK2_0> codes;
    for (std::size_t i = 0; i < x.size(); ++i)
        codes[i] = static_cast<std::uint8_t>(round_away_to(x[i] * r, -1, 2) + 1);
    block_q2_0 block;
    block.d = f32_to_f16(d);
    pack<2, 1>(codes, block.qs);
    return block;
}

// ---- four and five bits, elements j and j + 16 in a byte --------------------
/// Where five-bit formats keep the fifth bit, four-bit formats have nothing.
template <class Block>
concept HasHighBits = requires(const Block& block) {
    block.qh;
};

template <class Block>
constexpr int kMaxCode = HasHighBits<Block> ? 31 : 15;

template <class Block>
std::array<std::uint8_t, 32> codes_of(const Block& block) {
    auto codes = unpack<4, 16>(block.qs);
    if constexpr (HasHighBits<Block>) {
        const auto high = unpack<1, 1>(block.qh);
        for (std::size_t i = 0; i < 32; ++i)
            codes[i] = static_cast<std::uint8_t>(codes[i] | high[i] << 4);
    }
    return codes;
}

template <class Block>
void set_codes(Block& block, const std::array<std::uint8_t, 32>& codes) {
    pack<4, 16>(codes, block.qs);
    if constexpr (HasHighBits<Block>) pack<1, 1>(codes, block.qh, 4);
}

/// q4_0, q5_0: levels around zero.
template <class Block>
void decode_symmetric(const Block& block, std::span<float, 32> y) {
    constexpr int kHalf = (kMaxCode<Block> + 1) / 2;
    const float d = f16_to_f32(block.d);
    const auto codes = codes_of(block);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(codes[i] - kHalf) * d;
}

/// The scale has the sign that gives the extreme element code 0, the one level without a mirror.
template <class Block>
Block encode_symmetric(Floats<32> x) {
    constexpr int kLevels = kMaxCode<Block> + 1;
    constexpr float kHalf = kLevels * 0.5f;
    const float d = extreme_of(x) / -kHalf, r = inverse(d);
    std::array<std::uint8_t, 32> codes;
    for (std::size_t i = 0; i < x.size(); ++i)
        codes[i] =
            static_cast<std::uint8_t>(truncate_to(x[i] * r + (kHalf + 0.5f), 0, kMaxCode<Block>));
    Block block;
    block.d = f32_to_f16(d);
    set_codes(block, codes);
    return block;
}

template <class Block>
void search_symmetric_blocks(std::span<const float> x, std::span<const float> weights,
                             std::span<std::uint8_t> codes, std::span<Block> blocks) {
    std::array<float, kLanes> scales;
    const auto found = std::span(scales).first(blocks.size());
    search_symmetric(x, weights, 32, (kMaxCode<Block> + 1) / 2, codes, found);
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].d = f32_to_f16(found[i]);
}

/// q4_1, q5_1: levels from the block's minimum up.
template <class Block>
void decode_affine(const Block& block, std::span<float, 32> y) {
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    const auto codes = codes_of(block);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(codes[i]) * d + m;
}

template <class Block>
Block encode_affine(Floats<32> x) {
    float low = x[0], high = x[0];
    for (const float value : x) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
    const float d = (high - low) / kMaxCode<Block>, r = inverse(d);
    std::array<std::uint8_t, 32> codes;
    for (std::size_t i = 0; i < x.size(); ++i)
        codes[i] =
            static_cast<std::uint8_t>(truncate_to((x[i] - low) * r + 0.5f, 0, kMaxCode<Block>));
    Block block;
    block.d = f32_to_f16(d);
    block.m = f32_to_f16(low);
    set_codes(block, codes);
    return block;
}

template <class Block>
void search_affine_blocks(std::span<const float> x, std::span<const float> weights,
                          std::span<std::uint8_t> codes, std::span<Block> blocks) {
    std::array<Affine, kLanes> lines;
    const auto found = std::span(lines).first(blocks.size());
    search_affine(x, weights, 32, kMaxCode<Block>, kFineTrials, codes, found);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        blocks[i].d = f32_to_f16(found[i].scale);
        blocks[i].m = f32_to_f16(-found[i].minimum);
    }
}

template <class Block>
bool has_finite_scale_and_minimum(const Block& block) {
    return is_finite_half(block.d) && is_finite_half(block.m);
}

/// One row with importance, several blocks at a time, or by the plain encoder where there is none.
template <class Block, auto kSearch, auto kPlain>
void encode_row(const float* row, void* blocks, std::int64_t n, const float* importance) {
    if (importance == nullptr) return EncodeRows<kPlain>::run(row, blocks, n);
    const auto size = static_cast<std::size_t>(n);
    const float energy = mean_square({row, size});
    std::array<float, 32 * kLanes> weights;
    std::array<std::array<std::uint8_t, 32>, kLanes> codes;
    std::array<Block, kLanes> found;
    for (std::size_t i = 0; i < size; i += weights.size()) {
        const std::size_t count = std::min(weights.size(), size - i);
        const std::span x(row + i, count);
        weigh(x, {importance + i, count}, energy, weights);
        kSearch(x, std::span(weights).first(count), std::span(codes[0].data(), count),
                std::span(found).first(count / 32));
        for (std::size_t k = 0; k < count / 32; ++k) set_codes(found[k], codes[k]);
        std::memcpy(static_cast<std::byte*>(blocks) + i / 32 * sizeof(Block), found.data(),
                    count / 32 * sizeof(Block));
    }
}

// ---- eight bits -------------------------------------------------------------
/// q8_0, q8_1: the same codes; q8_1 also keeps their sum, which saves dot products a pass.
template <class Block>
void decode_bytes(const Block& block, std::span<float, 32> y) {
    const float d = f16_to_f32(block.d);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(block.qs[i]) * d;
}

template <class Block>
Block encode_bytes(Floats<32> x) {
    const float d = std::fabs(extreme_of(x)) / 127, r = inverse(d);
    Block block;
    int sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const int code = round_away_to(x[i] * r, -127, 127);
        block.qs[i] = static_cast<std::int8_t>(code);
        sum += code;
    }
    block.d = f32_to_f16(d);
    if constexpr (requires { block.s; }) block.s = f32_to_f16(static_cast<float>(sum) * d);
    return block;
}

void decode_q8_K(const block_q8_K& block, std::span<float, QK_K> y) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = block.d * static_cast<float>(block.qs[i]);
}

block_q8_K encode_q8_K(Floats<QK_K> x) {
    block_q8_K block{};
    const float extreme = extreme_of(x);
    if (extreme == 0) return block;
    const float r = -127 / extreme;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const int code = clamp_to(round_even(r * x[i]), -128, 127);
        block.qs[i] = static_cast<std::int8_t>(code);
        block.bsums[i / 16] = static_cast<std::int16_t>(block.bsums[i / 16] + code);
    }
    block.d = 1 / r;
    return block;
}

bool has_finite_float_scale(const block_q8_K& block) { return std::isfinite(block.d); }

// ---- the list ---------------------------------------------------------------
template <class Block>
constexpr Codec symmetric_codec(Type type) {
    return {
        .type = type,
        .decode = DecodeRows<decode_symmetric<Block>>::run,
        .encode = EncodeRows<encode_symmetric<Block>>::run,
        .encode_row = encode_row<Block, search_symmetric_blocks<Block>, encode_symmetric<Block>>,
        .first_bad_block = FirstBadBlock<has_finite_scale<Block>>::run};
}

template <class Block>
constexpr Codec affine_codec(Type type) {
    return {.type = type,
            .decode = DecodeRows<decode_affine<Block>>::run,
            .encode = EncodeRows<encode_affine<Block>>::run,
            .encode_row = encode_row<Block, search_affine_blocks<Block>, encode_affine<Block>>,
            .first_bad_block = FirstBadBlock<has_finite_scale_and_minimum<Block>>::run};
}

constexpr Codec kCodecs[] = {
    {.type = GGML_TYPE_Q1_0,
     .decode = DecodeRows<decode_q1_0>::run,
     .encode = EncodeRows<encode_q1_0>::run,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_q1_0>>::run},
    {.type = GGML_TYPE_Q2_0,
     .decode = DecodeRows<decode_q2_0>::run,
     .encode = EncodeRows<encode_q2_0>::run,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_q2_0>>::run},
    symmetric_codec<block_q4_0>(GGML_TYPE_Q4_0),
    affine_codec<block_q4_1>(GGML_TYPE_Q4_1),
    symmetric_codec<block_q5_0>(GGML_TYPE_Q5_0),
    affine_codec<block_q5_1>(GGML_TYPE_Q5_1),
    {.type = GGML_TYPE_Q8_0,
     .decode = DecodeRows<decode_bytes<block_q8_0>>::run,
     .encode = EncodeRows<encode_bytes<block_q8_0>>::run,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_q8_0>>::run},
    {.type = GGML_TYPE_Q8_1,
     .decode = DecodeRows<decode_bytes<block_q8_1>>::run,
     .encode = EncodeRows<encode_bytes<block_q8_1>>::run,
     .is_operand = true},
    {.type = GGML_TYPE_Q8_K,
     .decode = DecodeRows<decode_q8_K>::run,
     .encode = EncodeRows<encode_q8_K>::run,
     .first_bad_block = FirstBadBlock<has_finite_float_scale>::run,
     .is_operand = true},
};

}  // namespace

std::span<const Codec> simple_codecs() { return kCodecs; }

}  // namespace heddle::quant
