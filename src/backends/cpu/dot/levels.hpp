// Codes of four bits that name one of sixteen levels. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_LEVELS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_LEVELS_HPP
#undef HEDDLE_CPU_DOT_LEVELS_HPP
#else
#define HEDDLE_CPU_DOT_LEVELS_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

alignas(16) constexpr std::int8_t kNonlinearLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                          1,    13,   25,  38,  53,  69,  89,  113};

/// Twice the values of E2M1; the formats' scales are halved to match.
alignas(16) constexpr std::int8_t kFp4Levels[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                    0, -1, -2, -3, -4, -6, -8, -12};

/// Levels of 2 * kBytes elements: byte j holds elements j and j + kBytes.
template <int kBytes>
HWY_INLINE void look_up_nibbles(const std::int8_t (&levels)[16], const std::uint8_t* bytes,
                                std::int16_t* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
    for (int j = 0; j < kBytes; ++j) {
        to[j] = levels[bytes[j] & 15];
        to[j + kBytes] = levels[bytes[j] >> 4];
    }
#else
    const hn::FixedTag<std::uint8_t, 16> table_lanes;
    const hn::FixedTag<std::uint8_t, kBytes> lanes;
    const hn::FixedTag<std::int8_t, kBytes> signed_lanes;
    const auto table =
        hn::Load(table_lanes, reinterpret_cast<const std::uint8_t*>(levels));
    const auto packed = hn::LoadU(lanes, bytes);
    HWY_ALIGN std::int8_t found[2 * kBytes];
    const auto low = hn::And(packed, hn::Set(lanes, 15)), high = hn::ShiftRight<4>(packed);
    hn::StoreU(hn::BitCast(signed_lanes, hn::TableLookupBytes(table, low)), signed_lanes, found);
    hn::StoreU(hn::BitCast(signed_lanes, hn::TableLookupBytes(table, high)), signed_lanes,
               found + kBytes);
    for (int j = 0; j < 2 * kBytes; ++j) to[j] = found[j];
#endif
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
