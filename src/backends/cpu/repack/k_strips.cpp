#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/repack/k_strips.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <array>

#include "backends/cpu/repack/families.hpp"
#include "backends/cpu/repack/strips.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_REPACK

RepackKernel k_repack(Type) { return {}; }

#else
namespace {

/// Super-blocks with `kCount` scales for 32 elements.
template <class BlockOfRow, int kCount, bool kMinima, int kLeast, int kMost>
struct SuperBlock {
    using Block = BlockOfRow;
    using Scale = float;
    using Other = block_q8_K;
    static constexpr int kElements = QK_K;
    static constexpr int kGroups = kCount;
    static constexpr bool kHasMinima = kMinima;
    static constexpr int kOffset = kLeast;
    static constexpr int kMostCode = kLeast + kMost;
    static_assert(kMostCode <= 127);
};

HWY_INLINE RowVec to_floats(WordVec words) { return hn::ConvertTo(RowLanes(), words); }

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
/// A byte of each word as halves of it: byte `kByte` as the first, and as the second too if
/// `kTwice`.
template <int kByte, bool kTwice>
HWY_INLINE PairVec spread_byte(WordVec words) {
    constexpr auto kPlaces = [] {
        std::array<std::uint8_t, 16> places{};
        places.fill(0x80);  // zero
        for (std::uint8_t i = 0; i < 16; i += kTwice ? 2 : 4) {
            places[i] = static_cast<std::uint8_t>(i / 4 * 4 + kByte);
        }
        return places;
    };
    HWY_ALIGN static constexpr std::array<std::uint8_t, 16> kOrder = kPlaces();
    const auto order = hn::LoadDup128(ByteLanes(), kOrder.data());
    return hn::BitCast(PairLanes(),
                       hn::TableLookupBytesOr0(hn::BitCast(ByteLanes(), words), order));
}
#endif

/// The scales and minima of q2_K: four bits each, a byte for both.
struct FourBitScales {
    const Place at;
    const int field;
    const RowVec d, dmin;

    HWY_INLINE FourBitScales(const Place& place, int scales)
        : at(place), field(scales), d(at.unit_halves(0)), dmin(at.unit_halves(1)) {}

    template <int kGroup>
    HWY_INLINE RowVec scale() const {
        return hn::Mul(d, to_floats(hn::And(both<kGroup>(), hn::Set(WordLanes(), 15))));
    }
    template <int kGroup>
    HWY_INLINE RowVec minimum() const {
        return hn::Mul(dmin, to_floats(hn::ShiftRight<4>(both<kGroup>())));
    }

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
    template <int kGroup>
    HWY_INLINE PairVec scale_pairs() const {
        return hn::And(spread_byte<0, true>(both<kGroup>()), hn::Set(PairLanes(), 15));
    }
    template <int kGroup>
    HWY_INLINE PairVec minimum_pairs() const {
        return hn::BitCast(PairLanes(), hn::ShiftRight<4>(both<kGroup>()));
    }
#endif

private:
    template <int kGroup>
    HWY_INLINE WordVec both() const {
        return at.template bytes<std::uint8_t>(field, kGroup);
    }
};

template <bool>
struct RepackedQ2K : SuperBlock<block_q2_K, 2, true, 0, 3> {
    static constexpr int kScales = 4, kCodes = 20, kLast = 0;  ///< where fields are

    /// In each half byte j holds elements j, j + 32, j + 64, j + 96.
    template <class Sink>
    static HWY_INLINE void unpack(const Place& at, Sink& sink) {
        const FourBitScales four(at, kScales);
        unrolled<16>([&](auto group) HWY_ATTR {
            constexpr int kHalf = group / 8, kPair = group / 2 % 4, kWord = group % 2 * 4;
            HWY_UNROLL(4)
            for (int u = 0; u < 4; ++u) {
                const auto bytes = at.words(kCodes, 8 * kHalf + kWord + u);
                sink.put(4 * group + u, bits_of<2 * kPair>(bytes, 3));
            }
            sink.end(group, four);
        });
    }
};

/// The scales and minima of q4_K: six bits each, in three words of 4 bytes.
struct SixBitScales {
    WordVec scales[2], minima[2];  ///< four to a word
    RowVec d, dmin;

    HWY_INLINE SixBitScales(const Place& at, int field)
        : d(at.unit_halves(0)), dmin(at.unit_halves(1)) {
        const auto load = [&](int i)
                              HWY_ATTR { return hn::BitCast(WordLanes(), at.words(field, i)); };
        const auto a = load(0), b = load(1), c = load(2);
        const auto six = hn::Set(WordLanes(), 0x3f3f3f3f), four = hn::Set(WordLanes(), 0x0f0f0f0f);
        const auto upper = hn::Set(WordLanes(), 0x30303030);
        scales[0] = hn::And(a, six);
        minima[0] = hn::And(b, six);
        scales[1] = hn::Or(hn::And(c, four), hn::And(hn::ShiftRight<2>(a), upper));
        minima[1] =
            hn::Or(hn::And(hn::ShiftRight<4>(c), four), hn::And(hn::ShiftRight<2>(b), upper));
    }

    template <int kGroup>
    HWY_INLINE RowVec scale() const {
        return hn::Mul(d, to_floats(byte<kGroup % 4>(scales[kGroup / 4])));
    }
    template <int kGroup>
    HWY_INLINE RowVec minimum() const {
        return hn::Mul(dmin, to_floats(byte<kGroup % 4>(minima[kGroup / 4])));
    }

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
    template <int kGroup>
    HWY_INLINE PairVec scale_pairs() const {
        return spread_byte<kGroup % 4, true>(scales[kGroup / 4]);
    }
    template <int kGroup>
    HWY_INLINE PairVec minimum_pairs() const {
        return spread_byte<kGroup % 4, false>(minima[kGroup / 4]);
    }
#endif

private:
    template <int kByte>
    static HWY_INLINE WordVec byte(WordVec words) {
        return hn::And(hn::ShiftRight<8 * kByte>(words), hn::Set(WordLanes(), 255));
    }
};

template <bool>
struct RepackedQ4K : SuperBlock<block_q4_K, 1, true, 0, 15> {
    static constexpr int kScales = 4, kCodes = 16, kLast = 0;

    /// 32 bytes hold elements j and j + 32.
    template <class Sink>
    static HWY_INLINE void unpack(const Place& at, Sink& sink) {
        const SixBitScales six(at, kScales);
        unrolled<8>([&](auto group) HWY_ATTR {
            HWY_UNROLL(8)
            for (int u = 0; u < 8; ++u) {
                const auto bytes = at.words(kCodes, group / 2 * 8 + u);
                sink.put(8 * group + u, bits_of<group % 2 * 4>(bytes, 15));
            }
            sink.end(group, six);
        });
    }
};

}  // namespace

RepackKernel k_repack(Type type) {
    switch (type) {
        case GGML_TYPE_Q2_K:
            return strip_kernel<RepackedQ2K>();
        case GGML_TYPE_Q4_K:
            return strip_kernel<RepackedQ4K>();
        default:
            return {};
    }
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(k_repack);

RepackKernel k_repack_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_repack)(type); }

}  // namespace heddle::cpu
#endif
