// Sine alone and cosine alone, of vectors of floats: less work than both of lanes_math.hpp.
// Included once per instruction set.

#if defined(HEDDLE_CPU_LANES_ANGLE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_LANES_ANGLE_HPP
#undef HEDDLE_CPU_LANES_ANGLE_HPP
#else
#define HEDDLE_CPU_LANES_ANGLE_HPP
#endif

#include "backends/cpu/kernels/lanes_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What the sine alone is computed with: that of x is that of r or its opposite, where x is r and a
/// multiple of pi, and |r| up to pi / 2.
struct AngleConstants {
    float per_pi = 0.318309886f;
    float magic = 0x1.8p23f;  ///< adding it rounds to whole numbers
    float half = 0.5f;
    PiParts pi;
    float p4 = 2.6048726e-06f, p3 = -0.00019809384f, p2 = 0.0083330665f, p1 = -0.1666666f;
    float limit = kAngleLimit;

    /// For loops over many vectors.
    static AngleConstants held() {
        AngleConstants c;
        for (float& part : c.pi.parts) opaque(part);
        for (float* value : {&c.per_pi, &c.magic, &c.half, &c.p4, &c.p3, &c.p2, &c.p1, &c.limit}) {
            opaque(*value);
        }
        return c;
    }
};

/// The sine of x - multiple * pi, which is r, turned if the lowest bit of `turns` says so.
template <class D, class V>
HWY_INLINE V turned_sine(D d, V x, V multiple, V turns, const AngleConstants& c) {
    const hn::Rebind<std::uint32_t, D> du;
    V r = x;
    for (const float part : c.pi.parts) r = hn::NegMulAdd(multiple, hn::Set(d, part), r);
    const V square = hn::Mul(r, r);
    V p = hn::MulAdd(hn::Set(d, c.p4), square, hn::Set(d, c.p3));
    p = hn::MulAdd(p, square, hn::Set(d, c.p2));
    p = hn::MulAdd(p, square, hn::Set(d, c.p1));
    const V sine = hn::MulAdd(hn::Mul(square, r), p, r);
    return hn::Xor(sine, hn::BitCast(d, hn::ShiftLeft<31>(hn::BitCast(du, turns))));
}

/// y, but f(x) where x is above kAngleLimit or NaN. Not part of the loop, whose registers it would
/// take.
template <class D, class V>
HWY_NOINLINE V with_far_angles(D d, V x, V y, float (*f)(float)) {
    float angles[hn::MaxLanes(D())], results[hn::MaxLanes(D())];
    hn::StoreU(x, d, angles);
    hn::StoreU(y, d, results);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
        if (!(::fabsf(angles[i]) <= kAngleLimit)) results[i] = f(angles[i]);
    }
    return hn::LoadU(d, results);
}

template <class D, class V>
HWY_INLINE bool are_moderate(D d, V x, const AngleConstants& c) {
    return hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, c.limit)));
}

/// The sine, to 2 units in the last place of 1; for |x| up to 3 to 3 units in its own.
template <class D, class V>
HWY_INLINE V sin_of(D d, V x, const AngleConstants& c) {
    const V magic = hn::Set(d, c.magic), shifted = hn::MulAdd(x, hn::Set(d, c.per_pi), magic);
    const V sine = turned_sine(d, x, hn::Sub(shifted, magic), shifted, c);
    return HWY_LIKELY(are_moderate(d, x, c)) ? sine : with_far_angles(d, x, sine, ::sinf);
}

/// The cosine, which is the sine of x + pi / 2. As accurate.
template <class D, class V>
HWY_INLINE V cos_of(D d, V x, const AngleConstants& c) {
    const V magic = hn::Set(d, c.magic), half = hn::Set(d, c.half);
    const V shifted = hn::Add(hn::MulAdd(x, hn::Set(d, c.per_pi), half), magic);
    const V multiple = hn::Sub(hn::Sub(shifted, magic), half);
    const V cosine = turned_sine(d, x, multiple, shifted, c);
    return HWY_LIKELY(are_moderate(d, x, c)) ? cosine : with_far_angles(d, x, cosine, ::cosf);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_LANES_ANGLE_HPP
