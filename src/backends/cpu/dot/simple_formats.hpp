// Formats with one scale for 16 or more elements, multiplied by q8_0 or q8_1. Each unpacks 32
// elements, number `group` of its block, into two vectors; a source is one block, or stands for
// blocks at the same place of several rows. Most formats need no more than bytes at the same place
// of one or two sixteens of a block: those say where these are (`kLoads` of them, `load_at`), and
// what they hold (`decode`). Included once per instruction set, inside a file that is compiled by
// foreach_target.h.
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

    static HWY_INLINE F16 stored_scale(const std::byte* block, int) {
        return {read<std::uint16_t>(block + offsetof(Block, d))};
    }
    static HWY_INLINE float scale(const std::byte* block, int) {
        return to_float(stored_scale(block, 0));
    }
};

template <class B>
struct WithQ8_1 : WithQ8_0<B, 32> {
    using Other = block_q8_1;
    static constexpr bool kHasMinimum = true;

    static HWY_INLINE F16 stored_minimum(const std::byte* block) {
        return {read<std::uint16_t>(block + offsetof(B, m))};
    }
    static HWY_INLINE float minimum(const std::byte* block) {
        return to_float(stored_minimum(block));
    }
};

/// Formats of `kCount` sixteens of bytes, from byte `kFirst` of a block on.
template <class Format, std::size_t kFirst, int kCount>
struct FromSixteens {
    static constexpr int kLoads = kCount;
    static constexpr std::size_t load_at(int i) {
        return kFirst + 16 * static_cast<std::size_t>(i);
    }

    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int, V& low, V& high) {
        if constexpr (kLoads == 1) {
            Format::decode(low, high, load_bytes(block + load_at(0)));
        } else {
            Format::decode(low, high, load_bytes(block + load_at(0)),
                           load_bytes(block + load_at(1)));
        }
    }
};

struct Q1_0 : WithQ8_0<block_q1_0, QK1_0> {
    /// 2 * bit - 1
    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int group, V& low, V& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs));
        const auto bits = each_bit(hn::DFromV<decltype(bytes)>());
        low = less(where_bits(spread_two(bytes, 4 * group), bits, 2), 1);
        high = less(where_bits(spread_two(bytes, 4 * group + 2), bits, 2), 1);
    }
};

struct Q2_0 : WithQ8_0<block_q2_0, QK2_0> {
    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int group, V& low, V& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs));
        low = four_bytes(bytes, 8 * group);
        high = four_bytes(bytes, 8 * group + 4);
    }

private:
    /// The codes of bytes `first` to `first` + 3.
    template <class V>
    static HWY_INLINE auto four_bytes(V bytes, int first) {
        alignas(16) static constexpr std::uint8_t kOrder[16] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                                2, 2, 2, 2, 3, 3, 3, 3};
        // Bits 0, 2, 4, 6 of the lanes in turn, and those above them.
        alignas(16) static constexpr std::uint8_t kOnes[16] = {1, 4, 16, 64, 1, 4, 16, 64,
                                                               1, 4, 16, 64, 1, 4, 16, 64};
        const hn::DFromV<V> d;
        const auto order =
            hn::Add(hn::LoadDup128(d, kOrder), hn::Set(d, static_cast<std::uint8_t>(first)));
        const auto spread = hn::TableLookupBytes(bytes, order);
        const auto ones = hn::LoadDup128(d, kOnes);
        const auto twos = hn::Add(ones, ones);
        return less(hn::Add(where_bits(spread, ones, 1), where_bits(spread, twos, 2)), 1);
    }
};

/// Bytes that hold elements j and j + 16, less `middle`.
template <class B, class V>
HWY_INLINE void unpack_nibbles(B bytes, std::int8_t middle, V& low, V& high) {
    low = less(low_nibbles(bytes), middle);
    high = less(high_nibbles(bytes), middle);
}

/// Adds 16 where the bit of the element is set.
template <class Source, class V>
HWY_INLINE void add_fifth_bits(const Source& from, V& low, V& high) {
    const auto bytes = load_bytes(from);  // four of them count; the block goes on behind them
    const auto bits = each_bit(hn::DFromV<decltype(bytes)>());
    low = hn::Add(low, where_bits(spread_two(bytes, 0), bits, 16));
    high = hn::Add(high, where_bits(spread_two(bytes, 2), bits, 16));
}

struct Q4_0 : WithQ8_0<block_q4_0, QK4_0>, FromSixteens<Q4_0, offsetof(block_q4_0, qs), 1> {
    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B bytes) {
        unpack_nibbles(bytes, 8, low, high);
    }
};

struct Q5_0 : WithQ8_0<block_q5_0, QK5_0> {
    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int, V& low, V& high) {
        unpack_nibbles(load_bytes(block + offsetof(Block, qs)), 16, low, high);
        add_fifth_bits(block + offsetof(Block, qh), low, high);
    }
};

struct Q8_0 : WithQ8_0<block_q8_0, QK8_0>, FromSixteens<Q8_0, offsetof(block_q8_0, qs), 2> {
    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B first, B second) {
        low = as_codes(first);
        high = as_codes(second);
    }
};

struct Q4_1 : WithQ8_1<block_q4_1>, FromSixteens<Q4_1, offsetof(block_q4_1, qs), 1> {
    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B bytes) {
        unpack_nibbles(bytes, 0, low, high);
    }
};

struct Q5_1 : WithQ8_1<block_q5_1> {
    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int, V& low, V& high) {
        unpack_nibbles(load_bytes(block + offsetof(Block, qs)), 0, low, high);
        add_fifth_bits(block + offsetof(Block, qh), low, high);
    }
};

struct Iq4Nl : WithQ8_0<block_iq4_nl, QK4_NL>, FromSixteens<Iq4Nl, offsetof(block_iq4_nl, qs), 1> {
    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B bytes) {
        low = look_up(kNonlinearLevels, low_nibbles(bytes));
        high = look_up(kNonlinearLevels, high_nibbles(bytes));
    }
};

struct Mxfp4 : WithQ8_0<block_mxfp4, QK_MXFP4>, FromSixteens<Mxfp4, offsetof(block_mxfp4, qs), 1> {
    static HWY_INLINE float scale(const std::byte* block, int) {
        return quant::e8m0_to_f32_half(read<std::uint8_t>(block + offsetof(Block, e)));
    }
    static HWY_INLINE float stored_scale(const std::byte* block, int) { return scale(block, 0); }

    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B bytes) {
        low = look_up(kFp4Levels, low_nibbles(bytes));
        high = look_up(kFp4Levels, high_nibbles(bytes));
    }
};

struct Nvfp4 : WithQ8_0<block_nvfp4, QK_NVFP4> {
    static constexpr bool kHasTwoScales = true;

    static HWY_INLINE float scale(const std::byte* block, int sixteen) {
        return quant::ue4m3_to_f32_half(read<std::uint8_t>(block + offsetof(Block, d) + sixteen));
    }
    static HWY_INLINE float stored_scale(const std::byte* block, int sixteen) {
        return scale(block, sixteen);
    }

    /// Eight bytes hold sixteen elements, j and j + 8 together.
    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int group, V& low, V& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs) + 16 * group);
        const auto first = look_up(kFp4Levels, low_nibbles(bytes));
        const auto second = look_up(kFp4Levels, high_nibbles(bytes));
        const hn::Repartition<std::uint64_t, hn::DFromV<V> > eights;
        const auto one = hn::BitCast(eights, first), other = hn::BitCast(eights, second);
        low = hn::BitCast(hn::DFromV<V>(), hn::InterleaveLower(eights, one, other));
        high = hn::BitCast(hn::DFromV<V>(), hn::InterleaveUpper(eights, one, other));
    }
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
