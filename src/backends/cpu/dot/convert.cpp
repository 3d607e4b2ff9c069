#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/convert.cpp"
#include "backends/cpu/dot/convert.hpp"

#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/kernels/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

/// Rounds a row and widens it again, a few elements at a time.
template <class Rows>
void round_row(const float* from, float* to, std::int64_t n) {
    std::uint16_t halves[kChunk];
    for (std::int64_t i = 0; i < n; i += kChunk) {
        const std::int64_t count = n - i < kChunk ? n - i : kChunk;
        convert_row<F32Rows, Rows>(from + i, halves, count);
        convert_row<Rows, F32Rows>(halves, to + i, count);
    }
}

}  // namespace

void widen_f16_row(const void* from, float* to, std::int64_t n) {
    convert_row<F16Rows, F32Rows>(from, to, n);
}

void widen_bf16_row(const void* from, float* to, std::int64_t n) {
    convert_row<Bf16Rows, F32Rows>(from, to, n);
}

void narrow_f16_row(const float* from, void* to, std::int64_t n) {
    convert_row<F32Rows, F16Rows>(from, to, n);
}

void narrow_bf16_row(const float* from, void* to, std::int64_t n) {
    convert_row<F32Rows, Bf16Rows>(from, to, n);
}

void round_f16_row(const float* from, float* to, std::int64_t n) {
    round_row<F16Rows>(from, to, n);
}

void round_bf16_row(const float* from, float* to, std::int64_t n) {
    round_row<Bf16Rows>(from, to, n);
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
    HWY_DYNAMIC_DISPATCH(narrow_f16_row)(from, to, n);
}

void f16_to_f32_row(const void* from, float* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(widen_f16_row)(from, to, n);
}

void f32_to_bf16_row(const float* from, void* to, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(narrow_bf16_row)(from, to, n);
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
