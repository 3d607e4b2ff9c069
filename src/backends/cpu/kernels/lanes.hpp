// Rows of floats and half floats in lanes. Included once per instruction set, after
// hwy/foreach_target.h, which is what the odd include guard is about.

#if defined(HEDDLE_CPU_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_LANES_HPP
#undef HEDDLE_CPU_LANES_HPP
#else
#define HEDDLE_CPU_LANES_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/type.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;

/// Lanes of a vector, as index arithmetic wants it.
template <class D>
HWY_INLINE std::int64_t lane_count(D d) {
    return static_cast<std::int64_t>(hn::Lanes(d));
}

// ---- half floats: the bits are those of core/half.hpp on every instruction set ------------------

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
#define HEDDLE_HAS_F16_LANES 1
#elif HWY_ARCH_ARM_A64
#define HEDDLE_HAS_F16_LANES 1
#else
#define HEDDLE_HAS_F16_LANES 0
#endif

template <class D>
HWY_INLINE hn::Vec<D> load_f16(D d, const void* from) {
#if HEDDLE_HAS_F16_LANES
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, static_cast<const hwy::float16_t*>(from)));
#else
    const hn::Rebind<std::uint16_t, D> dh;
    const hn::Rebind<std::uint32_t, D> du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(dh, static_cast<const std::uint16_t*>(from)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    const auto shifted = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
    // Moves the exponent from its bias of 15 to 127; subnormals come out normal, all of it exact.
    const auto finite = hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f));
    const auto infinite = hn::Or(shifted, hn::Set(du, 0x7f800000u));
    const auto nan = hn::Or(infinite, hn::Set(du, 0x400000u));
    const auto limit = hn::Set(d, 65536.0f);
    const auto magnitude = hn::IfThenElse(
        hn::Lt(finite, limit), finite,
        hn::IfThenElse(hn::Eq(finite, limit), hn::BitCast(d, infinite), hn::BitCast(d, nan)));
    return hn::Or(magnitude, hn::BitCast(d, sign));
#endif
}

template <class D>
HWY_INLINE void store_f16(D d, hn::Vec<D> value, void* to) {
    const hn::Rebind<std::uint32_t, D> du;
    const auto bits = hn::BitCast(du, value);
    const auto sign_bit = hn::Set(du, 0x80000000u);
#if HEDDLE_HAS_F16_LANES
    const hn::Rebind<hwy::float16_t, D> dh;
    const auto nan = hn::Or(hn::And(bits, sign_bit), hn::Set(du, 0x7fc00000u));  // no payload
    const auto clean = hn::IfThenElse(hn::IsNaN(value), hn::BitCast(d, nan), value);
    hn::StoreU(hn::DemoteTo(dh, clean), dh, static_cast<hwy::float16_t*>(to));
#else
    const hn::Rebind<std::int32_t, D> di;
    const hn::Rebind<std::uint16_t, D> dh;
    const auto positive = hn::BitCast(di, hn::AndNot(sign_bit, bits));
    const auto odd = hn::And(hn::ShiftRight<13>(positive), hn::Set(di, 1));
    const auto normal =
        hn::ShiftRight<13>(hn::Add(hn::Sub(positive, hn::Set(di, (112 << 23) - 0xfff)), odd));
    // The adder rounds to units of 2^-24, the last place of a subnormal.
    const auto shifted = hn::Add(hn::BitCast(d, positive), hn::Set(d, 0.5f));
    const auto subnormal = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 0x3f000000));
    auto half = hn::IfThenElse(hn::Lt(positive, hn::Set(di, 0x38800000)), subnormal, normal);
    half = hn::IfThenElse(hn::Gt(positive, hn::Set(di, 0x477fefff)), hn::Set(di, 0x7c00), half);
    half = hn::IfThenElse(hn::Gt(positive, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7e00), half);
    const auto sign = hn::BitCast(di, hn::ShiftRight<16>(hn::And(bits, sign_bit)));
    hn::StoreU(hn::DemoteTo(dh, hn::Or(half, sign)), dh, static_cast<std::uint16_t*>(to));
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> load_bf16(D d, const void* from) {
    const hn::Rebind<std::uint16_t, D> dh;
    const hn::Rebind<std::uint32_t, D> du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(dh, static_cast<const std::uint16_t*>(from)));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE void store_bf16(D d, hn::Vec<D> value, void* to) {
    const hn::Rebind<std::uint16_t, D> dh;
    const hn::Rebind<std::uint32_t, D> du;
    const hn::Rebind<std::int32_t, D> di;
    const auto bits = hn::BitCast(du, value);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd));
    const auto quiet = hn::Or(upper, hn::Set(du, 0x40u));
    const auto half =
        hn::IfThenElse(hn::IsNaN(value), hn::BitCast(d, quiet), hn::BitCast(d, rounded));
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, half)), dh, static_cast<std::uint16_t*>(to));
}

// ---- rows of any plain float type --------------------------------------------------------------

struct F32Rows {
    static constexpr std::int64_t kSize = 4;
    template <class D>
    static HWY_INLINE hn::Vec<D> load(D d, const void* from) {
        return hn::LoadU(d, static_cast<const float*>(from));
    }
    template <class D>
    static HWY_INLINE void store(D d, hn::Vec<D> value, void* to) {
        hn::StoreU(value, d, static_cast<float*>(to));
    }
};

struct F16Rows {
    static constexpr std::int64_t kSize = 2;
    template <class D>
    static HWY_INLINE hn::Vec<D> load(D d, const void* from) {
        return load_f16(d, from);
    }
    template <class D>
    static HWY_INLINE void store(D d, hn::Vec<D> value, void* to) {
        store_f16(d, value, to);
    }
};

struct Bf16Rows {
    static constexpr std::int64_t kSize = 2;
    template <class D>
    static HWY_INLINE hn::Vec<D> load(D d, const void* from) {
        return load_bf16(d, from);
    }
    template <class D>
    static HWY_INLINE void store(D d, hn::Vec<D> value, void* to) {
        store_bf16(d, value, to);
    }
};

/// `n` elements from one type to another, a whole vector at a time: the rest at the end goes
/// through a buffer, so that an element's result does not depend on where it stands.
template <class From, class To>
HWY_INLINE void convert_row(const void* from, void* to, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const auto* x = static_cast<const std::byte*>(from);
    auto* y = static_cast<std::byte*>(to);
    std::int64_t i = 0;
    for (; i + step <= n; i += step)
        To::store(d, From::load(d, x + i * From::kSize), y + i * To::kSize);
    if (i >= n) return;
    alignas(16) float part_x[hn::MaxLanes(Floats())] = {};
    alignas(16) float part_y[hn::MaxLanes(Floats())];
    std::memcpy(part_x, x + i * From::kSize, static_cast<std::size_t>((n - i) * From::kSize));
    To::store(d, From::load(d, part_x), part_y);
    std::memcpy(y + i * To::kSize, part_y, static_cast<std::size_t>((n - i) * To::kSize));
}

/// Elements at a time that kernels without a form of their own for a type take through a buffer.
inline constexpr std::int64_t kChunk = 512;

/// `n` elements of F32, F16 or BF16 as floats: where they are, or in `buffer`.
HWY_INLINE const float* read_floats(Type type, const void* from, float* buffer, std::int64_t n) {
    if (type == GGML_TYPE_F32) return static_cast<const float*>(from);
    if (type == GGML_TYPE_F16) {
        convert_row<F16Rows, F32Rows>(from, buffer, n);
    } else {
        convert_row<Bf16Rows, F32Rows>(from, buffer, n);
    }
    return buffer;
}

/// Rounds `n` floats to F16 or BF16; F32 is left to who computes, who writes in place.
HWY_INLINE void write_floats(Type type, const float* from, void* to, std::int64_t n) {
    if (type == GGML_TYPE_F16) {
        convert_row<F32Rows, F16Rows>(from, to, n);
    } else if (type == GGML_TYPE_BF16) {
        convert_row<F32Rows, Bf16Rows>(from, to, n);
    } else if (from != to) {
        std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
    }
}

/// y[i] = f(d, x[i]); the rest at the end as whole vector. x and y may be the same. Two vectors at
/// a time share the constants of f, which would be loaded for each of them otherwise.
template <class F>
HWY_INLINE void map_floats(const float* x, float* y, std::int64_t n, F f) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t i = 0;
    for (; i + 2 * step <= n; i += 2 * step) {
        const auto y0 = f(d, hn::LoadU(d, x + i)), y1 = f(d, hn::LoadU(d, x + i + step));
        hn::StoreU(y0, d, y + i);
        hn::StoreU(y1, d, y + i + step);
    }
    for (; i + step <= n; i += step) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
    if (i >= n) return;
    float part[hn::MaxLanes(Floats())] = {};
    const auto rest = static_cast<std::size_t>(n - i) * sizeof(float);
    std::memcpy(part, x + i, rest);
    hn::StoreU(f(d, hn::LoadU(d, part)), d, part);
    std::memcpy(y + i, part, rest);
}

/// y[i] = f(d, a[i], b[i]). y may be a or b.
template <class F>
HWY_INLINE void map_floats(const float* a, const float* b, float* y, std::int64_t n, F f) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t i = 0;
    for (; i + 2 * step <= n; i += 2 * step) {
        const auto y0 = f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i));
        const auto y1 = f(d, hn::LoadU(d, a + i + step), hn::LoadU(d, b + i + step));
        hn::StoreU(y0, d, y + i);
        hn::StoreU(y1, d, y + i + step);
    }
    for (; i + step <= n; i += step) {
        hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
    }
    if (i >= n) return;
    float part_a[hn::MaxLanes(Floats())] = {};
    float part_b[hn::MaxLanes(Floats())] = {};
    const auto rest = static_cast<std::size_t>(n - i) * sizeof(float);
    std::memcpy(part_a, a + i, rest);
    std::memcpy(part_b, b + i, rest);
    hn::StoreU(f(d, hn::LoadU(d, part_a), hn::LoadU(d, part_b)), d, part_a);
    std::memcpy(y + i, part_a, rest);
}

#undef HEDDLE_HAS_F16_LANES

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_LANES_HPP
