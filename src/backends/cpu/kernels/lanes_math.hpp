// Functions of vectors of floats, as accurate as single precision needs and right for every
// argument: NaN stays NaN, infinity and overflow go where mathematics says. Included once per
// instruction set.

#if defined(HEDDLE_CPU_LANES_MATH_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_LANES_MATH_HPP
#undef HEDDLE_CPU_LANES_MATH_HPP
#else
#define HEDDLE_CPU_LANES_MATH_HPP
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
#include <math.h>  // the C functions: the inline ones of <cmath> would be compiled per instruction set

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Above this e^x is infinite, and Highway's functions are not made for it.
inline constexpr float kExpLimit = 89.0f;

template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
    const auto limit = hn::Set(d, kExpLimit);
    const V y = hn::Exp(d, hn::IfThenElse(hn::Gt(x, limit), limit, x));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V expm1_of(D d, V x) {
    const auto limit = hn::Set(d, kExpLimit);
    const V y = hn::Expm1(d, hn::IfThenElse(hn::Gt(x, limit), limit, x));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V tanh_of(D d, V x) {
    const auto limit = hn::Set(d, 20.0f);  // from 10 on it is 1
    const V y = hn::Tanh(d, hn::Clamp(x, hn::Neg(limit), limit));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V log_of(D d, V x) {
    const hn::Rebind<std::uint32_t, D> du;
    const auto infinity = hn::BitCast(d, hn::Set(du, 0x7f800000u));
    const auto nan = hn::BitCast(d, hn::Set(du, 0x7fc00000u));
    const auto zero = hn::Zero(d);
    V y = hn::Log(d, x);
    y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
    y = hn::IfThenElse(hn::Lt(x, zero), nan, y);
    return hn::IfThenElse(hn::Or(hn::Eq(x, infinity), hn::IsNaN(x)), x, y);
}

/// 1 / (1 + e^-x)
template <class D, class V>
HWY_INLINE V sigmoid_of(D d, V x) {
    const auto one = hn::Set(d, 1.0f);
    return hn::Div(one, hn::Add(one, exp_of(d, hn::Neg(x))));
}

/// x / (1 + e^(-k x)). Goes to -0 where the exponential overflows.
template <class D, class V>
HWY_INLINE V swish_of(D d, V x, V kx) {
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp_of(d, hn::Neg(kx))));
}

template <class D, class V>
HWY_INLINE V silu_of(D d, V x) {
    return swish_of(d, x, x);
}

/// x / 2 * (1 + tanh u) with u = sqrt(2/pi) * x * (1 + 0.044715 x^2), which is x / (1 + e^-2u).
template <class D, class V>
HWY_INLINE V gelu_of(D d, V x) {
    const auto inner = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
    return swish_of(d, x, hn::Mul(hn::Mul(hn::Set(d, 1.5957691216057307f), x), inner));
}

template <class D, class V>
HWY_INLINE V gelu_quick_of(D d, V x) {
    return swish_of(d, x, hn::Mul(hn::Set(d, 1.702f), x));
}

/// 1 - erf z for z >= 0, to a few units in the last place of the relative error: t e^(P(t) - z^2)
/// with t = 2 / (2 + z), where the polynomial P was fitted for z up to 11.
template <class D, class V>
HWY_INLINE V erfc_of(D d, V z) {
    const auto two = hn::Set(d, 2.0f);
    const V t = hn::Div(two, hn::Add(two, z));
    V p = hn::Set(d, 0.152171283f);
    p = hn::MulAdd(p, t, hn::Set(d, -0.720157548f));
    p = hn::MulAdd(p, t, hn::Set(d, 1.24898503f));
    p = hn::MulAdd(p, t, hn::Set(d, -0.818536592f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.0203504912f));
    p = hn::MulAdd(p, t, hn::Set(d, -0.0518615178f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.0525327003f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.382924554f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.999060409f));
    p = hn::MulAdd(p, t, hn::Set(d, -1.26546876f));
    return hn::Mul(t, exp_of(d, hn::NegMulAdd(z, z, p)));
}

/// x / 2 * (1 + erf(x / sqrt 2))
template <class D, class V>
HWY_INLINE V gelu_erf_of(D d, V x) {
    const auto half = hn::Set(d, 0.5f);
    const V tail = hn::Mul(half, erfc_of(d, hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678118654752f))));
    const V weight = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
    return hn::Mul(x, weight);
}

/// ln(1 + e^x), and x itself where the difference is lost.
template <class D, class V>
HWY_INLINE V softplus_of(D d, V x) {
    const auto limit = hn::Set(d, 20.0f);
    const V bounded = hn::Min(x, limit);
    const V y = hn::Log1p(d, exp_of(d, bounded));
    return hn::IfThenElse(hn::Gt(x, limit), x, hn::IfThenElse(hn::IsNaN(x), x, y));
}

/// To the nearest integer, halves away from zero.
template <class D, class V>
HWY_INLINE V round_of(D d, V x) {
    const V whole = hn::Trunc(x);
    const auto up = hn::Ge(hn::Abs(hn::Sub(x, whole)), hn::Set(d, 0.5f));
    const V moved = hn::Add(whole, hn::CopySign(hn::Set(d, 1.0f), x));
    return hn::IfThenElse(up, moved, whole);
}

/// Highway's sine and cosine reduce arguments up to here.
inline constexpr float kAngleLimit = 30000.0f;

/// `vector(d, x)` where all lanes are moderate, else `plain` of every lane.
template <class D, class V, class Vector>
HWY_INLINE V angle_function(D d, V x, Vector vector, float (*plain)(float)) {
    if (hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, kAngleLimit)))) return vector(d, x);
    float lanes[hn::MaxLanes(D())];
    hn::StoreU(x, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
        // Moderate neighbours of a large one get what they would get elsewhere.
        const bool moderate = lanes[i] < kAngleLimit && lanes[i] > -kAngleLimit;
        lanes[i] = moderate ? hn::GetLane(vector(d, hn::Set(d, lanes[i]))) : plain(lanes[i]);
    }
    return hn::LoadU(d, lanes);
}

template <class D, class V>
HWY_INLINE V sin_of(D d, V x) {
    return angle_function(
        d, x, [](auto tag, auto v) HWY_ATTR { return hn::Sin(tag, v); }, ::sinf);
}

template <class D, class V>
HWY_INLINE V cos_of(D d, V x) {
    return angle_function(
        d, x, [](auto tag, auto v) HWY_ATTR { return hn::Cos(tag, v); }, ::cosf);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_LANES_MATH_HPP
