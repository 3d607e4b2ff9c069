#include <array>
#include <cmath>
#include <cstdint>

#include "core/half.hpp"
#include "ggml-common.h"
#include "quant/codec.hpp"
#include "quant/packing.hpp"
#include "quant/rounding.hpp"
#include "quant/rows.hpp"
#include "quant/search.hpp"

/// Formats of three levels: -d, 0, d.
namespace heddle::quant {
namespace {

using Trits = std::array<std::uint8_t, QK_K>;

/// Trits 0, 1, 2 for -d, 0, d, where d is the largest magnitude.
Trits trits_of(Floats<QK_K> x, float d) {
    const float r = inverse(d);
    Trits trits;
    for (std::size_t i = 0; i < x.size(); ++i)
        trits[i] = static_cast<std::uint8_t>(round_away_to(x[i] * r, -1, 1) + 1);
    return trits;
}

// ---- tq1_0: five trits in a byte --------------------------------------------
// A byte is a fraction of 256: its trits are the digits after the point in base three, rounded up
// so that multiplying by three brings one digit after the other above the point.
constexpr std::array<unsigned, 5> kPowersOfThree{1, 3, 9, 27, 81};

/// Takes `digits` trits out of each of `count` bytes; trit n of byte j is element j + count * n.
void split_trits(const std::uint8_t* bytes, std::size_t count, std::size_t digits,
                 std::uint8_t* trits) {
    for (std::size_t n = 0; n < digits; ++n)
        for (std::size_t j = 0; j < count; ++j) {
            const auto rest = static_cast<std::uint8_t>(bytes[j] * kPowersOfThree[n]);
            trits[count * n + j] = static_cast<std::uint8_t>(rest * 3u >> 8);
        }
}

/// The inverse of `split_trits`; missing digits count as 0.
void join_trits(const std::uint8_t* trits, std::size_t count, std::size_t digits,
                std::uint8_t* bytes) {
    for (std::size_t j = 0; j < count; ++j) {
        unsigned number = 0;
        for (std::size_t n = 0; n < 5; ++n)
            number = number * 3 + (n < digits ? trits[count * n + j] : 0);
        bytes[j] = static_cast<std::uint8_t>((number * 256 + 242) / 243);
    }
}

void decode_tq1_0(const block_tq1_0& block, std::span<float, QK_K> y) {
    Trits trits;
    split_trits(block.qs, 32, 5, trits.data());
    split_trits(block.qs + 32, 16, 5, trits.data() + 160);
    split_trits(block.qh, 4, 4, trits.data() + 240);
    const float d = f16_to_f32(block.d);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(trits[i] - 1) * d;
}

block_tq1_0 encode_tq1_0(Floats<QK_K> x) {
    const float d = std::fabs(extreme_of(x));
    const Trits trits = trits_of(x, d);
    block_tq1_0 block;
    join_trits(trits.data(), 32, 5, block.qs);
    join_trits(trits.data() + 160, 16, 5, block.qs + 32);
    join_trits(trits.data() + 240, 4, 4, block.qh);
    block.d = f32_to_f16(d);
    return block;
}

// ---- tq2_0: two bits each ---------------------------------------------------
void decode_tq2_0(const block_tq2_0& block, std::span<float, QK_K> y) {
    const float d = f16_to_f32(block.d);
    const auto codes = unpack<2, 32>(block.qs);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(codes[i] - 1) * d;
}

block_tq2_0 encode_tq2_0(Floats<QK_K> x) {
    const float d = std::fabs(extreme_of(x));
    block_tq2_0 block;
    pack<2, 32>(trits_of(x, d), block.qs);
    block.d = f32_to_f16(d);
    return block;
}

constexpr Codec kCodecs[] = {
    {.type = GGML_TYPE_TQ1_0,
     .decode = DecodeRows<decode_tq1_0>::run,
     .encode = EncodeRows<encode_tq1_0>::run,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_tq1_0>>::run},
    {.type = GGML_TYPE_TQ2_0,
     .decode = DecodeRows<decode_tq2_0>::run,
     .encode = EncodeRows<encode_tq2_0>::run,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_tq2_0>>::run},
};

}  // namespace

std::span<const Codec> ternary_codecs() { return kCodecs; }

}  // namespace heddle::quant
