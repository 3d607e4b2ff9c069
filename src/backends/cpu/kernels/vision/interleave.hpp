// Columns whose elements are interleaved. Included once per instruction set, after
// hwy/foreach_target.h, which is what the odd include guard is about.

#if defined(HEDDLE_CPU_INTERLEAVE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_INTERLEAVE_HPP
#undef HEDDLE_CPU_INTERLEAVE_HPP
#else
#define HEDDLE_CPU_INTERLEAVE_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "simd/look_up.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// 16 bytes: in longer vectors Highway's turns were no faster, or slower.
template <class T>
using Part = hn::CappedTag<T, 16 / sizeof(T)>;

/// Elements of `kTaps` columns interleaved, a vector of each. Columns lie `step` elements apart.
template <int kTaps, class T>
struct Interleave {
    static constexpr std::size_t kLanes = hn::MaxLanes(Part<T>());

    /// Interleaves the columns.
    static HWY_INLINE void store(const T* from, std::int64_t step, T* to) {
        const Part<T> d;
        const auto v0 = hn::LoadU(d, from);
        if constexpr (kTaps == 1) {
            hn::StoreU(v0, d, to);
        } else if constexpr (kTaps == 2) {
            hn::StoreInterleaved2(v0, hn::LoadU(d, from + step), d, to);
        } else if constexpr (kTaps == 3) {
            hn::StoreInterleaved3(v0, hn::LoadU(d, from + step), hn::LoadU(d, from + 2 * step), d,
                                  to);
        } else {
            hn::StoreInterleaved4(v0, hn::LoadU(d, from + step), hn::LoadU(d, from + 2 * step),
                                  hn::LoadU(d, from + 3 * step), d, to);
        }
    }

    /// Adds interleaved elements to the columns.
    static HWY_INLINE void add(const T* from, T* to, std::int64_t step) {
        const Part<T> d;
        hn::Vec<Part<T>> v0, v1, v2, v3;
        if constexpr (kTaps == 1) {
            v0 = hn::LoadU(d, from);
        } else if constexpr (kTaps == 2) {
            hn::LoadInterleaved2(d, from, v0, v1);
        } else if constexpr (kTaps == 3) {
            hn::LoadInterleaved3(d, from, v0, v1, v2);
        } else {
            hn::LoadInterleaved4(d, from, v0, v1, v2, v3);
        }
        add_to(v0, to);
        if constexpr (kTaps > 1) add_to(v1, to + step);
        if constexpr (kTaps > 2) add_to(v2, to + 2 * step);
        if constexpr (kTaps > 3) add_to(v3, to + 3 * step);
    }

private:
    static HWY_INLINE void add_to(hn::Vec<Part<T>> v, T* column) {
        const Part<T> d;
        hn::StoreU(hn::Add(hn::LoadU(d, column), v), d, column);
    }
};

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86

/// Three vectors become three others: which lanes of the first and second one, with gaps, then
/// which of these and the third. `apart` undoes what `turns` does.
template <class T>
struct OrderOfThree {
    static constexpr std::size_t kLanes = 64 / sizeof(T);
    struct Lanes {
        alignas(64) T two[3][kLanes] = {};
        alignas(64) T three[3][kLanes] = {};
    } turns, apart;

    constexpr OrderOfThree() {
        for (std::size_t i = 0; i < 3 * kLanes; ++i) {
            const std::size_t vector = i % 3, lane = i / 3, at = i % kLanes;
            set(turns, i / kLanes, at, vector * kLanes + lane);
            set(apart, vector, lane, i);
        }
    }

private:
    /// Lane `at` of a result is lane `from` of all three sources.
    static constexpr void set(Lanes& lanes, std::size_t result, std::size_t at, std::size_t from) {
        const bool third = from >= 2 * kLanes;
        lanes.two[result][at] = static_cast<T>(third ? 0 : from);
        lanes.three[result][at] = static_cast<T>(third ? from - kLanes : at);
    }
};
template <class T>
constexpr OrderOfThree<T> kOrderOfThree;

/// Two shuffles for each vector; up to a quarter faster than turns of 16 bytes.
template <class T>
struct Interleave<3, T> {
    using Word = hwy::UnsignedFromSize<sizeof(T)>;
    using Order = OrderOfThree<Word>;
    static constexpr std::size_t kLanes = Order::kLanes;

    static HWY_INLINE void store(const T* from, std::int64_t step, T* to) {
        const auto v0 = load(from), v1 = load(from + step), v2 = load(from + 2 * step);
        for (std::size_t i = 0; i < 3; ++i) {
            const auto two = pick(v0, v1, kOrderOfThree<Word>.turns.two[i]);
            const auto all = pick(two, v2, kOrderOfThree<Word>.turns.three[i]);
            hn::StoreU(all, Words(), reinterpret_cast<Word*>(to + i * kLanes));
        }
    }

    static HWY_INLINE void add(const float* from, float* to, std::int64_t step) {
        const auto v0 = load(from), v1 = load(from + kLanes), v2 = load(from + 2 * kLanes);
        for (std::size_t i = 0; i < 3; ++i, to += step) {
            const auto two = pick(v0, v1, kOrderOfThree<Word>.apart.two[i]);
            const auto all = pick(two, v2, kOrderOfThree<Word>.apart.three[i]);
            const hn::Full512<float> floats;
            hn::StoreU(hn::Add(hn::LoadU(floats, to), hn::BitCast(floats, all)), floats, to);
        }
    }

private:
    using Words = hn::Full512<Word>;
    static HWY_INLINE hn::Vec<Words> load(const T* from) {
        return hn::LoadU(Words(), reinterpret_cast<const Word*>(from));
    }
};

#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_INTERLEAVE_HPP
