// The sigmoid of vectors of floats and what is built on it. As accurate as lanes_math.hpp, for
// every argument. Included once per instruction set.

#if defined(HEDDLE_CPU_LANES_SIGMOID_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_LANES_SIGMOID_HPP
#undef HEDDLE_CPU_LANES_SIGMOID_HPP
#else
#define HEDDLE_CPU_LANES_SIGMOID_HPP
#endif

#include "backends/cpu/kernels/lanes_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define HEDDLE_HAS_POWER_TABLE 1

/// Binary digits of an index into the table.
inline constexpr int kTableDigits = 5;

/// 2^(j / 32) / (b^2 + q) for each index j, with b and q of GrowthConstants; as bits, less those of
/// j where they come to stand when the digits before them are moved to an exponent.
alignas(64) inline constexpr std::uint32_t kPowerTable[1 << kTableDigits] = {
    0x3e75f9db, 0x3e775cb7, 0x3e786ee2, 0x3e773ed7, 0x3e761e8f, 0x3e750e63, 0x3e740eae, 0x3e731fcb,
    0x3e72421a, 0x3e7175fa, 0x3e70bbce, 0x3e7013fa, 0x3e6f7ee6, 0x3e6efcfb, 0x3e6e8ea3, 0x3e6e344e,
    0x3e6dee69, 0x3e6dbd6a, 0x3e6da1c4, 0x3e6d9bef, 0x3e6dac66, 0x3e6dd3a5, 0x3e6e122c, 0x3e6e687e,
    0x3e6ed720, 0x3e6f5e9b, 0x3e6fff79, 0x3e70ba49, 0x3e718f9d, 0x3e728008, 0x3e738c24, 0x3e74b48b};

/// The least power of 2 that surely overflows: entries are small, so their exponents do not.
inline constexpr float kOverflow = 129;

#elif HWY_TARGET == HWY_AVX2
#define HEDDLE_HAS_POWER_TABLE 1

inline constexpr int kTableDigits = 3;

/// The same with 2^(j / 8).
alignas(32) inline constexpr std::uint32_t kPowerTable[1 << kTableDigits] = {
    0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};

inline constexpr float kOverflow = 128;  ///< whose exponent is that of infinity

#else
#define HEDDLE_HAS_POWER_TABLE 0
#endif

#if HEDDLE_HAS_POWER_TABLE

/// What 1 + 2^(k x) is computed with: 2^(k x) = 2^n 2^r, where n has kTableDigits binary digits
/// after the point, for which there is a table, and r is so small that few terms do for it.
struct GrowthConstants {
    float k;
    float least, most;  ///< of x: between them k x is from -64, which adds nothing, to kOverflow
    float magic = 0x1.8p23f / (1 << kTableDigits);  ///< adding it rounds to n
#if HWY_TARGET <= HWY_AVX3
    float b = 0x1.715cp+0f, q = 2.08130693f;  ///< (r + b)^2 + q is 2^r (b^2 + q) to 5.5e-8 of it
#else
    float p3 = 0.0555041097f, p2 = 0.240264073f, p1 = 0.693147182f;  ///< 2^r to 3.8e-8 of it
#endif
    float one = 1.0f;

    /// For loops over many vectors.
    static GrowthConstants held(float k) {
        GrowthConstants c{.k = k, .least = -64 / k, .most = kOverflow / k};
        if (!(k > 0)) c.least = kOverflow / k, c.most = -64 / k;  // no limits if k is 0, or -0
#if HWY_TARGET <= HWY_AVX3
        for (float* value : {&c.b, &c.q}) opaque(*value);
#else
        for (float* value : {&c.p3, &c.p2, &c.p1}) opaque(*value);
#endif
        for (float* value : {&c.k, &c.least, &c.most, &c.magic, &c.one}) opaque(*value);
        return c;
    }
};

/// 1 + 2^(k x), to 3 units in the last place of the power, and the rounding of k x.
template <class D, class V>
HWY_INLINE V growth_of(D d, V x, const GrowthConstants& c) {
    const hn::Rebind<std::uint32_t, D> du;
    const V k = hn::Set(d, c.k), magic = hn::Set(d, c.magic), one = hn::Set(d, c.one);
    x = bounded(d, x, c.least, c.most);
    const V shifted = hn::MulAdd(x, k, magic), n = hn::Sub(shifted, magic);
    // The digits of n stand in the lowest bits of `shifted`.
    const auto digits = hn::BitCast(du, shifted);
    const auto exponent = hn::ShiftLeft<23 - kTableDigits>(digits);
    const V power = hn::BitCast(d, hn::Add(look_up(kPowerTable, digits), exponent));
#if HWY_TARGET <= HWY_AVX3
    const V s = hn::MulAdd(x, k, hn::Sub(hn::Set(d, c.b), n));  // r + b; b - n is exact
    const V p = hn::MulAdd(s, s, hn::Set(d, c.q));
#else
    const V r = hn::MulSub(x, k, n);
    V p = hn::MulAdd(hn::Set(d, c.p3), r, hn::Set(d, c.p2));
    p = hn::MulAdd(p, r, hn::Set(d, c.p1));
    p = hn::MulAdd(p, r, one);
#endif
    return hn::MulAdd(p, power, one);
}

#else

struct GrowthConstants {
    float k;
    PowerConstants power = PowerConstants::held();

    static GrowthConstants held(float k) { return {.k = k}; }
};

template <class D, class V>
HWY_INLINE V growth_of(D d, V x, const GrowthConstants& c) {
    const V power = exp2_of_any(d, hn::Mul(x, hn::Set(d, c.k)), c.power);
    return hn::Add(hn::Set(d, c.power.one), power);
}

#endif
#undef HEDDLE_HAS_POWER_TABLE

/// For 1 + e^(-k x).
inline GrowthConstants swish_constants(float k) { return GrowthConstants::held(-1.44269504f * k); }

/// The factor of x in the quick form of GELU.
inline constexpr float kGeluQuick = 1.702f;

/// 1 / (1 + e^-x), to 4 + 1.25 |x| units in the last place. The functions below are as accurate, in
/// |k x| where there is a k.
template <class D, class V>
HWY_INLINE V sigmoid_of(D d, V x, const GrowthConstants& swish) {
    return hn::Div(hn::Set(d, 1.0f), growth_of(d, x, swish));
}

/// x / (1 + e^(-k x)). Goes to -0 where the power overflows.
template <class D, class V>
HWY_INLINE V swish_of(D d, V x, const GrowthConstants& swish) {
    return hn::Div(x, growth_of(d, x, swish));
}

/// x / 2 * (1 + tanh u) with u = sqrt(2/pi) * x * (1 + 0.044715 x^2), which is x / (1 + e^-2u).
/// `plain` are the constants of 1 + 2^x.
template <class D, class V>
HWY_INLINE V gelu_of(D d, V x, const GrowthConstants& plain) {
    // Both coefficients are those of -2u / x, times log2(e).
    const V inner = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -0.102943240f), hn::Set(d, -2.30220820f));
    return hn::Div(x, growth_of(d, hn::Mul(x, inner), plain));
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_LANES_SIGMOID_HPP
