// Functions of vectors of floats, as accurate as single precision needs and right for every
// argument: NaN stays NaN, infinity and overflow go where mathematics says. Included once per
// instruction set.

#if defined(HEDDLE_CPU_LANES_MATH_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_LANES_MATH_HPP
#undef HEDDLE_CPU_LANES_MATH_HPP
#else
#define HEDDLE_CPU_LANES_MATH_HPP
#endif

#include <hwy/highway.h>
#include <math.h>  // the C functions: the inline ones of <cmath> would be compiled per instruction set

#include "simd/look_up.hpp"
#include "simd/opaque.hpp"
#include "simd/powers.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_ARCH_ARM
#define HEDDLE_MIN_PASSES_OVER_NAN 1
#else
#define HEDDLE_MIN_PASSES_OVER_NAN 0
#endif

/// x, or `low` where x is below. NaN stays NaN.
template <class D, class V>
HWY_INLINE V at_least(D d, V x, float low) {
    const V least = hn::Set(d, low);
#if HEDDLE_MIN_PASSES_OVER_NAN
    return hn::IfThenElse(hn::Lt(x, least), least, x);
#else
    return hn::Max(least, x);
#endif
}

/// x, or `high` where x is above. NaN stays NaN.
template <class D, class V>
HWY_INLINE V at_most(D d, V x, float high) {
    const V most = hn::Set(d, high);
#if HEDDLE_MIN_PASSES_OVER_NAN
    return hn::IfThenElse(hn::Gt(x, most), most, x);
#else
    return hn::Min(most, x);
#endif
}

#undef HEDDLE_MIN_PASSES_OVER_NAN

/// x where it lies between `low` and `high`, else the nearer of them. NaN stays NaN.
template <class D, class V>
HWY_INLINE V bounded(D d, V x, float low, float high) {
    return at_most(d, at_least(d, x, low), high);
}

/// What 2^t is computed with: 2^t = 2^n 2^r, with a whole number n and r from -1/2 to 1/2, or from
/// 0 to 1 where there are instructions for that.
struct PowerConstants {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    float p5 = 0.00186713018f, p4 = 0.00901703003f, p3 = 0.0557999134f, p2 = 0.24016445f;
    float p1 = 0.693151312f;
#else
    float least = -127.0f;          ///< n = -127, whose power comes out as 0
    float magic = 0x1.8p23f + 127;  ///< has no binary digits after the point: adding it rounds
    float p5 = 0.00132647283f, p4 = 0.00967151263f, p3 = 0.0555073374f, p2 = 0.240222421f;
    float p1 = 0.693146978f;
#endif
    float one = 1.0f;
    float log2e = 1.44269504f;

    /// For loops over many vectors.
    static PowerConstants held() {
        PowerConstants c;
#if !(HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86)
        opaque(c.least);
        opaque(c.magic);
#endif
        for (float* value : {&c.p5, &c.p4, &c.p3, &c.p2, &c.p1, &c.one, &c.log2e}) opaque(*value);
        return c;
    }
};

/// 2^r to 1e-7 of it.
template <class D, class V>
HWY_INLINE V power_of_fraction(D d, V r, const PowerConstants& c) {
    V p = hn::MulAdd(hn::Set(d, c.p5), r, hn::Set(d, c.p4));
    p = hn::MulAdd(p, r, hn::Set(d, c.p3));
    p = hn::MulAdd(p, r, hn::Set(d, c.p2));
    p = hn::MulAdd(p, r, hn::Set(d, c.p1));
    return hn::MulAdd(p, r, hn::Set(d, c.one));
}

/// 2^t to 3 units in the last place, for t up to 128. Results below 2^-126 may come as 0, those
/// from 2^127.5 on as infinity. With t = x log2(e) it is e^x, in fewer operations than exp_of, but
/// the rounding of t makes it 1.25 |x| units less accurate.
template <class D, class V>
HWY_INLINE V exp2_of(D d, V t, const PowerConstants& c = {}) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return times_power(power_of_fraction(d, fraction_of(t), c), t);
#else
    const hn::Rebind<std::uint32_t, D> du;
    t = at_least(d, t, c.least);
    const V magic = hn::Set(d, c.magic), shifted = hn::Add(t, magic);
    const V power = power_of_fraction(d, hn::Sub(t, hn::Sub(shifted, magic)), c);
    // n + 127 stands in the lowest bits of `shifted`.
    return hn::Mul(power, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted))));
#endif
}

/// The same for any t.
template <class D, class V>
HWY_INLINE V exp2_of_any(D d, V t, const PowerConstants& c = {}) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return exp2_of(d, t, c);
#else
    return exp2_of(d, at_most(d, t, 128.0f), c);
#endif
}

/// What e^x is computed with. e^x = 2^n e^r, with a whole number n and |r| up to ln(2) / 2.
struct ExpConstants {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    float least = -104.0f;  ///< e^x is 0 below
#else
    float least = -87.4f;  ///< n = -126, whose power comes out as 0
#endif
    float most = 89.0f;  ///< e^x is infinite from here on; n = 128
    float log2e = 1.44269504f;
    float magic = 0x1.8p23f + 126;  ///< has no binary digits after the point: adding it rounds
    float ln2 = 0x1.62e43p-1f;
    float p5 = 0.00836377405f, p4 = 0.0418798551f, p3 = 0.166665733f, p2 = 0.499993473f;
    float one = 1.0f;

    /// For loops over many vectors.
    static ExpConstants held() {
        ExpConstants c;
        for (float* value :
             {&c.least, &c.most, &c.log2e, &c.magic, &c.ln2, &c.p5, &c.p4, &c.p3, &c.p2, &c.one}) {
            opaque(*value);
        }
        return c;
    }
};

/// r of x and n.
template <class D, class V>
HWY_INLINE V rest_of_exp(D d, V x, V n, const ExpConstants& c) {
#if HWY_NATIVE_FMA
    return hn::NegMulAdd(n, hn::Set(d, c.ln2), x);
#else  // in two parts, of which the first times n is exact
    static_cast<void>(c);
    const V near = hn::Sub(x, hn::Mul(n, hn::Set(d, 0x1.62e4p-1f)));
    return hn::Sub(near, hn::Mul(n, hn::Set(d, 0x1.7f7d1cp-20f)));
#endif
}

/// (e^r - 1) / r, so that e^r is right to 2.2e-7 of it.
template <class D, class V>
HWY_INLINE V slope_of_exp(D d, V r, const ExpConstants& c) {
    V p = hn::MulAdd(hn::Set(d, c.p5), r, hn::Set(d, c.p4));
    p = hn::MulAdd(p, r, hn::Set(d, c.p3));
    p = hn::MulAdd(p, r, hn::Set(d, c.p2));
    return hn::MulAdd(p, r, hn::Set(d, c.one));
}

/// 2^(n - 1) for n from -125 to 128, and 0 for n = -126. `shifted` is n + magic, so n + 126 stands
/// in its lowest bits.
template <class D, class V>
HWY_INLINE V half_power(D d, V shifted) {
    const hn::Rebind<std::uint32_t, D> du;
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
}

/// e^x to 4 units in the last place for |x| up to 20, and 6 elsewhere. Below 2^-125, where results
/// would soon be denormal, 0 may come instead.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x, const ExpConstants& c = {}) {
    x = bounded(d, x, c.least, c.most);
    const V one = hn::Set(d, c.one), magic = hn::Set(d, c.magic);
    const V shifted = hn::MulAdd(x, hn::Set(d, c.log2e), magic);
    const V n = hn::Sub(shifted, magic);
    const V r = rest_of_exp(d, x, n, c), slope = slope_of_exp(d, r, c);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return times_power(hn::MulAdd(slope, r, one), n);
#else
    const V twice = hn::MulAdd(slope, hn::Add(r, r), hn::Add(one, one));
    return hn::Mul(twice, half_power(d, shifted));
#endif
}

/// Half of e^x - 1, right to a few units in the last place also where it is small, for x from -40
/// to 89.
template <class D, class V>
HWY_INLINE V half_expm1_of(D d, V x, const ExpConstants& c) {
    const V magic = hn::Set(d, c.magic);
    const V shifted = hn::MulAdd(x, hn::Set(d, c.log2e), magic);
    const V r = rest_of_exp(d, x, hn::Sub(shifted, magic), c);
    V slope = hn::Set(d, 0.00139345415f);  // of one degree more: here its error is not against 1
    slope = hn::MulAdd(slope, r, hn::Set(d, 0.00836986955f));
    slope = hn::MulAdd(slope, r, hn::Set(d, 0.0416664556f));
    slope = hn::MulAdd(slope, r, hn::Set(d, 0.166664988f));
    slope = hn::MulAdd(slope, r, hn::Set(d, 0.5f));
    slope = hn::MulAdd(slope, r, hn::Set(d, c.one));
    const V power = half_power(d, shifted), grown = hn::Mul(slope, r);
    return hn::MulAdd(grown, power, hn::Sub(power, hn::Set(d, 0.5f)));
}

/// e^x - 1, as accurate.
template <class D, class V>
HWY_INLINE V expm1_of(D d, V x, const ExpConstants& c = {}) {
    const V half = half_expm1_of(d, bounded(d, x, -40.0f, c.most), c);
    return hn::Add(half, half);
}

/// (e^2x - 1) / (e^2x + 1), which is 1 from 9.1 on.
template <class D, class V>
HWY_INLINE V tanh_of(D d, V x, const ExpConstants& c = {}) {
    x = bounded(d, x, -9.1f, 9.1f);
    const V half = half_expm1_of(d, hn::Add(x, x), c);
    return hn::Div(half, hn::Add(half, hn::Set(d, c.one)));
}

/// To the nearest integer, halves away from zero.
template <class D, class V>
HWY_INLINE V round_of(D d, V x) {
    const V whole = hn::Trunc(x);
    const auto up = hn::Ge(hn::Abs(hn::Sub(x, whole)), hn::Set(d, 0.5f));
    const V moved = hn::Add(whole, hn::CopySign(hn::Set(d, 1.0f), x));
    return hn::IfThenElse(up, moved, whole);
}

/// Angles up to kAngleLimit are reduced exactly enough, by multiples of parts whose sum is pi.
#if HWY_NATIVE_FMA
inline constexpr float kAngleLimit = 500000.0f;
struct PiParts {
    float parts[2] = {0x1.921fb6p+1f, -0x1.777a5cp-24f};
};
#else  // products with the first two parts are exact
inline constexpr float kAngleLimit = 50000.0f;
struct PiParts {
    float parts[3] = {0x1.92p+1f, 0x1.fap-11f, 0x1.54442ep-19f};
};
#endif

/// Minus 0 in the third and fourth quarters of the circle, else 0: what to turn a sign with.
template <class D, class VU>
HWY_INLINE hn::Vec<D> sign_of_quarter(D d, VU quarter) {
    const hn::Rebind<std::uint32_t, D> du;
    return hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quarter, hn::Set(du, 2u))));
}

/// Sine and cosine of angles up to kAngleLimit, to 2 units in the last place of 1.
template <class D, class V>
HWY_INLINE void moderate_sin_cos(D d, V x, V& sine, V& cosine) {
    const hn::Rebind<std::uint32_t, D> du;
    const V magic = hn::Set(d, 0x1.8p23f);  // adding it rounds to whole numbers
    const V shifted = hn::MulAdd(x, hn::Set(d, 0.636619772f), magic);
    const V quarters = hn::Sub(shifted, magic);
    V r = x;
    for (const float part : PiParts().parts) r = hn::NegMulAdd(quarters, hn::Set(d, part / 2), r);
    const V square = hn::Mul(r, r);
    V odd = hn::Set(d, -0.000195621004f);
    odd = hn::MulAdd(odd, square, hn::Set(d, 0.00833262317f));
    odd = hn::MulAdd(odd, square, hn::Set(d, -0.166666642f));
    odd = hn::MulAdd(hn::Mul(odd, square), r, r);
    V even = hn::Set(d, 2.45220945e-05f);
    even = hn::MulAdd(even, square, hn::Set(d, -0.00138881768f));
    even = hn::MulAdd(even, square, hn::Set(d, 0.0416666642f));
    even = hn::MulAdd(even, square, hn::Set(d, -0.5f));
    even = hn::MulAdd(even, square, hn::Set(d, 1.0f));
    // Which quarter of the circle says which of the two it is, and with which sign.
    const auto quarter = hn::BitCast(du, shifted);
    const auto one = hn::Set(du, 1u);
    const auto is_odd =
        hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(du, hn::Eq(hn::And(quarter, one), one))));
    sine = hn::Xor(hn::IfThenElse(is_odd, even, odd), sign_of_quarter(d, quarter));
    cosine = hn::Xor(hn::IfThenElse(is_odd, odd, even), sign_of_quarter(d, hn::Add(quarter, one)));
}

/// Sine and cosine of any angle.
template <class D, class V>
HWY_INLINE void sin_cos_of(D d, V x, V& sine, V& cosine) {
    const auto is_moderate = hn::Le(hn::Abs(x), hn::Set(d, kAngleLimit));
    moderate_sin_cos(d, hn::IfThenElseZero(is_moderate, x), sine, cosine);
    if (HWY_LIKELY(hn::AllTrue(d, is_moderate))) return;
    float angles[hn::MaxLanes(D())], sines[hn::MaxLanes(D())], cosines[hn::MaxLanes(D())];
    hn::StoreU(x, d, angles);
    hn::StoreU(sine, d, sines);
    hn::StoreU(cosine, d, cosines);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
        if (::fabsf(angles[i]) <= kAngleLimit) continue;
        sines[i] = ::sinf(angles[i]);
        cosines[i] = ::cosf(angles[i]);
    }
    sine = hn::LoadU(d, sines);
    cosine = hn::LoadU(d, cosines);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_LANES_MATH_HPP
