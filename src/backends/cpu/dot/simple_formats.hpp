// Formats with one scale for 16 or more elements, multiplied by q8_0 or q8_1. Each unpacks 32
// elements, number `group` of its block, into two vectors. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_SIMPLE_FORMATS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_SIMPLE_FORMATS_HPP
#undef HEDDLE_CPU_DOT_SIMPLE_FORMATS_HPP
#else
#define HEDDLE_CPU_DOT_SIMPLE_FORMATS_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/levels.hpp"
#include "quant/small_floats.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class B, int kCount>
struct WithQ8_0 {
    using Block = B;
    using Other = block_q8_0;
    static constexpr int kElements = kCount;
    static constexpr bool kHasTwoScales = false;  ///< for 16 elements each
    static constexpr bool kHasMinimum = false;

    static HWY_INLINE float scale(const std::byte* block, int) {
        return read_half(block + offsetof(Block, d));
    }
};

template <class B>
struct WithQ8_1 : WithQ8_0<B, 32> {
    using Other = block_q8_1;
    static constexpr bool kHasMinimum = true;

    static HWY_INLINE float minimum(const std::byte* block) {
        return read_half(block + offsetof(B, m));
    }
};

struct Q1_0 : WithQ8_0<block_q1_0, QK1_0> {
    /// 2 * bit - 1
    static HWY_INLINE void unpack(const std::byte* block, int group, CodeVec& low, CodeVec& high) {
        const std::byte* bits = block + offsetof(Block, qs) + 4 * group;
        const auto one = hn::Set(Codes(), 1);
        low = hn::Sub(where_bits(spread_two_bytes(bits), each_bit(), 2), one);
        high = hn::Sub(where_bits(spread_two_bytes(bits + 2), each_bit(), 2), one);
    }
};

struct Q2_0 : WithQ8_0<block_q2_0, QK2_0> {
    static HWY_INLINE void unpack(const std::byte* block, int group, CodeVec& low, CodeVec& high) {
        low = four_bytes(block + offsetof(Block, qs) + 8 * group);
        high = four_bytes(block + offsetof(Block, qs) + 8 * group + 4);
    }

private:
    static HWY_INLINE CodeVec four_bytes(const std::byte* from) {
        alignas(16) static constexpr std::uint8_t kOrder[16] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                                2, 2, 2, 2, 3, 3, 3, 3};
        const auto words = hn::Set(hn::FixedTag<std::uint32_t, 4>(), read<std::uint32_t>(from));
        const auto bytes =
            hn::TableLookupBytes(hn::BitCast(Bytes(), words), hn::Load(Bytes(), kOrder));
        // Bits 0, 2, 4, 6 of the lanes in turn, and those above them.
        const auto ones = hn::BitCast(
            Bytes(), hn::Set(hn::FixedTag<std::uint32_t, 4>(), std::uint32_t{0x40100401}));
        const auto twos = hn::Add(ones, ones);
        const auto code = hn::Add(where_bits(bytes, ones, 1), where_bits(bytes, twos, 2));
        return hn::Sub(code, hn::Set(Codes(), 1));
    }
};

/// Bytes that hold elements j and j + 16, less `middle`.
HWY_INLINE void unpack_nibbles(const std::byte* from, std::int8_t middle, CodeVec& low,
                               CodeVec& high) {
    const auto bytes = load_bytes(from);
    low = hn::Sub(low_nibbles(bytes), hn::Set(Codes(), middle));
    high = hn::Sub(high_nibbles(bytes), hn::Set(Codes(), middle));
}

/// Adds 16 where the bit of the element is set.
HWY_INLINE void add_fifth_bits(const std::byte* from, CodeVec& low, CodeVec& high) {
    low = hn::Add(low, where_bits(spread_two_bytes(from), each_bit(), 16));
    high = hn::Add(high, where_bits(spread_two_bytes(from + 2), each_bit(), 16));
}

struct Q4_0 : WithQ8_0<block_q4_0, QK4_0> {
    static HWY_INLINE void unpack(const std::byte* block, int, CodeVec& low, CodeVec& high) {
        unpack_nibbles(block + offsetof(Block, qs), 8, low, high);
    }
};

struct Q5_0 : WithQ8_0<block_q5_0, QK5_0> {
    static HWY_INLINE void unpack(const std::byte* block, int, CodeVec& low, CodeVec& high) {
        unpack_nibbles(block + offsetof(Block, qs), 16, low, high);
        add_fifth_bits(block + offsetof(Block, qh), low, high);
    }
};

struct Q8_0 : WithQ8_0<block_q8_0, QK8_0> {
    static HWY_INLINE void unpack(const std::byte* block, int, CodeVec& low, CodeVec& high) {
        low = load_codes(block + offsetof(Block, qs));
        high = load_codes(block + offsetof(Block, qs) + 16);
    }
};

struct Q4_1 : WithQ8_1<block_q4_1> {
    static HWY_INLINE void unpack(const std::byte* block, int, CodeVec& low, CodeVec& high) {
        unpack_nibbles(block + offsetof(Block, qs), 0, low, high);
    }
};

struct Q5_1 : WithQ8_1<block_q5_1> {
    static HWY_INLINE void unpack(const std::byte* block, int, CodeVec& low, CodeVec& high) {
        unpack_nibbles(block + offsetof(Block, qs), 0, low, high);
        add_fifth_bits(block + offsetof(Block, qh), low, high);
    }
};

struct Iq4Nl : WithQ8_0<block_iq4_nl, QK4_NL> {
    static HWY_INLINE void unpack(const std::byte* block, int, CodeVec& low, CodeVec& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs));
        low = look_up(kNonlinearLevels, low_nibbles(bytes));
        high = look_up(kNonlinearLevels, high_nibbles(bytes));
    }
};

struct Mxfp4 : WithQ8_0<block_mxfp4, QK_MXFP4> {
    static HWY_INLINE float scale(const std::byte* block, int) {
        return quant::e8m0_to_f32_half(read<std::uint8_t>(block + offsetof(Block, e)));
    }

    static HWY_INLINE void unpack(const std::byte* block, int, CodeVec& low, CodeVec& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs));
        low = look_up(kFp4Levels, low_nibbles(bytes));
        high = look_up(kFp4Levels, high_nibbles(bytes));
    }
};

struct Nvfp4 : WithQ8_0<block_nvfp4, QK_NVFP4> {
    static constexpr bool kHasTwoScales = true;

    static HWY_INLINE float scale(const std::byte* block, int sixteen) {
        return quant::ue4m3_to_f32_half(read<std::uint8_t>(block + offsetof(Block, d) + sixteen));
    }

    /// Eight bytes hold sixteen elements, j and j + 8 together.
    static HWY_INLINE void unpack(const std::byte* block, int group, CodeVec& low, CodeVec& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs) + 16 * group);
        const auto first = look_up(kFp4Levels, low_nibbles(bytes));
        const auto second = look_up(kFp4Levels, high_nibbles(bytes));
        low = hn::ConcatLowerLower(Codes(), second, first);
        high = hn::ConcatUpperUpper(Codes(), second, first);
    }
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
