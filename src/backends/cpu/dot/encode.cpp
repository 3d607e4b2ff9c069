#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/encode.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/lanes.hpp"
#include "ggml-common.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// The largest and least of `kCount` values. Where one of them is infinite or NaN, both are NaN.
struct Bounds {
    float low, high;
};

template <int kCount>
HWY_INLINE Bounds bounds_of(const float* x) {
    const hn::CappedTag<float, kCount> lanes;
    auto low = hn::LoadU(lanes, x), high = low;
    auto poison = hn::Mul(low, hn::Zero(lanes));  // NaN unless finite
    for (std::size_t i = hn::Lanes(lanes); i < kCount; i += hn::Lanes(lanes)) {
        const auto value = hn::LoadU(lanes, x + i);
        low = hn::Min(low, value);
        high = hn::Max(high, value);
        poison = hn::MulAdd(value, hn::Zero(lanes), poison);
    }
    const float nothing = hn::GetLane(hn::SumOfLanes(lanes, poison));
    return {hn::GetLane(hn::MinOfLanes(lanes, low)) + nothing,
            hn::GetLane(hn::MaxOfLanes(lanes, high)) + nothing};
}

/// codes[i] = x[i] * r, rounded; returns their sum. |x[i] * r| < 129.
template <int kCount>
HWY_INLINE std::int32_t put_codes(const float* x, float r, std::int8_t* codes) {
    const hn::CappedTag<float, kCount> lanes;
    const hn::Rebind<std::int32_t, decltype(lanes)> words;
    const hn::Rebind<std::int8_t, decltype(lanes)> bytes;
    const auto factor = hn::Set(lanes, r);
    auto sum = hn::Zero(words);
    for (std::size_t i = 0; i < kCount; i += hn::Lanes(lanes)) {
        // 127.5 may round up in q8_K. Where the scale is NaN codes do not matter, but sums must
        // fit.
        const auto nearest = hn::NearestInt(hn::Mul(hn::LoadU(lanes, x + i), factor));
        const auto code = hn::Min(hn::Max(nearest, hn::Set(words, -128)), hn::Set(words, 127));
        hn::StoreU(hn::DemoteTo(bytes, code), bytes, codes + i);
        sum = hn::Add(sum, code);
    }
    return hn::GetLane(hn::SumOfLanes(words, sum));
}

template <class Block>
void encode_bytes(const float* from, std::byte* to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += 32, to += sizeof(Block)) {
        const Bounds bounds = bounds_of<32>(from + i);
        const float largest = -bounds.low > bounds.high ? -bounds.low : bounds.high;
        const float d = largest / 127;
        Block block;
        const std::int32_t sum = put_codes<32>(from + i, d != 0 ? 1 / d : 0, block.qs);
        block.d = f32_to_f16(d);
        if constexpr (requires { block.s; }) block.s = f32_to_f16(static_cast<float>(sum) * d);
        std::memcpy(to, &block, sizeof block);
    }
}

}  // namespace

void encode_q8_0(const float* from, std::byte* to, std::int64_t n) {
    encode_bytes<block_q8_0>(from, to, n);
}

void encode_q8_1(const float* from, std::byte* to, std::int64_t n) {
    encode_bytes<block_q8_1>(from, to, n);
}

void encode_q8_K(const float* from, std::byte* to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += QK_K, to += sizeof(block_q8_K)) {
        const Bounds bounds = bounds_of<QK_K>(from + i);
        // The extreme value gets code -127.
        const float extreme = -bounds.low > bounds.high ? bounds.low : bounds.high;
        block_q8_K block;
        const float r = extreme != 0 ? -127 / extreme : 0;
        for (int g = 0; g < QK_K / 16; ++g) {
            const std::int32_t sum = put_codes<16>(from + i + 16 * g, r, block.qs + 16 * g);
            block.bsums[g] = static_cast<std::int16_t>(sum);
        }
        block.d = r != 0 ? 1 / r : 0;
        std::memcpy(to, &block, sizeof block);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(encode_q8_0);
HWY_EXPORT(encode_q8_1);
HWY_EXPORT(encode_q8_K);

void encode_q8_0_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_q8_0)(from, static_cast<std::byte*>(to), n);
}

void encode_q8_1_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_q8_1)(from, static_cast<std::byte*>(to), n);
}

void encode_q8_K_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(encode_q8_K)(from, static_cast<std::byte*>(to), n);
}

}  // namespace heddle::cpu
#endif
