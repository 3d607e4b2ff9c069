#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/decode.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/block_lanes.hpp"
#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/formats/grid.hpp"
#include "backends/cpu/dot/formats/k.hpp"
#include "backends/cpu/dot/formats/simple.hpp"

/// Rows of blocks as f32, by way of the dot products' unpacked blocks. The arithmetic is that of
/// the codecs, operation for operation, and so are the bits.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DecodeRow exact_decode(Type) { return nullptr; }

#else
namespace {

/// y[i] = code * scale
HWY_INLINE void put_products(CodeVec codes, float scale, float* y) {
    const auto factor = hn::Set(BlockFloats(), scale);
    const auto put = [&](std::size_t i, FloatVec value)
                         HWY_ATTR { hn::StoreU(hn::Mul(value, factor), BlockFloats(), y + i); };
    for_floats(Codes(), codes, 0, put);
}

/// y[i] = code * scale + minimum
HWY_INLINE void put_sums(CodeVec codes, float scale, float minimum, float* y) {
    const auto factor = hn::Set(BlockFloats(), scale), shift = hn::Set(BlockFloats(), minimum);
    const auto put = [&](std::size_t i, FloatVec value) HWY_ATTR {
        hn::StoreU(hn::Add(hn::Mul(value, factor), shift), BlockFloats(), y + i);
    };
    for_floats(Codes(), codes, 0, put);
}

template <class Format>
void decode_simple(const void* blocks, float* y, std::int64_t n) {
    const auto* block = static_cast<const std::byte*>(blocks);
    for (std::int64_t i = 0; i < n;
         i += Format::kElements, block += sizeof(typename Format::Block)) {
        for (int g = 0; g < Format::kElements / 32; ++g, y += 32) {
            auto low = hn::Zero(Codes()), high = low;
            Format::unpack(block, g, low, high);
            const float scale = Format::scale(block, Format::kHasTwoScales ? 2 * g : g);
            if constexpr (Format::kHasMinimum) {
                const float minimum = Format::minimum(block);
                put_sums(low, scale, minimum, y);
                put_sums(high, scale, minimum, y + 16);
            } else {
                put_products(low, scale, y);
                put_products(high, Format::kHasTwoScales ? Format::scale(block, 2 * g + 1) : scale,
                             y + 16);
            }
        }
    }
}

/// to[g] = unit * numbers[g]
HWY_INLINE void put_units(const std::int8_t (&numbers)[16], float unit, float (&to)[16]) {
    const auto factor = hn::Set(BlockFloats(), unit);
    const auto put = [&](std::size_t i, FloatVec value)
                         HWY_ATTR { hn::Store(hn::Mul(value, factor), BlockFloats(), to + i); };
    for_floats(Codes(), hn::Load(Codes(), numbers), 0, put);
}

template <class Format>
void decode_super_exactly(const void* blocks, float* y, std::int64_t n) {
    const auto* block = static_cast<const std::byte*>(blocks);
    const Format format;
    for (std::int64_t i = 0; i < n; i += QK_K, block += sizeof(typename Format::Block), y += QK_K) {
        SuperScales scales;
        HWY_ALIGN float factors[16], minima[16];  // of sixteen elements each
        format.scales(block, scales);
        put_units(scales.scales, scales.d, factors);
        if constexpr (Format::kHasMinima) put_units(scales.minima, -scales.dmin, minima);
        for (int part = 0; part < Format::kParts; ++part) {
            format.codes(block, part, [&](int slot, CodeVec codes) HWY_ATTR {
                const int group = Format::group(part, slot);
                if constexpr (Format::kHasMinima) {
                    put_sums(codes, factors[group], minima[group], y + 16 * group);
                } else {
                    put_products(codes, factors[group], y + 16 * group);
                }
            });
        }
    }
}

}  // namespace

DecodeRow exact_decode(Type type) {
    const DecodeRow simple = find_by_type<DecodeRow, Family::simple>(
        type, []<Type kType>() -> DecodeRow { return decode_simple<BlockFormat<kType> >; });
    if (simple != nullptr) return simple;
    return find_by_type<DecodeRow, Family::k, Family::grid>(
        type, []<Type kType>() -> DecodeRow { return decode_super_exactly<BlockFormat<kType> >; });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(exact_decode);

DecodeRow exact_decode_of(Type type) { return HWY_DYNAMIC_DISPATCH(exact_decode)(type); }

}  // namespace heddle::cpu
#endif
