#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/k_formats.hpp"

/// Super-blocks of evenly spaced levels (and iq4_xs), multiplied by q8_K.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns k_dot(Type) { return nullptr; }
DecodeRow k_decode(Type) { return nullptr; }

#else
namespace {

struct Tq1 {
    using Block = block_tq1_0;
    static constexpr bool kHasMinima = false;

    /// Trit n of byte j is element j + kBytes * n: the digit that comes above the point when the
    /// byte, a fraction of 256 in base three, has been multiplied by 3^n.
    template <int kBytes, int kDigits>
    static HWY_INLINE void unpack_trits(const std::byte* bytes, std::int16_t* HWY_RESTRICT to) {
        constexpr std::uint8_t kPower[5] = {1, 3, 9, 27, 81};
        std::uint8_t packed[kBytes];
        std::memcpy(packed, bytes, sizeof packed);
        for (int n = 0; n < kDigits; ++n) {
            for (int j = 0; j < kBytes; ++j) {
                const auto rest = static_cast<std::uint8_t>(packed[j] * kPower[n]);
                const int trit = static_cast<std::uint16_t>(rest * 3) >> 8;
                to[kBytes * n + j] = static_cast<std::int16_t>(trit - 1);
            }
        }
    }

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from + offsetof(Block, d));
        unpack_trits<32, 5>(from + offsetof(Block, qs), to.codes);
        unpack_trits<16, 5>(from + offsetof(Block, qs) + 32, to.codes + 160);
        unpack_trits<4, 4>(from + offsetof(Block, qh), to.codes + 240);
    }
};

constexpr DotEntry kEntries[] = {
    {GGML_TYPE_Q2_K, dot_super_columns<Q2K>},
    {GGML_TYPE_Q3_K, dot_super_columns<Q3K>},
    {GGML_TYPE_Q4_K, dot_super_columns<Q4K>},
    {GGML_TYPE_Q5_K, dot_super_columns<Q5K>},
    {GGML_TYPE_Q6_K, dot_super_columns<Q6K>},
    {GGML_TYPE_IQ4_XS, dot_super_columns<Iq4Xs>},
    {GGML_TYPE_TQ1_0, dot_super_columns<Tq1>, decode_super<Tq1>},
    {GGML_TYPE_TQ2_0, dot_super_columns<Tq2>},
};

}  // namespace

DotColumns k_dot(Type type) { return find_dot(kEntries, type); }
DecodeRow k_decode(Type type) { return find_decode(kEntries, type); }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(k_dot);
HWY_EXPORT(k_decode);

DotColumns k_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_dot)(type); }
DecodeRow k_decode_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_decode)(type); }

}  // namespace heddle::cpu
#endif
