// The order of the values of a row. Included once per instruction set.

#if defined(HEDDLE_CPU_ROW_ORDER_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_ROW_ORDER_HPP
#undef HEDDLE_CPU_ROW_ORDER_HPP
#else
#define HEDDLE_CPU_ROW_ORDER_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A number that rises in the order that is asked for. It is the same for 0 and -0, and NaN comes
/// last either way.
template <class D, class V>
HWY_INLINE hn::Vec<hn::Rebind<std::int32_t, D>> rank_key(D d, V value, bool falling) {
    const hn::Rebind<std::int32_t, D> di;
    const auto largest = hn::Set(di, 0x7fffffff);
    const auto bits = hn::BitCast(di, hn::Add(value, hn::Zero(d)));  // -0 becomes 0
    auto key = hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), largest));
    if (falling) key = hn::Not(key);
    return hn::IfThenElse(hn::RebindMask(di, hn::IsNaN(value)), largest, key);
}

inline void make_rank_keys(const float* x, std::int64_t n, bool falling, std::int32_t* keys) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<std::int32_t, decltype(d)> di;
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        hn::StoreU(rank_key(d, hn::LoadU(d, x + i), falling), di, keys + i);
    }
    const hn::CappedTag<float, 1> single;
    for (; i < n; ++i) keys[i] = hn::GetLane(rank_key(single, hn::Set(single, x[i]), falling));
}

/// One more in the lanes of `mask`.
template <class D, class V, class M>
HWY_INLINE V count_lanes(D d, V count, M mask) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return hn::IfThenElse(mask, hn::Add(count, hn::Set(d, 1)), count);  // one instruction
#else
    return hn::Sub(count, hn::VecFromMask(d, mask));
#endif
}

/// Rows up to this length are sorted by comparing each with each.
inline constexpr std::int64_t kMostCompared =
    HWY_MIN(192, 24 * static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<std::int32_t>())));

/// Writes the indices of the values of x in their order: each goes where the number of those that
/// come before it says, equal values in the order of their indices. There are no more of them than
/// kMostCompared.
inline void order_by_comparing(const float* x, std::int64_t n, bool falling, std::int32_t* order) {
    const hn::ScalableTag<std::int32_t> d;
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    HWY_ALIGN std::int32_t keys[kMostCompared], places[kMostCompared];
    make_rank_keys(x, n, falling, keys);
    for (std::int64_t i = n; i % step != 0; ++i) keys[i] = 0;  // whose places are of no interest
    std::int64_t i = 0;
    for (; i + 3 * step < n; i += 4 * step) {
        const auto key0 = hn::Load(d, keys + i), key1 = hn::Load(d, keys + i + step);
        const auto key2 = hn::Load(d, keys + i + 2 * step), key3 = hn::Load(d, keys + i + 3 * step);
        auto place0 = hn::Zero(d), place1 = place0, place2 = place0, place3 = place0;
        for (std::int64_t j = 0; j < n; ++j) {
            const auto other = hn::Set(d, keys[j]);
            place0 = count_lanes(d, place0, hn::Lt(other, key0));
            place1 = count_lanes(d, place1, hn::Lt(other, key1));
            place2 = count_lanes(d, place2, hn::Lt(other, key2));
            place3 = count_lanes(d, place3, hn::Lt(other, key3));
        }
        hn::Store(place0, d, places + i);
        hn::Store(place1, d, places + i + step);
        hn::Store(place2, d, places + i + 2 * step);
        hn::Store(place3, d, places + i + 3 * step);
    }
    for (; i < n; i += step) {
        const auto key = hn::Load(d, keys + i);
        auto place = hn::Zero(d);
        for (std::int64_t j = 0; j < n; ++j) {
            place = count_lanes(d, place, hn::Lt(hn::Set(d, keys[j]), key));
        }
        hn::Store(place, d, places + i);
    }
    std::uint8_t equals[kMostCompared] = {};  // that went to a place already
    for (std::int64_t k = 0; k < n; ++k) {
        const std::int32_t place = places[k];
        order[place + equals[place]++] = static_cast<std::int32_t>(k);
    }
}

/// The same for rows of any length, a byte of the key at a time from the lowest: each pass keeps
/// the order of equals. `room` is for two pairs of key and index per value.
inline void order_by_bytes(const float* x, std::int64_t n, bool falling, std::uint64_t* room,
                           std::int32_t* order) {
    make_rank_keys(x, n, falling, order);
    std::uint32_t next[4][256] = {};
    for (std::int64_t i = 0; i < n; ++i) {
        const std::uint32_t key = static_cast<std::uint32_t>(order[i]) ^ 0x80000000u;
        room[i] = std::uint64_t{key} << 32 | static_cast<std::uint64_t>(i);
        for (int digit = 0; digit < 4; ++digit) ++next[digit][key >> (8 * digit) & 255];
    }
    for (auto& places : next) {
        std::uint32_t place = 0;
        for (std::uint32_t& count : places) {
            const std::uint32_t here = count;
            count = place;
            place += here;
        }
    }
    std::uint64_t *from = room, *to = room + n;
    for (int digit = 0; digit < 3; ++digit) {
        std::uint32_t* const places = next[digit];
        const int shift = 32 + 8 * digit;
        for (std::int64_t i = 0; i < n; ++i) to[places[from[i] >> shift & 255]++] = from[i];
        std::uint64_t* const sorted = to;
        to = from;
        from = sorted;
    }
    for (std::int64_t i = 0; i < n; ++i) {
        order[next[3][from[i] >> 56]++] = static_cast<std::int32_t>(from[i] & 0xffffffffu);
    }
}

/// The indices of the values of x in their order. `room` is for two numbers per value.
inline void order_row(const float* x, std::int64_t n, bool falling, std::uint64_t* room,
                      std::int32_t* order) {
    if (n <= kMostCompared) {
        order_by_comparing(x, n, falling, order);
    } else {
        order_by_bytes(x, n, falling, room, order);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_ROW_ORDER_HPP
