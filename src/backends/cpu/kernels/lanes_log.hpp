// The logarithm of vectors of floats and what is built on it. Accurate for every argument, like
// lanes_math.hpp. Included once per instruction set.

#if defined(HEDDLE_CPU_LANES_LOG_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_LANES_LOG_HPP
#undef HEDDLE_CPU_LANES_LOG_HPP
#else
#define HEDDLE_CPU_LANES_LOG_HPP
#endif

#include "backends/cpu/kernels/lanes_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86

/// 1 / c, where c is near the middle of each 32nd of the numbers from 1 to 2; but 1 and 2 for the
/// first and the last, so that the logarithm of what is near 1 is that of the rest alone.
alignas(64) inline constexpr float kInverses[32] = {
    1.0f,        0.9552043f, 0.9275087f,  0.9015071f,  0.8768798f,  0.8534205f, 0.8311185f,
    0.8100589f,  0.7902937f, 0.77118164f, 0.7530798f,  0.7356564f,  0.719033f,  0.7031499f,
    0.68825334f, 0.6738138f, 0.6599558f,  0.6464965f,  0.63383186f, 0.6214795f, 0.60963994f,
    0.59804624f, 0.5873233f, 0.57644224f, 0.56638825f, 0.55661607f, 0.5469388f, 0.5378209f,
    0.52878916f, 0.5201788f, 0.5118646f,  0.5f};

/// ln(c), which is a float to 1.1e-11, as each c was chosen to make it. In the upper half it is
/// larger by the rounding of ln(2), which is taken off again where x is a little below 1.
alignas(64) inline constexpr float kLogs[32] = {
    0.0f,        0.045830026f, 0.07525309f, 0.10368738f, 0.13138534f, 0.15850289f, 0.18498287f,
    0.21064833f, 0.23535064f,  0.25983134f, 0.28358412f, 0.30699214f, 0.32984802f, 0.35218516f,
    0.37359828f, 0.39480144f,  0.41558242f, 0.43618754f, 0.45597157f, 0.47565234f, 0.49488676f,
    0.5140872f,  0.53217983f,  0.55088013f, 0.5684755f,  0.58587956f, 0.6034184f,  0.6202297f,
    0.6371655f,  0.6535827f,   0.66969514f, 0.6931472f};

/// What ln(x) is computed with: ln(x) = n ln(2) + ln(c) + ln(1 + r), with r from -1/64 to 1/32.
struct LogConstants {
    float ln2 = 0x1.62e43p-1f;
    float p2 = -0.24483582f, p1 = 0.33338982f, p0 = -0.5000012f;  ///< ln(1 + r) to 1.1e-8 of it
    float one = 1.0f;

    /// For loops over many vectors.
    static LogConstants held() {
        LogConstants c;
        for (float* value : {&c.ln2, &c.p2, &c.p1, &c.p0, &c.one}) opaque(*value);
        return c;
    }
};

/// ln(x) to 2 units in the last place. The instructions know what to do with numbers that have no
/// logarithm, with 0 and infinity, and with denormals.
template <class D, class V>
HWY_INLINE V log_of(D d, V x, const LogConstants& c) {
    const hn::Rebind<std::uint32_t, D> du;
    const V n = exponent_of(x), m = mantissa_of(x);
    // The first 5 binary digits of m after the point.
    const auto index = hn::ShiftRight<18>(hn::BitCast(du, m));
    const V r = hn::MulSub(m, look_up(kInverses, index), hn::Set(d, c.one));
    V p = hn::MulAdd(hn::Set(d, c.p2), r, hn::Set(d, c.p1));
    p = hn::MulAdd(p, r, hn::Set(d, c.p0));
    const V rest = hn::MulAdd(hn::Mul(r, r), p, r);
    return hn::Add(hn::MulAdd(n, hn::Set(d, c.ln2), look_up(kLogs, index)), rest);
}

#else

/// What ln(x) is computed with: ln(x) = n ln(2) + ln(1 + r), with r from -1/4 to 1/2.
struct LogConstants {
    float ln2 = 0x1.62e43p-1f;
    float p7 = 0.0600811f, p6 = -0.1267933f, p5 = 0.1510045f, p4 = -0.16772833f;
    float p3 = 0.1996345f, p2 = -0.24994649f, p1 = 0.33333838f, p0 = -0.5000005f;
    float one = 1.0f;

    static LogConstants held() {
        LogConstants c;
        for (float* value :
             {&c.ln2, &c.p7, &c.p6, &c.p5, &c.p4, &c.p3, &c.p2, &c.p1, &c.p0, &c.one}) {
            opaque(*value);
        }
        return c;
    }
};

/// ln(1 + r) to 4.1e-8 of it.
template <class D, class V>
HWY_INLINE V log_near_one(D d, V r, const LogConstants& c) {
    const V square = hn::Mul(r, r);
    V even = hn::MulAdd(hn::Set(d, c.p6), square, hn::Set(d, c.p4));
    V odd = hn::MulAdd(hn::Set(d, c.p7), square, hn::Set(d, c.p5));
    even = hn::MulAdd(even, square, hn::Set(d, c.p2));
    odd = hn::MulAdd(odd, square, hn::Set(d, c.p3));
    even = hn::MulAdd(even, square, hn::Set(d, c.p0));
    odd = hn::MulAdd(odd, square, hn::Set(d, c.p1));
    return hn::MulAdd(hn::MulAdd(odd, r, even), square, r);
}

template <class D, class V>
HWY_INLINE V log_of(D d, V x, const LogConstants& c) {
    const hn::Rebind<std::int32_t, D> di;
    const V zero = hn::Zero(d), infinity = hn::BitCast(d, hn::Set(di, 0x7f800000));
    const V nan = hn::BitCast(d, hn::Set(di, 0x7fc00000));
    const auto is_denormal = hn::Lt(x, hn::Set(d, 0x1p-126f));
    const V normal = hn::IfThenElse(is_denormal, hn::Mul(x, hn::Set(d, 0x1p24f)), x);
    const auto bits = hn::BitCast(di, normal);
    const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f400000)));  // of 3/4
    const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
    const V less = hn::IfThenElseZero(is_denormal, hn::Set(d, 24.0f));
    const V n = hn::Sub(hn::ConvertTo(d, exponent), less);
    V y = log_near_one(d, hn::Sub(m, hn::Set(d, c.one)), c);
    y = hn::MulAdd(n, hn::Set(d, c.ln2), y);
    y = hn::IfThenElse(hn::Lt(x, infinity), y, x);  // NaN too
    y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
    return hn::IfThenElse(hn::Lt(x, zero), nan, y);
}

#endif

// ---- softplus: max(x, 0) + ln(1 + z) with z = e^-|x| ------------------------------------------

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86

/// 2^(j / 32).
alignas(64) inline constexpr float kRoots[32] = {
    1.0f,       1.0218972f, 1.0442737f, 1.0671405f, 1.0905077f, 1.1143868f, 1.1387886f, 1.1637249f,
    1.1892071f, 1.2152474f, 1.2418578f, 1.269051f,  1.2968396f, 1.3252367f, 1.3542556f, 1.38391f,
    1.4142135f, 1.4451808f, 1.4768262f, 1.5091645f, 1.5422108f, 1.5759809f, 1.6104903f, 1.6457555f,
    1.6817929f, 1.7186193f, 1.7562522f, 1.7947091f, 1.8340081f, 1.8741677f, 1.9152066f, 1.9571441f};

/// Coefficients of ln(1 + z) / z, lowest first, for z near each 15th from 0 to 1. To 5.6e-8 of it.
alignas(64) inline constexpr float kShares[4][16] = {
    {1.0f, 0.9999976f, 0.99996096f, 0.99983096f, 0.9995491f, 0.99906886f, 0.998358f, 0.9973973f,
     0.99617815f, 0.9947002f, 0.99296904f, 0.99099463f, 0.98878956f, 0.9863683f, 0.9837461f,
     0.98093873f},
    {-0.4999986f, -0.49983078f, -0.49875847f, -0.49643216f, -0.4928151f, -0.4880155f, -0.48219943f,
     -0.4755466f, -0.46822894f, -0.4604011f, -0.45219743f, -0.44373202f, -0.43510008f, -0.42638022f,
     -0.41763654f, -0.40892094f},
    {0.33309013f, 0.3290713f, 0.3184107f, 0.30444542f, 0.28892094f, 0.27289772f, 0.25701326f,
     0.24164112f, 0.2269893f, 0.21316168f, 0.20019704f, 0.18809399f, 0.17682691f, 0.16635631f,
     0.15663543f, 0.1476145f},
    {-0.23752001f, -0.20344551f, -0.16745181f, -0.13931867f, -0.117032506f, -0.09916488f,
     -0.08468407f, -0.072832696f, -0.0630466f, -0.0548999f, -0.048067205f, -0.04229709f,
     -0.037393324f, -0.03320127f, -0.029598016f, -0.026485074f}};

/// z = 2^n e^r, where n has 5 binary digits after the point, for which there is a table.
struct SoftplusConstants {
    float least = -104.0f;  ///< e^x is 0 below
    float log2e = 1.44269504f, ln2 = 0x1.62e43p-1f;
    float magic = 0x1.8p18f;                   ///< adding it rounds to n
    float p2 = 0.5000049f, p1 = 1.0000147f;    ///< e^r to 5.4e-8 of it
    float fifteen = 15.0f, whole = 0x1.8p23f;  ///< adding the latter rounds to whole numbers

    static SoftplusConstants held() {
        SoftplusConstants c;
        for (float* value :
             {&c.least, &c.log2e, &c.ln2, &c.magic, &c.p2, &c.p1, &c.fifteen, &c.whole}) {
            opaque(*value);
        }
        return c;
    }
};

/// ln(1 + e^x) to 5 units in the last place for x from -20 on, and 6 elsewhere. Below 2^-125 it is
/// as inexact as exp_of.
template <class D, class V>
HWY_INLINE V softplus_of(D d, V x, const SoftplusConstants& c) {
    const hn::Rebind<std::uint32_t, D> du;
    const V low = at_least(d, hn::Or(x, hn::Set(d, -0.0f)), c.least), magic = hn::Set(d, c.magic);
    const V shifted = hn::MulAdd(low, hn::Set(d, c.log2e), magic), n = hn::Sub(shifted, magic);
    const V power = times_power(look_up(kRoots, hn::BitCast(du, shifted)), n);
    const V r = hn::NegMulAdd(n, hn::Set(d, c.ln2), low);
    const V slope = hn::MulAdd(hn::Set(d, c.p2), r, hn::Set(d, c.p1));
    const V z = hn::MulAdd(hn::Mul(power, r), slope, power);

    const V rounded = hn::MulAdd(z, hn::Set(d, c.fifteen), hn::Set(d, c.whole));
    const auto index = hn::BitCast(du, rounded);
    V share = hn::MulAdd(look_up(kShares[3], index), z, look_up(kShares[2], index));
    share = hn::MulAdd(share, z, look_up(kShares[1], index));
    share = hn::MulAdd(share, z, look_up(kShares[0], index));
    return hn::MulAdd(share, z, at_least(d, x, 0.0f));
}

#else

struct SoftplusConstants {
    ExpConstants exp = ExpConstants::held();
    float p8 = 0.00537170237f, p7 = -0.0300784577f, p6 = 0.0792068988f, p5 = -0.137531444f;
    float p4 = 0.191533118f, p3 = -0.248571396f, p2 = 0.33321327f, p1 = -0.499996483f;

    static SoftplusConstants held() {
        SoftplusConstants c;
        for (float* value : {&c.p8, &c.p7, &c.p6, &c.p5, &c.p4, &c.p3, &c.p2, &c.p1})
            opaque(*value);
        return c;
    }
};

template <class D, class V>
HWY_INLINE V softplus_of(D d, V x, const SoftplusConstants& c) {
    const V z = exp_of(d, hn::Or(x, hn::Set(d, -0.0f)), c.exp), square = hn::Mul(z, z);
    // ln(1 + z) / z to 4.1e-8 of it.
    V even = hn::MulAdd(hn::Set(d, c.p8), square, hn::Set(d, c.p6));
    V odd = hn::MulAdd(hn::Set(d, c.p7), square, hn::Set(d, c.p5));
    even = hn::MulAdd(even, square, hn::Set(d, c.p4));
    odd = hn::MulAdd(odd, square, hn::Set(d, c.p3));
    even = hn::MulAdd(even, square, hn::Set(d, c.p2));
    odd = hn::MulAdd(odd, square, hn::Set(d, c.p1));
    even = hn::MulAdd(even, square, hn::Set(d, c.exp.one));
    return hn::MulAdd(hn::MulAdd(odd, z, even), z, at_least(d, x, 0.0f));
}

#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_LANES_LOG_HPP
