#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/encode_nibbles.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "backends/cpu/dot/block_lanes.hpp"
#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/lanes.hpp"
#include "ggml-common.h"
#include "quant/codec.hpp"

/// Blocks of four and five bits, as caches of keys and values have them. The arithmetic is that of
/// the codecs, operation for operation, and so are the bits; blocks for which that would not
/// pay are left to the codec.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

void encode_nibbles(Type type, const float* from, std::byte* to, std::int64_t n) {
    quant::codec_of(type)->encode(from, to, n);
}

#else
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using FourVec = hn::Vec<FourFloats>;

constexpr std::int64_t kBlock = 32;

/// Scales of a few blocks, found before any of the blocks is written: one division does for four,
/// and nothing waits for it.
struct Scales {
    static constexpr std::int64_t kBlocks = 32;
    alignas(16) float r[kBlocks];        ///< 1 / d, or 0
    alignas(16) float low[kBlocks];      ///< of formats with a minimum
    alignas(16) float special[kBlocks];  ///< not 0: the block is left to the codec
    std::uint16_t d[kBlocks];            ///< as it is stored
    std::uint16_t m[kBlocks];

    HWY_INLINE void put_scale(std::int64_t i, FourVec scale) {
        const FourFloats four;
        const auto inverse = hn::Div(hn::Set(four, 1.0f), scale);
        const auto is_zero = hn::Eq(scale, hn::Zero(four));
        hn::Store(hn::IfThenZeroElse(is_zero, inverse), four, r + i);
        store_f16(four, scale, d + i);
    }

    HWY_INLINE void put_special(std::int64_t i, hn::Mask<FourFloats> mask) {
        hn::Store(hn::IfThenElseZero(mask, hn::Set(FourFloats(), 1.0f)), FourFloats(), special + i);
    }
};

/// Calls `four(i, block)` for each i that is a multiple of four and below `count`; `block(k)` are
/// the values of block i + k. Where fewer than four are left, the last one stands in for the
/// others.
template <class Four>
HWY_INLINE void for_fours(const float* x, std::int64_t count, Four four) {
    for (std::int64_t i = 0; i < count; i += 4) {
        four(i, [&](std::int64_t k) { return x + kBlock * std::min(i + k, count - 1); });
    }
}

/// Encodes a row: scales of a few blocks by `Format::find`, then their codes.
template <class Format>
void encode_row(const float* from, std::byte* to, std::int64_t n) {
    using Block = typename Format::Block;
    const auto codec = quant::codec_of(Format::kType)->encode;
    Scales scales;
    for (std::int64_t left = n / kBlock; left > 0; left -= Scales::kBlocks) {
        const std::int64_t count = std::min(left, Scales::kBlocks);
        Format::find(from, count, scales);
        for (std::int64_t i = 0; i < count; ++i, from += kBlock, to += sizeof(Block)) {
            if (scales.special[i] != 0) {
                codec(from, to, kBlock);
                continue;
            }
            Format::put_codes(from, scales, i, to);
            std::memcpy(to + offsetof(Block, d), &scales.d[i], sizeof scales.d[i]);
            if constexpr (requires(Block b) { b.m; }) {
                std::memcpy(to + offsetof(Block, m), &scales.m[i], sizeof scales.m[i]);
            }
        }
    }
}

/// Cut down to a whole number from 0 to `most`; NaN gives 0.
HWY_INLINE IntVec truncate(FloatVec value, float most) {
    const BlockFloats d;
    const auto positive = hn::IfThenElseZero(hn::Gt(value, hn::Zero(d)), value);
    return cut_down(hn::Min(positive, hn::Set(d, most)));
}

/// Elements j and j + 16 in a byte, and fifth bits apart where the format has them. `codes(i)`
/// gives those of elements i and after.
template <class Block, class GetCodes>
HWY_INLINE void put_block_codes(std::byte* block, GetCodes codes) {
    const BlockInts d;
    const hn::FixedTag<std::uint8_t, kBlockLanes> bytes;
    auto* nibbles = reinterpret_cast<std::uint8_t*>(block + offsetof(Block, qs));
    std::uint32_t fifth = 0;
    for (std::size_t i = 0; i < 16; i += kBlockLanes) {
        auto low = codes(i), high = codes(i + 16);
        if constexpr (requires(Block b) { b.qh; }) {
            const auto put_fifth = [&](IntVec code, std::size_t at) HWY_ATTR {
                std::uint8_t bits[8] = {};
                hn::StoreMaskBits(d, hn::Gt(code, hn::Set(d, 15)), bits);
                std::uint32_t word;
                std::memcpy(&word, bits, sizeof word);
                fifth |= word << at;
            };
            put_fifth(low, i);
            put_fifth(high, i + 16);
            low = hn::And(low, hn::Set(d, 15));
            high = hn::And(high, hn::Set(d, 15));
        }
        hn::StoreU(hn::DemoteTo(bytes, hn::Or(low, hn::ShiftLeft<4>(high))), bytes, nibbles + i);
    }
    if constexpr (requires(Block b) { b.qh; }) {
        std::memcpy(block + offsetof(Block, qh), &fifth, sizeof fifth);
    }
}

// ---- levels around zero
// --------------------------------------------------------------------------

/// The values of largest magnitude of four blocks. `unclear` is where it is not known which one
/// that is: one and its negative are, or there is NaN. As whole numbers, the largest is the largest
/// positive value, and without regard to the sign the negative one of largest magnitude; NaN is
/// beyond both.
template <class GetBlock>
HWY_INLINE FourVec extremes_of(GetBlock block, hn::Mask<FourFloats>& unclear) {
    const FourFloats four;
    const FourInts ints;
    const auto highest = [&](std::int64_t k) HWY_ATTR {
        const auto* x = reinterpret_cast<const std::int32_t*>(block(k));
        auto most = hn::LoadU(BlockInts(), x);
        for (std::size_t i = kBlockLanes; i < kBlock; i += kBlockLanes) {
            most = hn::Max(most, hn::LoadU(BlockInts(), x + i));
        }
        return most;
    };
    const auto lowest = [&](std::int64_t k) HWY_ATTR {
        const auto* x = reinterpret_cast<const std::uint32_t*>(block(k));
        auto most = hn::LoadU(BlockWords(), x);
        for (std::size_t i = kBlockLanes; i < kBlock; i += kBlockLanes) {
            most = hn::Max(most, hn::LoadU(BlockWords(), x + i));
        }
        return most;
    };
    const auto high = hn::Max(hn::Zero(ints), fold_four(BlockInts(), highest(0), highest(1),
                                                        highest(2), highest(3), MaxOp()));
    const auto negative = hn::BitCast(
        ints, fold_four(BlockWords(), lowest(0), lowest(1), lowest(2), lowest(3), MaxOp()));
    const auto low = hn::IfThenElseZero(hn::Lt(negative, hn::Zero(ints)),
                                        hn::And(negative, hn::Set(ints, 0x7fffffff)));
    const auto largest = hn::Max(high, low);
    const auto is_tie = hn::And(hn::Eq(high, low), hn::Gt(high, hn::Zero(ints)));
    const auto is_nan = hn::Gt(largest, hn::Set(ints, 0x7f800000));
    const auto sign = hn::IfThenElseZero(hn::Gt(low, high), hn::Set(ints, INT32_MIN));
    unclear = hn::RebindMask(four, hn::Or(is_tie, is_nan));
    return hn::BitCast(four, hn::Or(largest, sign));
}

/// q4_0, q5_0: the extreme element gets code 0.
template <Type kOf, class B, int kLevels>
struct Symmetric {
    static constexpr Type kType = kOf;
    using Block = B;
    static constexpr float kHalf = kLevels / 2;

    static HWY_INLINE void find(const float* x, std::int64_t count, Scales& to) {
        for_fours(x, count, [&](std::int64_t i, auto block) HWY_ATTR {
            hn::Mask<FourFloats> unclear;
            const auto extremes = extremes_of(block, unclear);
            to.put_scale(i, hn::Div(extremes, hn::Set(FourFloats(), -kHalf)));
            to.put_special(i, unclear);
        });
    }

    static HWY_INLINE void put_codes(const float* x, const Scales& scales, std::int64_t number,
                                     std::byte* to) {
        const auto r = hn::Set(BlockFloats(), scales.r[number]);
        const auto middle = hn::Set(BlockFloats(), kHalf + 0.5f);
        put_block_codes<Block>(to, [&](std::size_t i) HWY_ATTR {
            const auto value = hn::Mul(hn::LoadU(BlockFloats(), x + i), r);
            return truncate(hn::Add(value, middle), kLevels - 1);
        });
    }
};

// ---- levels from a minimum up
// --------------------------------------------------------------------

/// q4_1, q5_1.
template <Type kOf, class B, int kLevels>
struct Affine {
    static constexpr Type kType = kOf;
    using Block = B;

    static HWY_INLINE void find(const float* x, std::int64_t count, Scales& to) {
        const FourFloats four;
        for_fours(x, count, [&](std::int64_t i, auto block) HWY_ATTR {
            const auto least = [&](std::int64_t k) HWY_ATTR { return reduce(block(k), MinOp()); };
            const auto most = [&](std::int64_t k) HWY_ATTR { return reduce(block(k), MaxOp()); };
            const auto not_finite = [&](std::int64_t k) HWY_ATTR { return poison(block(k)); };
            const auto low =
                fold_four(BlockFloats(), least(0), least(1), least(2), least(3), MinOp());
            const auto high = fold_four(BlockFloats(), most(0), most(1), most(2), most(3), MaxOp());
            const auto nothing = fold_four(BlockFloats(), not_finite(0), not_finite(1),
                                           not_finite(2), not_finite(3), AddOp());
            to.put_scale(i, hn::Div(hn::Sub(high, low), hn::Set(four, float{kLevels - 1})));
            hn::Store(low, four, to.low + i);
            store_f16(four, low, to.m + i);
            // Which of several zeros comes first decides on the sign of a zero that is stored.
            const auto is_zero = hn::Or(hn::Eq(low, hn::Zero(four)), hn::Eq(high, hn::Zero(four)));
            to.put_special(i, hn::Or(is_zero, hn::Not(hn::Eq(nothing, nothing))));
        });
    }

    template <class Op>
    static HWY_INLINE FloatVec reduce(const float* x, Op op) {
        auto result = hn::LoadU(BlockFloats(), x);
        for (std::size_t i = kBlockLanes; i < kBlock; i += kBlockLanes) {
            result = op(BlockFloats(), result, hn::LoadU(BlockFloats(), x + i));
        }
        return result;
    }

    /// 0, or NaN where a value is infinite or NaN.
    static HWY_INLINE FloatVec poison(const float* x) {
        auto sum = hn::Zero(BlockFloats());
        for (std::size_t i = 0; i < kBlock; i += kBlockLanes) {
            sum = hn::MulAdd(hn::LoadU(BlockFloats(), x + i), hn::Zero(BlockFloats()), sum);
        }
        return sum;
    }

    static HWY_INLINE void put_codes(const float* x, const Scales& scales, std::int64_t number,
                                     std::byte* to) {
        const auto r = hn::Set(BlockFloats(), scales.r[number]);
        const auto low = hn::Set(BlockFloats(), scales.low[number]);
        put_block_codes<Block>(to, [&](std::size_t i) HWY_ATTR {
            const auto steps = hn::Mul(hn::Sub(hn::LoadU(BlockFloats(), x + i), low), r);
            return truncate(hn::Add(steps, hn::Set(BlockFloats(), 0.5f)), kLevels - 1);
        });
    }
};

// ---- sixteen uneven levels
// -----------------------------------------------------------------------

constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

/// Calls `above(code, mask)` for each level but the lowest, with where values are nearer to it, or
/// as near, than to the one below.
template <class Above>
HWY_INLINE void for_levels(FloatVec value, Above above) {
    for (int code = 1; code < 16; ++code) {
        const float middle = 0.5f * (kLevels[code - 1] + kLevels[code]);
        above(code, hn::Ge(value, hn::Set(BlockFloats(), middle)));
    }
}

HWY_INLINE IntVec nearest_code(FloatVec value) {
    auto code = hn::Zero(BlockInts());
    for_levels(value, [&](int, auto mask) HWY_ATTR {
        code = hn::Sub(code, hn::VecFromMask(BlockInts(), hn::RebindMask(BlockInts(), mask)));
    });
    return code;
}

HWY_INLINE FloatVec nearest_level(FloatVec value) {
    auto level = hn::Set(BlockFloats(), kLevels[0]);
    for_levels(value, [&](int code, auto mask) HWY_ATTR {
        level = hn::IfThenElse(mask, hn::Set(BlockFloats(), kLevels[code]), level);
    });
    return level;
}

/// iq4_nl: the extreme element at level -127, then the scale that suits the codes.
struct Nonlinear {
    static constexpr Type kType = GGML_TYPE_IQ4_NL;
    using Block = block_iq4_nl;

    static HWY_INLINE void find(const float* x, std::int64_t count, Scales& to) {
        const FourFloats four;
        for_fours(x, count, [&](std::int64_t i, auto block) HWY_ATTR {
            hn::Mask<FourFloats> unclear;
            const auto extremes = extremes_of(block, unclear);
            const auto step = hn::Div(extremes, hn::Set(four, -127.0f));
            const auto r = hn::Div(hn::Set(four, 1.0f), step);
            hn::Store(r, four, to.r + i);
            const auto is_nothing = hn::Lt(hn::Abs(extremes), hn::Set(four, 1e-15f));
            to.put_special(i, hn::Or(unclear, is_nothing));
            put_fitting_scales(i, block, to);
        });
    }

    /// Sums are taken in order, each value by itself; four blocks at once keep the adders busy.
    template <class GetBlock>
    static HWY_INLINE void put_fitting_scales(std::int64_t i, GetBlock block, Scales& to) {
        const BlockFloats d;
        const FourFloats four;
        float along[4][kBlock], square[4][kBlock];
        for (std::int64_t k = 0; k < 4; ++k) {
            const auto r = hn::Set(d, to.r[i + k]);
            for (std::size_t j = 0; j < kBlock; j += kBlockLanes) {
                const auto value = hn::LoadU(d, block(k) + j);
                const auto level = nearest_level(hn::Mul(r, value));
                const auto weighted = hn::Mul(hn::Mul(value, value), level);
                hn::StoreU(hn::Mul(weighted, value), d, along[k] + j);
                hn::StoreU(hn::Mul(weighted, level), d, square[k] + j);
            }
        }
        float sum_along[4] = {}, sum_square[4] = {};
        for (std::size_t j = 0; j < kBlock; ++j) {
            for (std::size_t k = 0; k < 4; ++k) {
                sum_along[k] += along[k][j];
                sum_square[k] += square[k][j];
            }
        }
        const auto squares = hn::LoadU(four, sum_square);
        const auto scale = hn::Div(hn::LoadU(four, sum_along), squares);
        store_f16(four, hn::IfThenElseZero(hn::Gt(squares, hn::Zero(four)), scale), to.d + i);
    }

    static HWY_INLINE void put_codes(const float* x, const Scales& scales, std::int64_t number,
                                     std::byte* to) {
        const auto r = hn::Set(BlockFloats(), scales.r[number]);
        put_block_codes<Block>(to, [&](std::size_t i) HWY_ATTR {
            return nearest_code(hn::Mul(r, hn::LoadU(BlockFloats(), x + i)));
        });
    }
};

}  // namespace

void encode_nibbles(Type type, const float* from, std::byte* to, std::int64_t n) {
    switch (type) {
        case GGML_TYPE_Q4_0:
            return encode_row<Symmetric<GGML_TYPE_Q4_0, block_q4_0, 16> >(from, to, n);
        case GGML_TYPE_Q5_0:
            return encode_row<Symmetric<GGML_TYPE_Q5_0, block_q5_0, 32> >(from, to, n);
        case GGML_TYPE_Q4_1:
            return encode_row<Affine<GGML_TYPE_Q4_1, block_q4_1, 16> >(from, to, n);
        case GGML_TYPE_Q5_1:
            return encode_row<Affine<GGML_TYPE_Q5_1, block_q5_1, 32> >(from, to, n);
        default:
            return encode_row<Nonlinear>(from, to, n);
    }
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(encode_nibbles);

void encode_q4_0_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_nibbles)(GGML_TYPE_Q4_0, from, static_cast<std::byte*>(to), n);
}

void encode_q4_1_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_nibbles)(GGML_TYPE_Q4_1, from, static_cast<std::byte*>(to), n);
}

void encode_q5_0_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_nibbles)(GGML_TYPE_Q5_0, from, static_cast<std::byte*>(to), n);
}

void encode_q5_1_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_nibbles)(GGML_TYPE_Q5_1, from, static_cast<std::byte*>(to), n);
}

void encode_iq4_nl_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_nibbles)(GGML_TYPE_IQ4_NL, from, static_cast<std::byte*>(to), n);
}

}  // namespace heddle::cpu
#endif
