// Products of whole numbers of 16 bits. Included once per instruction set, inside a file that is
// compiled by foreach_target.h.
#if defined(HEDDLE_CPU_FLASH_ATTN_WORDS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_FLASH_ATTN_WORDS_HPP
#undef HEDDLE_CPU_FLASH_ATTN_WORDS_HPP
#else
#define HEDDLE_CPU_FLASH_ATTN_WORDS_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "backends/cpu/dot/micro_panel_lanes.hpp"
#include "simd/extensions.hpp"
#include "simd/opaque.hpp"
#include "simd/pair_products.hpp"
#include "simd/rounding.hpp"

#if HEDDLE_HAS_MICRO_PANELS
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr hn::ScalableTag<float> kLanes;
inline constexpr hn::RebindToSigned<decltype(kLanes)> kSums;
inline constexpr hn::Repartition<std::int16_t, decltype(kLanes)> kWords;
using V = hn::Vec<decltype(kLanes)>;
using Ints = hn::Vec<decltype(kSums)>;
using WordVec = hn::Vec<decltype(kWords)>;
inline constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(kLanes));

/// The largest of numbers that f32 are turned into.
inline constexpr float kMostNumber = 32767;

/// Products of pairs of words, summed up in each lane.
struct PairedWords {
    static bool is_there() { return true; }

    /// `rest` takes what belongs to other lanes, on instruction sets where that is quicker.
    static HWY_INLINE Ints multiply_add(WordVec words, const std::int32_t& pair, Ints sum,
                                        Ints& rest) {
        const auto numbers = hn::BitCast(kWords, hn::Set(kSums, pair));
        sum = hn::ReorderWidenMulAccumulate(kSums, words, numbers, sum, rest);
        opaque(sum);  // or compilers add products up later, and run out of registers
        return sum;
    }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
/// One instruction for all of it, on CPUs that have it.
struct FusedWords {
    static bool is_there() { return has_vnni(); }

    static HWY_INLINE Ints multiply_add(WordVec words, const std::int32_t& pair, Ints sum, Ints&) {
        return FusedPairs::add_scaled(words, pair, sum);
    }
};
#else
using FusedWords = PairedWords;
#endif

/// Sums as f32, once all products are in.
HWY_INLINE V total_of(Ints sum, Ints rest) {
    return hn::ConvertTo(kLanes, hn::RearrangeToOddPlusEven(sum, rest));
}

/// The nearest whole numbers of values that fit into words.
HWY_INLINE Ints numbers_of(V v) { return nearest_of(v); }

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
