#include "bench/ceiling_kernels.hpp"

// The only place where 8-bit dot products of AVX-512 are wanted whatever the kernels use: it is
// the machine that is measured.
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/ceiling_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/byte_products.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::tool::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Independent chains: two instructions may start per cycle, each takes four or five. One more
/// register each is needed for two operands, and 16 are all that AVX2 has.
constexpr std::size_t kChains = 12;

double fma_f32(std::size_t rounds, float& sink) {
    const hn::ScalableTag<float> lanes;
    // Approaches 1, no start is there yet: no overflow and no denormal numbers.
    const auto factor = hn::Set(lanes, 0.875f), summand = hn::Set(lanes, 0.125f);
    // Different ones, or the compiler sees that one chain is enough.
    auto s0 = hn::Set(lanes, 0.0f), s1 = hn::Set(lanes, 12.0f), s2 = hn::Set(lanes, 2.0f);
    auto s3 = hn::Set(lanes, 3.0f), s4 = hn::Set(lanes, 4.0f), s5 = hn::Set(lanes, 5.0f);
    auto s6 = hn::Set(lanes, 6.0f), s7 = hn::Set(lanes, 7.0f), s8 = hn::Set(lanes, 8.0f);
    auto s9 = hn::Set(lanes, 9.0f), s10 = hn::Set(lanes, 10.0f), s11 = hn::Set(lanes, 11.0f);
    for (std::size_t i = 0; i < rounds; ++i) {
        s0 = hn::MulAdd(s0, factor, summand), s1 = hn::MulAdd(s1, factor, summand);
        s2 = hn::MulAdd(s2, factor, summand), s3 = hn::MulAdd(s3, factor, summand);
        s4 = hn::MulAdd(s4, factor, summand), s5 = hn::MulAdd(s5, factor, summand);
        s6 = hn::MulAdd(s6, factor, summand), s7 = hn::MulAdd(s7, factor, summand);
        s8 = hn::MulAdd(s8, factor, summand), s9 = hn::MulAdd(s9, factor, summand);
        s10 = hn::MulAdd(s10, factor, summand), s11 = hn::MulAdd(s11, factor, summand);
    }
    s0 = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
    s6 = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
    sink = hn::GetLane(hn::Add(s0, s6));
    return 2.0 * static_cast<double>(kChains * hn::Lanes(lanes) * rounds);
}

using I32 = hn::ScalableTag<std::int32_t>;
using I32s = hn::Vec<I32>;

#if HEDDLE_HAS_BYTE_PRODUCTS
/// sum + products of bytes of a (unsigned) and b (signed), four to a lane, as kernels have them.
template <class Products>
struct FourBytes {
    static constexpr std::size_t kPerLane = 4;

    static HWY_INLINE I32s add(I32s sum, I32s a, I32s b) {
        auto bytes = hn::BitCast(hn::ScalableTag<std::uint8_t>(), a);
        // The same product each time: the compiler must not know.
#if HWY_ARCH_X86
        asm volatile("" : "+x"(bytes.raw));
#else
        asm volatile("" : "+w"(bytes.raw));
#endif
        return Products::multiply_add(bytes, b, sum);
    }
};
#else
/// What is left without instructions for bytes: one product in 32 bits.
struct OneWord {
    static constexpr std::size_t kPerLane = 1;

    static HWY_INLINE I32s add(I32s sum, I32s a, I32s b) { return hn::Add(hn::Mul(sum, b), a); }
};
#endif

template <class Step>
double dot_by(std::size_t rounds, float& sink) {
    const I32 lanes;
    // Different ones, or the compiler sees that one chain is enough.
    auto s0 = hn::Set(lanes, 0), s1 = hn::Set(lanes, 1), s2 = hn::Set(lanes, 2);
    auto s3 = hn::Set(lanes, 3), s4 = hn::Set(lanes, 4), s5 = hn::Set(lanes, 5);
    auto s6 = hn::Set(lanes, 6), s7 = hn::Set(lanes, 7), s8 = hn::Set(lanes, 8);
    auto s9 = hn::Set(lanes, 9), s10 = hn::Set(lanes, 10), s11 = hn::Set(lanes, 11);
    const auto a = hn::Set(lanes, 0x01020304), b = hn::Set(lanes, 0x01ff01ff);
    for (std::size_t i = 0; i < rounds; ++i) {
        s0 = Step::add(s0, a, b), s1 = Step::add(s1, a, b), s2 = Step::add(s2, a, b);
        s3 = Step::add(s3, a, b), s4 = Step::add(s4, a, b), s5 = Step::add(s5, a, b);
        s6 = Step::add(s6, a, b), s7 = Step::add(s7, a, b), s8 = Step::add(s8, a, b);
        s9 = Step::add(s9, a, b), s10 = Step::add(s10, a, b), s11 = Step::add(s11, a, b);
    }
    s0 = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
    s6 = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
    sink = static_cast<float>(hn::GetLane(hn::Add(s0, s6)));
    return 2.0 * static_cast<double>(kChains * Step::kPerLane * hn::Lanes(lanes) * rounds);
}

double dot_i8(std::size_t rounds, float& sink) {
#if HEDDLE_HAS_BYTE_PRODUCTS
    namespace products = heddle::cpu::HWY_NAMESPACE;
    return products::with_best_products<127>(
        [&](auto best) { return dot_by<FourBytes<decltype(best)>>(rounds, sink); });
#else
    return dot_by<OneWord>(rounds, sink);
#endif
}

/// Four places at a time: the processor then fetches further ahead than along a single row.
void read(const std::byte* data, std::size_t size, float& sink) {
    const hn::ScalableTag<std::uint64_t> lanes;
    const auto* words = reinterpret_cast<const std::uint64_t*>(data);
    const std::size_t step = hn::Lanes(lanes), quarter = size / sizeof(std::uint64_t) / 4;
    auto s0 = hn::Zero(lanes), s1 = s0, s2 = s0, s3 = s0;
    for (std::size_t i = 0; i + step <= quarter; i += step) {
        s0 = hn::Xor(s0, hn::LoadU(lanes, words + i));
        s1 = hn::Xor(s1, hn::LoadU(lanes, words + quarter + i));
        s2 = hn::Xor(s2, hn::LoadU(lanes, words + 2 * quarter + i));
        s3 = hn::Xor(s3, hn::LoadU(lanes, words + 3 * quarter + i));
    }
    sink = static_cast<float>(hn::GetLane(hn::Xor(hn::Xor(s0, s1), hn::Xor(s2, s3))) & 0xff);
}

const char* name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace heddle::tool::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::tool::bench {
namespace {
HWY_EXPORT(fma_f32);
HWY_EXPORT(dot_i8);
HWY_EXPORT(read);
HWY_EXPORT(name);

/// Results go where the compiler must believe that they are looked at. Where there is a single
/// instruction set it sees the kernels, and would leave all of them out otherwise.
void keep(float value) {
    [[maybe_unused]] thread_local volatile float kept;
    kept = value;
}

}  // namespace

double multiply_add_f32(std::size_t rounds) {
    float sink = 0;
    const double done = HWY_DYNAMIC_DISPATCH(fma_f32)(rounds, sink);
    keep(sink);
    return done;
}

double multiply_add_i8(std::size_t rounds) {
    float sink = 0;
    const double done = HWY_DYNAMIC_DISPATCH(dot_i8)(rounds, sink);
    keep(sink);
    return done;
}

void read_all(const std::byte* data, std::size_t size) {
    float sink = 0;
    HWY_DYNAMIC_DISPATCH(read)(data, size, sink);
    keep(sink);
}

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(name)(); }

}  // namespace heddle::tool::bench
#endif
