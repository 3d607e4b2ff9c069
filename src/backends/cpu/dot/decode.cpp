#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/decode.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/block_lanes.hpp"
#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/k_formats.hpp"
#include "backends/cpu/dot/simple_formats.hpp"

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

/// Takes the codes of a super-block as its format unpacks them and puts them down as floats.
template <bool kHasMinima>
struct FloatSink {
    float* y;
    float d = 0;
    float dmin = 0;
    alignas(16) std::int8_t minima[16] = {};

    HWY_INLINE void put_minima(CodeVec values) { hn::Store(values, Codes(), minima); }

    HWY_INLINE void put(int group, CodeVec codes, int scale) {
        const float unit = d * static_cast<float>(scale);
        if constexpr (kHasMinima) {
            put_sums(codes, unit, -(dmin * static_cast<float>(minima[group])), y + 16 * group);
        } else {
            put_products(codes, unit, y + 16 * group);
        }
    }
};

template <class Format>
void decode_super_exactly(const void* blocks, float* y, std::int64_t n) {
    const auto* block = static_cast<const std::byte*>(blocks);
    const Format format;
    for (std::int64_t i = 0; i < n; i += QK_K, block += sizeof(typename Format::Block)) {
        FloatSink<Format::kHasMinima> sink{y + i};
        unpack_super(format, block, sink);
    }
}

struct DecodeEntry {
    Type type;
    DecodeRow decode;
};

constexpr DecodeEntry kDecodeEntries[] = {
    {GGML_TYPE_Q1_0, decode_simple<Q1_0>},        {GGML_TYPE_Q2_0, decode_simple<Q2_0>},
    {GGML_TYPE_Q4_0, decode_simple<Q4_0>},        {GGML_TYPE_Q4_1, decode_simple<Q4_1>},
    {GGML_TYPE_Q5_0, decode_simple<Q5_0>},        {GGML_TYPE_Q5_1, decode_simple<Q5_1>},
    {GGML_TYPE_Q8_0, decode_simple<Q8_0>},        {GGML_TYPE_IQ4_NL, decode_simple<Iq4Nl>},
    {GGML_TYPE_MXFP4, decode_simple<Mxfp4>},      {GGML_TYPE_NVFP4, decode_simple<Nvfp4>},
    {GGML_TYPE_Q2_K, decode_super_exactly<Q2K>},  {GGML_TYPE_Q3_K, decode_super_exactly<Q3K>},
    {GGML_TYPE_Q4_K, decode_super_exactly<Q4K>},  {GGML_TYPE_Q5_K, decode_super_exactly<Q5K>},
    {GGML_TYPE_Q6_K, decode_super_exactly<Q6K>},  {GGML_TYPE_IQ4_XS, decode_super_exactly<Iq4Xs>},
    {GGML_TYPE_TQ2_0, decode_super_exactly<Tq2>},
};

}  // namespace

DecodeRow exact_decode(Type type) {
    for (const DecodeEntry& entry : kDecodeEntries) {
        if (entry.type == type) return entry.decode;
    }
    return nullptr;
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
