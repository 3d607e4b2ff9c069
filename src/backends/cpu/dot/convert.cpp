#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/convert.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

template <class T>
void widen_row(const T* from, float* to, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    std::int64_t i = 0;
    for (; i + step <= n; i += step) hn::StoreU(load_f32(lanes, from + i), lanes, to + i);
    for (; i < n; ++i) to[i] = to_float(from[i]);
}

/// The upper halves of rounded words, each in the low half of a word.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::int32_t, D>> bf16_bits(D lanes, hn::VFromD<D> value) {
    const hn::Rebind<std::uint32_t, D> words;
    const hn::Rebind<std::int32_t, D> signed_words;
    const auto bits = hn::BitCast(words, value);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(words, 1));
    const auto rounded =
        hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fffu))));
    const auto quiet = hn::Or(upper, hn::Set(words, 0x40u));
    const auto is_nan = hn::RebindMask(words, hn::Ne(value, value));
    (void)lanes;
    return hn::BitCast(signed_words, hn::IfThenElse(is_nan, quiet, rounded));
}

}  // namespace

void widen_f16_row(const void* from, float* to, std::int64_t n) {
    widen_row(static_cast<const F16*>(from), to, n);
}

void widen_bf16_row(const void* from, float* to, std::int64_t n) {
    widen_row(static_cast<const Bf16*>(from), to, n);
}

void narrow_f16_row(const float* from, std::uint16_t* to, std::int64_t n) {
    std::int64_t i = 0;
#if HEDDLE_HAS_HALF_INSTRUCTIONS
    const hn::ScalableTag<float> lanes;
    const hn::Rebind<hwy::float16_t, decltype(lanes)> halves;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    for (; i + step <= n; i += step) {
        hn::StoreU(hn::DemoteTo(halves, hn::LoadU(lanes, from + i)), halves,
                   reinterpret_cast<hwy::float16_t*>(to + i));
    }
    for (; i < n; ++i) to[i] = _cvtss_sh(from[i], 0);
#else
    for (; i < n; ++i) to[i] = f32_to_f16(from[i]);
#endif
}

void narrow_bf16_row(const float* from, std::uint16_t* to, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const hn::Rebind<std::uint16_t, decltype(lanes)> halves;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        const auto bits = bf16_bits(lanes, hn::LoadU(lanes, from + i));
        hn::StoreU(hn::DemoteTo(halves, bits), halves, to + i);
    }
    for (; i < n; ++i) to[i] = f32_to_bf16(from[i]);
}

void round_f16_row(const float* from, float* to, std::int64_t n) {
    std::int64_t i = 0;
#if HEDDLE_HAS_HALF_INSTRUCTIONS
    const hn::ScalableTag<float> lanes;
    const hn::Rebind<hwy::float16_t, decltype(lanes)> halves;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    for (; i + step <= n; i += step) {
        const auto rounded = hn::DemoteTo(halves, hn::LoadU(lanes, from + i));
        hn::StoreU(hn::PromoteTo(lanes, rounded), lanes, to + i);
    }
    for (; i < n; ++i) to[i] = _cvtsh_ss(_cvtss_sh(from[i], 0));
#else
    for (; i < n; ++i) to[i] = f16_to_f32(f32_to_f16(from[i]));
#endif
}

void round_bf16_row(const float* from, float* to, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        const auto bits = bf16_bits(lanes, hn::LoadU(lanes, from + i));
        hn::StoreU(hn::BitCast(lanes, hn::ShiftLeft<16>(bits)), lanes, to + i);
    }
    for (; i < n; ++i) to[i] = bf16_to_f32(f32_to_bf16(from[i]));
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(widen_f16_row);
HWY_EXPORT(widen_bf16_row);
HWY_EXPORT(narrow_f16_row);
HWY_EXPORT(narrow_bf16_row);
HWY_EXPORT(round_f16_row);
HWY_EXPORT(round_bf16_row);

void copy_f32_row(const float* from, void* to, std::int64_t n) {
    if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
}

void f32_to_i32_row(const float* from, void* to, std::int64_t n) {
    auto* numbers = static_cast<std::int32_t*>(to);
    for (std::int64_t i = 0; i < n; ++i) {
        const float value = from[i];
        numbers[i] = value >= 0x1p31f   ? INT32_MAX
                     : value < -0x1p31f ? INT32_MIN
                     : value != value   ? 0
                                        : static_cast<std::int32_t>(value);
    }
}

void f32_to_f16_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(narrow_f16_row)(from, static_cast<std::uint16_t*>(to), n);
}

void f16_to_f32_row(const void* from, float* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(widen_f16_row)(from, to, n);
}

void f32_to_bf16_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(narrow_bf16_row)(from, static_cast<std::uint16_t*>(to), n);
}

void bf16_to_f32_row(const void* from, float* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(widen_bf16_row)(from, to, n);
}

void round_to_f16_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(round_f16_row)(from, static_cast<float*>(to), n);
}

void round_to_bf16_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(round_bf16_row)(from, static_cast<float*>(to), n);
}

}  // namespace heddle::cpu
#endif
