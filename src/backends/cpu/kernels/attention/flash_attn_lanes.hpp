// Rows of keys and values in lanes, from any place on. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_FLASH_ATTN_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_FLASH_ATTN_LANES_HPP
#undef HEDDLE_CPU_FLASH_ATTN_LANES_HPP
#else
#define HEDDLE_CPU_FLASH_ATTN_LANES_HPP
#endif

#include <hwy/highway.h>

#include "backends/cpu/dot/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A block of q8_0.
struct Q8Block {
    std::uint16_t scale;
    std::int8_t codes[32];
};
static_assert(sizeof(Q8Block) == 34);

/// Elements of a row from `i` on.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_element(D d, const T* row, std::int64_t i) {
    return load_f32(d, row + i);
}

template <class D>
HWY_INLINE hn::Vec<D> load_codes(D d, const std::int8_t* codes) {
    const hn::Rebind<std::int8_t, D> bytes;
    const hn::Rebind<std::int32_t, D> numbers;
    return hn::ConvertTo(d, hn::PromoteTo(numbers, hn::LoadU(bytes, codes)));
}

/// `i` is a multiple of the lanes, of which there are no more than a block has codes.
template <class D>
HWY_INLINE hn::Vec<D> load_element(D d, const Q8Block* row, std::int64_t i) {
    const Q8Block& block = row[i / 32];
    return hn::Mul(load_codes(d, block.codes + i % 32), hn::Set(d, half_to_float(block.scale)));
}

template <class T>
HWY_INLINE float element(const T* row, std::int64_t i) {
    return to_float(row[i]);
}
HWY_INLINE float element(const Q8Block* row, std::int64_t i) {
    return half_to_float(row[i / 32].scale) * static_cast<float>(row[i / 32].codes[i % 32]);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
