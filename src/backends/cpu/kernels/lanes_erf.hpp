// The exact form of GELU, of vectors of floats. Accurate for every argument, like lanes_math.hpp.
// Included once per instruction set.

#if defined(HEDDLE_CPU_LANES_ERF_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_LANES_ERF_HPP
#undef HEDDLE_CPU_LANES_ERF_HPP
#else
#define HEDDLE_CPU_LANES_ERF_HPP
#endif

#include "backends/cpu/kernels/lanes_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x / 2 * (1 + erf(x / sqrt 2)), to 20 units in the last place for x from -4 on. It is max(x, 0) -
/// z N(-z) with z = |x| and the normal distribution N(-z) = e^(-z^2 / 2) t P(t), t = 1 / (1 + 0.305
/// z). The polynomial P was fitted to 9.4e-8 of it for z up to 13, from where on the power is 0.
template <class D, class V>
HWY_INLINE V smooth_gelu_erf_of(D d, V x, const PowerConstants& c) {
    const V z = at_most(d, hn::Abs(x), 20.0f), one = hn::Set(d, c.one);
    const V t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 0.305f), one));
    const V power = exp2_of(d, hn::Mul(hn::Mul(z, hn::Set(d, -0.721347520f)), z), c);
    V p = hn::MulAdd(hn::Set(d, 0.0366991556f), t, hn::Set(d, -0.152988165f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.185716651f));
    p = hn::MulAdd(p, t, hn::Set(d, -0.037976626f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.121021587f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.103420891f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.122466817f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.121639736f));
    return hn::NegMulAdd(hn::Mul(z, t), hn::Mul(p, power), hn::Max(x, hn::Zero(d)));
}

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86

/// Coefficients of N(-z) as a polynomial of r, lowest first, for 5.5 z = j + r with whole numbers j
/// and r from -1/2 to 1/2. To 1e-7 of it for z up to 4, and 6e-7 up to 5.7.
alignas(64) inline constexpr float kTails[6][32] = {
    {0.5f,           0.4278627f,     0.35806477f,    0.29272047f,   0.23352945f,    0.18165107f,
     0.13765645f,    0.10155742f,    0.07289757f,    0.05088175f,   0.034518175f,   0.022750132f,
     0.014561477f,   0.009048283f,   0.0054567787f,  0.0031930117f, 0.0018124072f,  0.0009977235f,
     0.000532576f,   0.00027561066f, 0.00013825696f, 6.721942e-05f, 3.1671243e-05f, 1.44593605e-05f,
     6.395908e-06f,  2.7408416e-06f, 1.1377779e-06f, 4.574979e-07f, 1.7817547e-07f, 6.720563e-08f,
     2.4549147e-08f, 8.6839265e-09f},
    {-0.07253496f,    -0.07134589f,    -0.06789436f,    -0.06250886f,     -0.055679154f,
     -0.04798294f,    -0.040005915f,   -0.032270428f,   -0.025184216f,    -0.019014953f,
     -0.013890096f,   -0.0098165395f,  -0.006712043f,   -0.004440115f,    -0.0028416908f,
     -0.001759554f,   -0.0010540751f,  -0.000610919f,   -0.00034256178f,  -0.00018583919f,
     -9.753912e-05f,  -4.952946e-05f,  -2.4332763e-05f, -1.15654475e-05f, -5.318346e-06f,
     -2.3661044e-06f, -1.0184374e-06f, -4.2410943e-07f, -1.7086954e-07f,  -6.660311e-08f,
     -2.5116982e-08f, -9.163968e-09f},
    {3.845033e-13f,   0.001179269f,   0.0022444383f, 0.003099609f,   0.0036812625f,  0.003965529f,
     0.003967527f,    0.0037337681f,  0.0033301448f, 0.002828672f,   0.0022958855f,  0.0017848271f,
     0.0013313157f,   0.0009540752f,  0.0006575819f, 0.00043625326f, 0.00027876362f, 0.000171663f,
     0.000101918966f, 5.8362493e-05f, 3.224415e-05f, 1.71919e-05f,   8.8481775e-06f, 4.3967166e-06f,
     2.1097171e-06f,  9.777059e-07f,  4.376628e-07f, 1.8926526e-07f, 7.907675e-08f,  3.1923843e-08f,
     1.2453961e-08f,  4.695261e-09f},
    {0.00039964123f,  0.00038009472f,  0.0003246083f,    0.00024193384f,  0.00014451162f,
     4.588159e-05f,   -4.18979e-05f,   -0.000110205496f, -0.0001548099f,  -0.000175763f,
     -0.00017645965f, -0.00016225608f, -0.00013906001f,  -0.00011220795f, -8.578816e-05f,
     -6.241341e-05f,  -4.3340933e-05f, -2.8791508e-05f,  -1.8328166e-05f, -1.1195454e-05f,
     -6.568926e-06f,  -3.7055427e-06f, -2.0110492e-06f,  -1.0506658e-06f, -5.286825e-07f,
     -2.563298e-07f,  -1.1979442e-07f, -5.3981577e-08f,  -2.3461018e-08f, -9.836634e-09f,
     -3.97959e-09f,   -1.5538377e-09f},
    {-4.454361e-12f,  -9.618988e-06f,  -1.7696575e-05f, -2.3033464e-05f, -2.5017927e-05f,
     -2.3711176e-05f, -1.9761716e-05f, -1.4190125e-05f, -8.1188255e-06f, -2.5263946e-06f,
     1.915455e-06f,   4.8986594e-06f,  6.441059e-06f,   6.788387e-06f,   6.297059e-06f,
     5.3315903e-06f,  4.1957487e-06f,  3.101339e-06f,   2.1675382e-06f,  1.4388863e-06f,
     9.1019e-07f,     5.499543e-07f,   3.1798714e-07f,  1.7620152e-07f,  9.367667e-08f,
     4.7828532e-08f,  2.3470292e-08f,  1.1076764e-08f,  5.0305364e-09f,  2.1995403e-09f,
     9.2628966e-10f,  3.7585207e-10f},
    {-1.978248e-06f,  -1.8164939e-06f, -1.3706932e-06f, -7.382774e-07f,  -5.147931e-08f,
     5.5822534e-07f,  9.917514e-07f,   1.2014962e-06f,  1.1939801e-06f,  1.0179937e-06f,
     7.443485e-07f,   4.4474854e-07f,  1.7581687e-07f,  -2.8757292e-08f, -1.581981e-07f,
     -2.1921164e-07f, -2.2836076e-07f, -2.049721e-07f,  -1.6617042e-07f, -1.2441295e-07f,
     -8.7103665e-08f, -5.7468768e-08f, -3.5917832e-08f, -2.1343826e-08f, -1.2092077e-08f,
     -6.5448518e-09f, -3.389837e-09f,  -1.6823115e-09f, -8.0084545e-10f, -3.6600897e-10f,
     -1.6071595e-10f, -6.784642e-11f}};

struct GeluErfConstants {
    float per_z = 5.5f;
    float most = 5.72f, least = -5.72f;  ///< of z and x, for the table
    float magic = 0x1.8p23f;             ///< adding it rounds to whole numbers

    /// For loops over many vectors.
    static GeluErfConstants held() {
        GeluErfConstants c;
        for (float* value : {&c.per_z, &c.most, &c.least, &c.magic}) opaque(*value);
        return c;
    }
};

/// The same from a table, which is faster and no less accurate. Numbers below it are rare.
template <class D, class V>
HWY_INLINE V gelu_erf_of(D d, V x, const GeluErfConstants& c) {
    const hn::Rebind<std::uint32_t, D> du;
    const V z = at_most(d, hn::Abs(x), c.most), magic = hn::Set(d, c.magic);
    const V per_z = hn::Set(d, c.per_z), shifted = hn::MulAdd(z, per_z, magic);
    const V r = hn::MulSub(z, per_z, hn::Sub(shifted, magic));
    const auto j = hn::BitCast(du, shifted);
    V tail = look_up(kTails[5], j);
    for (int i = 4; i >= 0; --i) tail = hn::MulAdd(tail, r, look_up(kTails[i], j));
    const V y = hn::NegMulAdd(z, tail, hn::Max(x, hn::Zero(d)));
    const auto is_below = hn::Lt(x, hn::Set(d, c.least));
    if (HWY_LIKELY(hn::AllFalse(d, is_below))) return y;
    return hn::IfThenElse(is_below, smooth_gelu_erf_of(d, x, {}), y);
}

#else

using GeluErfConstants = PowerConstants;

template <class D, class V>
HWY_INLINE V gelu_erf_of(D d, V x, const GeluErfConstants& c) {
    return smooth_gelu_erf_of(d, x, c);
}

#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_LANES_ERF_HPP
