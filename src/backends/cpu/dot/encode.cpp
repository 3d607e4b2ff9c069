#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/encode.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "backends/cpu/dot/block_lanes.hpp"
#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/lanes.hpp"
#include "ggml-common.h"

/// The second operands of dot products.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

namespace {

/// The largest and least of `n` values. Where one of them is infinite or NaN, both are NaN.
struct Bounds {
    float low, high;
};

Bounds bounds_of(const float* x, int n) {
    float low = x[0], high = x[0], nothing = 0;
    for (int i = 0; i < n; ++i) {
        low = std::min(low, x[i]);
        high = std::max(high, x[i]);
        nothing += x[i] * 0;  // NaN unless finite
    }
    return {low + nothing, high + nothing};
}

/// codes[i] = x[i] * r, rounded; returns their sum.
int put_codes(const float* x, float r, std::int8_t* codes, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        const float product = x[i] * r;
        const int code =
            product == product
                ? static_cast<int>(std::nearbyint(std::clamp(product, -128.0f, 127.0f)))
                : 0;
        codes[i] = static_cast<std::int8_t>(code);
        sum += code;
    }
    return sum;
}

template <class Block>
void encode_bytes(const float* from, std::byte* to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += 32, to += sizeof(Block)) {
        const Bounds bounds = bounds_of(from + i, 32);
        const float d = std::fabs(std::max(-bounds.low, bounds.high)) / 127;
        Block block;
        const int sum = put_codes(from + i, d != 0 ? 1 / d : 0, block.qs, 32);
        block.d = f32_to_f16(d);
        if constexpr (requires { block.s; }) block.s = f32_to_f16(static_cast<float>(sum) * d);
        std::memcpy(to, &block, sizeof block);
    }
}

}  // namespace

void encode_q8_K(const float* from, std::byte* to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += QK_K, to += sizeof(block_q8_K)) {
        const Bounds bounds = bounds_of(from + i, QK_K);
        const float extreme = -bounds.low > bounds.high ? bounds.low : bounds.high;
        block_q8_K block;
        const float r = extreme != 0 ? -127 / extreme : 0;
        for (int g = 0; g < QK_K / 16; ++g) {
            const int sum = put_codes(from + i + 16 * g, r, block.qs + 16 * g, 16);
            block.bsums[g] = static_cast<std::int16_t>(sum);
        }
        block.d = r != 0 ? 1 / r : 0;
        std::memcpy(to, &block, sizeof block);
    }
}

#else
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Bits of an infinite float. Without their sign, those of finite ones are below it and those of
/// NaN above it, so that whole numbers compare magnitudes and find what is not finite.
constexpr std::int32_t kInfinite = 0x7f800000;

HWY_INLINE IntVec load_bits(const float* x) {
    return hn::BitCast(BlockInts(), hn::LoadU(BlockFloats(), x));
}

/// Bits of the largest magnitude of 32 values, spread over the lanes.
HWY_INLINE IntVec magnitudes_of(const float* x) {
    const auto mask = hn::Set(BlockInts(), 0x7fffffff);
    auto largest = hn::And(load_bits(x), mask);
    for (std::size_t i = kBlockLanes; i < 32; i += kBlockLanes) {
        largest = hn::Max(largest, hn::And(load_bits(x + i), mask));
    }
    return largest;
}

HWY_INLINE IntVec codes_at(const float* x, FloatVec factor) {
    return nearest_of(hn::Mul(hn::LoadU(BlockFloats(), x), factor));
}

HWY_INLINE void put_codes(const float* x, float r, std::int8_t* to) {
    const auto factor = hn::Set(BlockFloats(), r);
    put_bytes([&](std::size_t i) HWY_ATTR { return codes_at(x + i * kBlockLanes, factor); }, to);
}

/// The sum of codes of `kCount` values, spread over the lanes. They are computed again, which is
/// quicker than reading them.
template <std::size_t kCount>
HWY_INLINE IntVec code_sums(const float* x, float r) {
    const auto factor = hn::Set(BlockFloats(), r);
    auto sum = codes_at(x, factor);
    for (std::size_t i = kBlockLanes; i < kCount; i += kBlockLanes) {
        sum = hn::Add(sum, codes_at(x + i, factor));
    }
    return sum;
}

/// Scales of a few blocks, found before any of the blocks is written: one division does for four,
/// and nothing waits for it.
struct Scales {
    static constexpr std::int64_t kBlocks = 32;
    alignas(16) float d[kBlocks];
    alignas(16) float r[kBlocks];  ///< 1 / d, or 0
    std::uint16_t half[kBlocks];   ///< d as it is stored

    /// Of `count` blocks, at most `kBlocks`.
    HWY_INLINE void find(const float* x, std::int64_t count) {
        const FourFloats four;
        for (std::int64_t i = 0; i < count; i += 4) {
            // Where fewer than four are left, the last one stands in for the others.
            const auto magnitudes = [&](std::int64_t k) HWY_ATTR {
                return magnitudes_of(x + 32 * std::min(i + k, count - 1));
            };
            const auto bits = fold_four(BlockInts(), magnitudes(0), magnitudes(1), magnitudes(2),
                                        magnitudes(3), MaxOp());
            const auto is_finite =
                hn::RebindMask(four, hn::Lt(bits, hn::Set(FourInts(), kInfinite)));
            const auto scale =
                hn::IfThenElse(is_finite, hn::Div(hn::BitCast(four, bits), hn::Set(four, 127.0f)),
                               hn::Set(four, std::numeric_limits<float>::quiet_NaN()));
            const auto inverse = hn::Div(hn::Set(four, 1.0f), scale);
            hn::Store(scale, four, d + i);
            hn::Store(hn::IfThenElse(hn::Eq(scale, hn::Zero(four)), scale, inverse), four, r + i);
            store_f16(four, scale, half + i);
        }
    }
};

/// What q8_1 keeps besides: d times the sum of the codes.
HWY_INLINE void put_sums(const float* x, const Scales& scales, block_q8_1* to, std::int64_t count) {
    const FourFloats four;
    for (std::int64_t i = 0; i < count; i += 4) {
        const auto sums_of = [&](std::int64_t k) HWY_ATTR {
            const std::int64_t number = std::min(i + k, count - 1);
            return code_sums<32>(x + 32 * number, scales.r[number]);
        };
        const auto sums =
            fold_four(BlockInts(), sums_of(0), sums_of(1), sums_of(2), sums_of(3), AddOp());
        std::uint16_t halves[4];
        store_f16(four, hn::Mul(hn::ConvertTo(four, sums), hn::Load(four, scales.d + i)), halves);
        for (std::int64_t k = 0; k < std::min<std::int64_t>(4, count - i); ++k) {
            std::memcpy(&to[i + k].s, &halves[k], sizeof halves[k]);
        }
    }
}

template <class Block>
void encode_bytes(const float* from, std::byte* to, std::int64_t n) {
    Scales scales;
    for (std::int64_t left = n / 32; left > 0; left -= Scales::kBlocks) {
        const std::int64_t count = std::min(left, Scales::kBlocks);
        scales.find(from, count);
        for (std::int64_t i = 0; i < count; ++i, from += 32, to += sizeof(Block)) {
            std::memcpy(to + offsetof(Block, d), &scales.half[i], sizeof scales.half[i]);
            put_codes(from, scales.r[i], reinterpret_cast<std::int8_t*>(to + offsetof(Block, qs)));
        }
        if constexpr (requires(Block b) { b.s; }) {
            put_sums(from - 32 * count, scales, reinterpret_cast<block_q8_1*>(to) - count, count);
        }
    }
}

/// The value of largest magnitude in a super-block, the positive one of two; NaN where one of them
/// is not finite.
HWY_INLINE float extreme_of(const float* x) {
    // As whole numbers the largest is the largest positive value, and without regard to the sign
    // the negative one of largest magnitude.
    auto high = load_bits(x);
    auto low = hn::BitCast(BlockWords(), high);
    for (std::size_t i = kBlockLanes; i < QK_K; i += kBlockLanes) {
        const auto bits = load_bits(x + i);
        high = hn::Max(high, bits);
        low = hn::Max(low, hn::BitCast(BlockWords(), bits));
    }
    const auto negative = hn::BitCast(BlockInts(), low);
    const std::int32_t most = hn::GetLane(hn::MaxOfLanes(BlockInts(), high));
    // Of negative numbers the one of largest magnitude is the least; of none it is no matter.
    const auto below = hn::IfThenElseZero(hn::Lt(negative, hn::Zero(BlockInts())),
                                          hn::And(negative, hn::Set(BlockInts(), 0x7fffffff)));
    const std::int32_t least = hn::GetLane(hn::MaxOfLanes(BlockInts(), below));
    const std::int32_t largest = std::max({most, least, std::int32_t{0}});
    if (largest >= kInfinite) return std::numeric_limits<float>::quiet_NaN();
    float extreme;
    std::memcpy(&extreme, &largest, sizeof extreme);
    return least > most ? -extreme : extreme;
}

void put_super_block(const float* x, float r, std::byte* to) {
    const hn::FixedTag<std::int16_t, 4> words;
    const float d = r != 0 ? 1 / r : 0;
    std::memcpy(to + offsetof(block_q8_K, d), &d, sizeof d);
    auto* codes = reinterpret_cast<std::int8_t*>(to + offsetof(block_q8_K, qs));
    auto* sums = reinterpret_cast<std::int16_t*>(to + offsetof(block_q8_K, bsums));
    for (int j = 0; j < QK_K; j += 64) {
        put_codes(x + j, r, codes + j);
        put_codes(x + j + 32, r, codes + j + 32);
        const auto four =
            fold_four(BlockInts(), code_sums<16>(x + j, r), code_sums<16>(x + j + 16, r),
                      code_sums<16>(x + j + 32, r), code_sums<16>(x + j + 48, r), AddOp());
        hn::StoreU(hn::DemoteTo(words, four), words, sums + j / 16);
    }
}

}  // namespace

void encode_q8_K(const float* from, std::byte* to, std::int64_t n) {
    constexpr std::int64_t kBlocks = 8;
    float r[kBlocks];
    for (std::int64_t left = n / QK_K; left > 0; left -= kBlocks) {
        const std::int64_t count = std::min(left, kBlocks);
        for (std::int64_t i = 0; i < count; ++i) {
            // The extreme value gets code -127.
            const float extreme = extreme_of(from + QK_K * i);
            r[i] = extreme != 0 ? -127 / extreme : 0;
        }
        for (std::int64_t i = 0; i < count; ++i, from += QK_K, to += sizeof(block_q8_K)) {
            put_super_block(from, r[i], to);
        }
    }
}

#endif

void encode_q8_0(const float* from, std::byte* to, std::int64_t n) {
    encode_bytes<block_q8_0>(from, to, n);
}

void encode_q8_1(const float* from, std::byte* to, std::int64_t n) {
    encode_bytes<block_q8_1>(from, to, n);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(encode_q8_0);
HWY_EXPORT(encode_q8_1);
HWY_EXPORT(encode_q8_K);

void encode_q8_0_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_q8_0)(from, static_cast<std::byte*>(to), n);
}

void encode_q8_1_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_q8_1)(from, static_cast<std::byte*>(to), n);
}

void encode_q8_K_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_q8_K)(from, static_cast<std::byte*>(to), n);
}

}  // namespace heddle::cpu
#endif
