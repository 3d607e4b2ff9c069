// What kernels for one column have in common. Included once per instruction set, inside a file that
// is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_STREAM_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_STREAM_LANES_HPP
#undef HEDDLE_CPU_DOT_STREAM_LANES_HPP
#else
#define HEDDLE_CPU_DOT_STREAM_LANES_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/byte_products.hpp"
#include "backends/cpu/dot/stream.hpp"

// Scales are spread over lanes by table, which takes vectors of more than one block of 16 bytes.
#undef HEDDLE_HAS_CODE_STREAMS
#define HEDDLE_HAS_CODE_STREAMS (HEDDLE_HAS_BYTE_PRODUCTS && HWY_MAX_BYTES >= 32)

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HEDDLE_HAS_CODE_STREAMS

/// Sixteens of bytes that fit into a vector.
constexpr int kSixteens = static_cast<int>(hn::MaxLanes(ByteLanes()) / 16);
static_assert(kSixteens == 2 || kSixteens == 4);

using FloatLanes = hn::ScalableTag<float>;
using Quad = hn::FixedTag<float, 4>;

HWY_INLINE hn::Vec<ByteLanes> load_lanes(const std::byte* from) {
    return hn::LoadU(ByteLanes(), reinterpret_cast<const std::uint8_t*>(from));
}

/// A vector from 4 floats: float i fills the lanes of sixteen number i.
HWY_INLINE hn::Vec<FloatLanes> spread(hn::Vec<Quad> values) {
    HWY_ALIGN static constexpr std::int32_t kOrder[16] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                          2, 2, 2, 2, 3, 3, 3, 3};
    const auto order = hn::SetTableIndices(FloatLanes(), kOrder);
    const hn::FixedTag<float, 8> eight;
    const auto wide = hn::ZeroExtendVector(eight, values);
#if HWY_MAX_BYTES >= 64
    return hn::TableLookupLanes(hn::ZeroExtendVector(FloatLanes(), wide), order);
#else
    return hn::TableLookupLanes(wide, order);
#endif
}

#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
