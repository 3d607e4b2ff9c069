#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/convert.cpp"
#include "backends/cpu/dot/convert.hpp"

#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE || \
    !((HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64)
#define HEDDLE_ROUNDS_QUICKLY 0  // no instruction for f16, or vectors of unknown length
#else
#define HEDDLE_ROUNDS_QUICKLY 1

/// Rounds two vectors of values that are not NaN.
template <class Rows>
HWY_INLINE void put_finite(hn::Vec<Floats> a, hn::Vec<Floats> b, std::byte* to) {
    const Floats d;
    if constexpr (std::is_same_v<Rows, F16Rows>) {
        const hn::Rebind<hwy::float16_t, Floats> halves;
        auto* y = reinterpret_cast<hwy::float16_t*>(to);
        hn::StoreU(hn::DemoteTo(halves, a), halves, y);
        hn::StoreU(hn::DemoteTo(halves, b), halves, y + hn::Lanes(d));
    } else {
        const hn::RebindToUnsigned<Floats> words;
        const hn::Repartition<std::uint16_t, Floats> halves;
        const auto rounded = [&](hn::Vec<Floats> v) HWY_ATTR {
            const auto bits = hn::BitCast(words, v);
            const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
            const auto sum = hn::Add(hn::Add(bits, hn::Set(words, 0x7fffu)), odd);
            return hn::BitCast(halves, sum);
        };
        hn::StoreU(hn::ConcatOdd(halves, rounded(b), rounded(a)), halves,
                   reinterpret_cast<std::uint16_t*>(to));
    }
}
#endif

/// Rounds a row as if there was no NaN in it, a piece at a time, and those pieces again, with care,
/// that have one. An infinite value is taken for one.
template <class Rows>
HWY_INLINE void narrow_row(const float* from, void* to, std::int64_t n) {
    auto* y = static_cast<std::byte*>(to);
    std::int64_t i = 0;
#if HEDDLE_ROUNDS_QUICKLY
    const Floats d;
    const std::int64_t step = lane_count(d);
    for (; i + kChunk <= n; i += kChunk) {
        auto poison_a = hn::Zero(d), poison_b = poison_a;  // NaN unless all is finite
        for (std::int64_t j = i; j < i + kChunk; j += 2 * step) {
            const auto a = hn::LoadU(d, from + j), b = hn::LoadU(d, from + j + step);
            poison_a = hn::MulAdd(a, hn::Zero(d), poison_a);
            poison_b = hn::MulAdd(b, hn::Zero(d), poison_b);
            put_finite<Rows>(a, b, y + j * Rows::kSize);
        }
        const auto poison = hn::Add(poison_a, poison_b);
        if (hn::AllTrue(d, hn::Eq(poison, poison))) continue;
        convert_row<F32Rows, Rows>(from + i, y + i * Rows::kSize, kChunk);
    }
#endif
    convert_row<F32Rows, Rows>(from + i, y + i * Rows::kSize, n - i);
}

#undef HEDDLE_ROUNDS_QUICKLY

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
    narrow_row<F16Rows>(from, to, n);
}

void narrow_bf16_row(const float* from, void* to, std::int64_t n) {
    narrow_row<Bf16Rows>(from, to, n);
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
