#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_stream.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backends/cpu/dot/levels.hpp"
#include "backends/cpu/dot/stream_lanes.hpp"

/// Super-blocks, as many bytes at once as a vector has. Their scales are whole numbers, so a
/// block's sum is one too, and exact; floats come in once per block.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_BYTE_PRODUCTS

StreamKernel k_stream(Type) { return {}; }

#else
namespace {

constexpr int kVectors = QK_K / kBytes;  ///< of a super-block

/// The column for a super-block.
struct ColumnBlock {
    std::int8_t codes[QK_K];       ///< in the order in which the format unpacks its own
    std::int16_t sums[QK_K / 16];  ///< of codes, one for each scale; if there are 8, the upper 8
    float scale;
    float padding[7];
};
static_assert(sizeof(ColumnBlock) % 64 == 0 && sizeof(ColumnBlock) <= 2 * QK_K);

using EightWords = hn::FixedTag<std::int16_t, 8>;

/// Sixteen whole numbers of a super-block, from bytes.
#if HWY_MAX_BYTES >= 32
class SixteenWords {
public:
    using Parts = hn::FixedTag<float, 8>;

    template <class V>
    HWY_INLINE explicit SixteenWords(V bytes) : all_(hn::PromoteTo(Words(), bytes)) {}

    HWY_INLINE void store(std::int16_t* to) const { hn::Store(all_, Words(), to); }

    /// In parts, the sum of the products with others.
    HWY_INLINE hn::Vec<Parts> multiply(const std::int16_t* others) const {
        const hn::FixedTag<std::int32_t, 8> sums;
        auto rest = hn::Zero(sums);
        return hn::ConvertTo(Parts(),
                             hn::ReorderWidenMulAccumulate(sums, all_, hn::LoadU(Words(), others),
                                                           hn::Zero(sums), rest));
    }

private:
    using Words = hn::FixedTag<std::int16_t, 16>;
    hn::Vec<Words> all_;
};
#else
class SixteenWords {
public:
    using Parts = Quad;

    template <class V>
    HWY_INLINE explicit SixteenWords(V bytes)
        : low_(hn::PromoteTo(EightWords(), hn::LowerHalf(hn::Half<hn::DFromV<V> >(), bytes))),
          high_(hn::PromoteTo(EightWords(), hn::UpperHalf(hn::Half<hn::DFromV<V> >(), bytes))) {}

    HWY_INLINE void store(std::int16_t* to) const {
        hn::Store(low_, EightWords(), to);
        hn::Store(high_, EightWords(), to + 8);
    }

    HWY_INLINE hn::Vec<Parts> multiply(const std::int16_t* others) const {
        const hn::FixedTag<std::int32_t, 4> sums;
        auto rest = hn::Zero(sums);
        auto sum = hn::ReorderWidenMulAccumulate(sums, low_, hn::LoadU(EightWords(), others),
                                                 hn::Zero(sums), rest);
        sum = hn::ReorderWidenMulAccumulate(sums, high_, hn::LoadU(EightWords(), others + 8), sum,
                                            rest);
        return hn::ConvertTo(Parts(), hn::Add(sum, rest));
    }

private:
    hn::Vec<EightWords> low_, high_;
};
#endif

HWY_INLINE SixteenWords stored(SixteenWords words, std::int16_t* to) {
    words.store(to);
    return words;
}

HWY_INLINE hn::Vec<Bytes> two_words(std::uint64_t low, std::uint64_t high) {
    const hn::FixedTag<std::uint64_t, 1> one;
    const hn::FixedTag<std::uint64_t, 2> two;
    return hn::BitCast(Bytes(), hn::Combine(two, hn::Set(one, high), hn::Set(one, low)));
}

// ---- formats -----------------------------------------------------------------------------------
// Each has vectors of codes, the elements that are in them, and a scale for `kGroup` elements,
// which `put_scales` stores. What codes have too much is a minimum for each group, or `kOffset`
// times its scale: `put_scales` returns what the sums of the column's groups are to be multiplied
// with. With 8 groups these are the upper 8.

/// Bits that lie in planes of 32 bytes, each `kStep` bits above the one before: those of elements
/// from `kPlace` on, the lowest of each at bit `kBit`. The caller masks off what else is there.
template <int kStep, int kPlace, int kBit>
HWY_INLINE hn::Vec<ByteLanes> planes(const std::byte* from) {
    constexpr int kShift = kStep * (kPlace / 32) - kBit;
#if HWY_MAX_BYTES >= 64
    const hn::FixedTag<std::uint8_t, 32> plane;
    const auto bits = hn::LoadU(plane, reinterpret_cast<const std::uint8_t*>(from));
    const auto next = shifted_right<kStep>(plane, bits);
    return shifted_right<kShift>(ByteLanes(), hn::Combine(ByteLanes(), next, bits));
#else
    return shifted_right<kShift>(ByteLanes(), load_lanes(from + kPlace % 32));
#endif
}

/// Pairs of bits, those of 128 elements in 32 bytes.
template <int kVector>
HWY_INLINE hn::Vec<ByteLanes> bit_pairs(const std::byte* from) {
    constexpr int kPlace = kVector * kBytes;
    return hn::And(planes<2, kPlace % 128, 0>(from + kPlace / 128 * 32), hn::Set(ByteLanes(), 3));
}

/// Of one vector of bytes after the other the low nibbles, then the high ones.
template <int kVector>
HWY_INLINE hn::Vec<ByteLanes> nibbles(const std::byte* from) {
    const auto bytes = load_lanes(from + kVector / 2 * kBytes);
    return kVector % 2 == 0 ? hn::And(bytes, hn::Set(ByteLanes(), 15)) : hn::ShiftRight<4>(bytes);
}

/// The element at a place of such nibbles. `run` bytes hold as many elements in their low nibbles,
/// and the next ones in their high nibbles.
constexpr int element_of_nibbles(int place, int run) {
    const int vector = place / (2 * kBytes), high = place / kBytes % 2, lane = place % kBytes;
    const int byte = vector * kBytes + lane;
    return 2 * run * (byte / run) + run * high + byte % run;
}

/// Bytes before those of a vector of nibbles.
constexpr int nibble_bytes(int vector) { return vector / 2 * kBytes; }

struct StreamQ2K {
    using Block = block_q2_K;
    static constexpr int kGroup = 16, kOffset = 0;
    static constexpr int element(int place) { return place; }

    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        const auto bytes = load_bytes(from + offsetof(Block, scales));
        SixteenWords(hn::And(bytes, hn::Set(Bytes(), 15))).store(to);
        return SixteenWords(hn::ShiftRight<4>(bytes));
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        return bit_pairs<kVector>(from + offsetof(Block, qs));
    }
};

struct StreamQ3K {
    using Block = block_q3_K;
    static constexpr int kGroup = 16, kOffset = 4;
    static constexpr int element(int place) { return place; }

    /// Six bits each: nibbles, and under them pairs of bits.
    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        const auto four = read<std::uint64_t>(from + offsetof(Block, scales));
        const std::uint64_t two = read<std::uint32_t>(from + offsetof(Block, scales) + 8);
        constexpr std::uint64_t kFour = 0x0f0f0f0f0f0f0f0f, kTwo = 0x3030303030303030;
        const std::uint64_t low = (four & kFour) | ((two << 4 | two << 34) & kTwo);
        const std::uint64_t high = (four >> 4 & kFour) | ((two | two >> 2 << 32) & kTwo);
        const auto scales = as_codes(two_words(low, high));
        return stored(SixteenWords(hn::Sub(scales, hn::Set(Codes(), 32))), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        const auto high = planes<1, kVector * kBytes, 2>(from + offsetof(Block, hmask));
        return hn::OrAnd(bit_pairs<kVector>(from + offsetof(Block, qs)), high,
                         hn::Set(ByteLanes(), 4));
    }
};

/// The six-bit scales and minima of q4_K and q5_K.
HWY_INLINE SixteenWords put_six_bits(const std::byte* from, std::int16_t* to) {
    const auto a = read<std::uint32_t>(from), b = read<std::uint32_t>(from + 4);
    const auto c = read<std::uint32_t>(from + 8);
    constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x30303030;
    const std::uint64_t scales = (c & kFour) | (a >> 2 & kTwo);
    const std::uint64_t minima = (c >> 4 & kFour) | (b >> 2 & kTwo);
    return stored(SixteenWords(two_words(scales << 32 | (a & kSix), minima << 32 | (b & kSix))),
                  to);
}

struct StreamQ4K {
    using Block = block_q4_K;
    static constexpr int kGroup = 32, kOffset = 0;
    static constexpr int element(int place) { return element_of_nibbles(place, 32); }

    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        return put_six_bits(from + offsetof(Block, scales), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        return nibbles<kVector>(from + offsetof(Block, qs));
    }
};

struct StreamQ5K {
    using Block = block_q5_K;
    static constexpr int kGroup = 32, kOffset = 0;
    static constexpr int element(int place) { return element_of_nibbles(place, 32); }

    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        return put_six_bits(from + offsetof(Block, scales), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        const auto high =
            planes<2, nibble_bytes(kVector), 4 - kVector % 2>(from + offsetof(Block, qh));
        return hn::OrAnd(nibbles<kVector>(from + offsetof(Block, qs)), high,
                         hn::Set(ByteLanes(), 16));
    }
};

struct StreamQ6K {
    using Block = block_q6_K;
    static constexpr int kGroup = 16, kOffset = 32;
    static constexpr int element(int place) { return element_of_nibbles(place, 64); }

    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        const auto scales = load_codes(from + offsetof(Block, scales));
        return stored(SixteenWords(scales), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        constexpr int kByte = nibble_bytes(kVector);
        const std::byte* pairs = from + offsetof(Block, qh) + kByte / 64 * 32;
        const auto high = planes<2, kByte % 64 + kVector % 2 * 64, 4>(pairs);
        return hn::OrAnd(nibbles<kVector>(from + offsetof(Block, ql)), high,
                         hn::Set(ByteLanes(), 0x30));
    }
};

/// Codes are signed here.
struct StreamIq4Xs {
    using Block = block_iq4_xs;
    static constexpr int kGroup = 32, kOffset = 0;
    static constexpr int element(int place) { return element_of_nibbles(place, 16); }

    /// Nibbles and pairs of bits, spread over bytes by halving distances.
    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        std::uint64_t four = read<std::uint32_t>(from + offsetof(Block, scales_l));
        std::uint64_t two = read<std::uint16_t>(from + offsetof(Block, scales_h));
        four = (four | four << 16) & 0x0000ffff0000ffff;
        four = (four | four << 8) & 0x00ff00ff00ff00ff;
        four = (four | four << 4) & 0x0f0f0f0f0f0f0f0f;
        two = (two | two << 24) & 0x000000ff000000ff;
        two = (two | two << 12) & 0x000f000f000f000f;
        two = (two | two << 6) & 0x0303030303030303;
        const auto scales = as_codes(two_words(four | two << 4, 0));
        return stored(SixteenWords(hn::Sub(scales, hn::Set(Codes(), 32))), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<CodeLanes> codes(const std::byte* from) {
        return look_up_lanes(kNonlinearLevels, nibbles<kVector>(from + offsetof(Block, qs)));
    }
};

struct StreamTq2 {
    using Block = block_tq2_0;
    static constexpr int kGroup = 16, kOffset = 1;
    static constexpr int element(int place) { return place; }

    static HWY_INLINE SixteenWords put_scales(const std::byte*, std::int16_t* to) {
        return stored(SixteenWords(hn::Set(Codes(), 1)), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        return bit_pairs<kVector>(from + offsetof(Block, qs));
    }
};

// ---- sums --------------------------------------------------------------------------------------

/// Which of the eight scales from `first` on belongs to each lane of a vector, as bytes of words.
template <class Format>
struct Lookup {
    HWY_ALIGN std::uint8_t order[kVectors][kBytes] = {};

    constexpr Lookup() {
        for (int place = 0; place < QK_K; ++place) {
            const int group = Format::element(place / 16 * 16) / Format::kGroup % 8;
            order[place / kBytes][place % kBytes] =
                static_cast<std::uint8_t>(2 * group + place % 2);
        }
    }

    static constexpr int first(int vector) {
        return Format::element(vector * kBytes) / Format::kGroup / 8 * 8;
    }
};

template <class Format>
constexpr Lookup<Format> kLookup;

template <class Format, class Products, int kVector = 0>
HWY_INLINE void add_vectors(const std::byte* from, const ColumnBlock& column,
                            const std::int16_t* scales, hn::Vec<WordLanes>& sum) {
    if constexpr (kVector < kVectors) {
        const auto eight = hn::LoadDup128(PairLanes(), scales + Lookup<Format>::first(kVector));
        const auto order = hn::Load(ByteLanes(), kLookup<Format>.order[kVector]);
        const auto pairs = multiply_pairs(Format::template codes<kVector>(from),
                                          load_column(column.codes + kVector * kBytes));
        sum = Products::add_scaled(
            pairs, hn::TableLookupBytes(eight, hn::BitCast(PairLanes(), order)), sum);
        add_vectors<Format, Products, kVector + 1>(from, column, scales, sum);
    }
}

/// A row's sum: of products, and of what codes have too much.
template <class Format, class Products>
struct RowSum {
    using Block = typename Format::Block;
    using Parts = SixteenWords::Parts;
    static constexpr bool kHasMinima = requires { &Block::dmin; };

    hn::Vec<FloatLanes> total;
    hn::Vec<Parts> rest;

    HWY_INLINE RowSum() : total(hn::Zero(FloatLanes())), rest(hn::Zero(Parts())) {}

    HWY_INLINE void add(const std::byte* from, const ColumnBlock& column) {
        HWY_ALIGN std::int16_t scales[16];
        const SixteenWords below = Format::put_scales(from, scales);
        auto sum = hn::Zero(WordLanes());
        add_vectors<Format, Products>(from, column, scales, sum);
        const auto units = hn::Mul(units_of(from), hn::Set(Quad(), column.scale));
        const auto d = hn::Set(FloatLanes(), hn::GetLane(units));
        total = hn::MulAdd(hn::ConvertTo(FloatLanes(), sum), d, total);
        if constexpr (kHasMinima || Format::kOffset != 0) {
            const float unit = hn::GetLane(kHasMinima ? hn::Broadcast<1>(units) : units);
            rest = hn::MulAdd(below.multiply(column.sums), hn::Set(Parts(), unit), rest);
        }
    }

    HWY_INLINE float get() const {
        constexpr float kFactor = kHasMinima ? 1 : Format::kOffset;
        return hn::GetLane(hn::SumOfLanes(FloatLanes(), total)) -
               kFactor * hn::GetLane(hn::SumOfLanes(Parts(), rest));
    }

private:
    /// The unit of the scales, and behind it that of the minima.
    static HWY_INLINE hn::Vec<Quad> units_of(const std::byte* from) {
        using Number = std::conditional_t<kHasMinima, std::uint32_t, std::uint16_t>;
        return four_halves(read<Number>(from + offsetof(Block, d)));
    }
};

template <class Format, class Products>
void stream(const Panel& panel, const std::byte* column, float* out) {
    const auto* columns = reinterpret_cast<const ColumnBlock*>(column);
    const std::int64_t count = panel.depth / QK_K;
    for_rows_in_thirds(panel, [&](const RowsInThirds& rows) HWY_ATTR {
        const std::byte *row0 = rows.row[0], *row1 = rows.row[1], *row2 = rows.row[2];
        RowSum<Format, Products> sum0, sum1, sum2;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::size_t block = static_cast<std::size_t>(i) * sizeof(typename Format::Block);
            sum0.add(row0 + block, columns[i]);
            sum1.add(row1 + block, columns[i]);
            sum2.add(row2 + block, columns[i]);
        }
        out[rows.at[0]] = sum0.get();
        out[rows.at[1]] = sum1.get();
        out[rows.at[2]] = sum2.get();
    });
}

template <class Format>
void arrange(const void* from, std::int64_t depth, std::byte* to) {
    const auto* block = static_cast<const std::byte*>(from);
    auto* column = reinterpret_cast<ColumnBlock*>(to);
    for (std::int64_t i = 0; i < depth; i += QK_K, block += sizeof(block_q8_K), ++column) {
        column->scale = read<float>(block + offsetof(block_q8_K, d));
        const std::byte* codes = block + offsetof(block_q8_K, qs);
        for (int place = 0; place < QK_K; place += 16) {  // sixteens stay together
            std::memcpy(column->codes + place, codes + Format::element(place), 16);
        }
        const std::byte* sums = block + offsetof(block_q8_K, bsums);
        std::fill_n(column->sums, 16, std::int16_t{0});
        std::int16_t* to_sums = column->sums + 16 - QK_K / Format::kGroup;
        for (int group = 0; group < QK_K / Format::kGroup; ++group) {
            int sum = 0;
            for (int part = 0; part < Format::kGroup / 16; ++part, sums += 2) {
                sum += read<std::int16_t>(sums);
            }
            to_sums[group] = static_cast<std::int16_t>(sum);
        }
    }
}

template <class Format>
StreamKernel kernel() {
#if HEDDLE_HAS_FUSED_BYTES && HWY_ARCH_X86
    if (FusedBytes::is_there()) {
        return {.arrange = arrange<Format>,
                .multiply = stream<Format, FusedPairs>,
                .most_columns = kMostFusedColumns};
    }
#endif
    return {.arrange = arrange<Format>,
            .multiply = stream<Format, Pairs>,
            .most_columns = kMostStreamColumns};
}

}  // namespace

StreamKernel k_stream(Type type) {
    if (type == GGML_TYPE_Q2_K) return kernel<StreamQ2K>();
    if (type == GGML_TYPE_Q3_K) return kernel<StreamQ3K>();
    if (type == GGML_TYPE_Q4_K) return kernel<StreamQ4K>();
    if (type == GGML_TYPE_Q5_K) return kernel<StreamQ5K>();
    if (type == GGML_TYPE_Q6_K) return kernel<StreamQ6K>();
    if (type == GGML_TYPE_IQ4_XS) return kernel<StreamIq4Xs>();
    if (type == GGML_TYPE_TQ2_0) return kernel<StreamTq2>();
    return {};
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(k_stream);

StreamKernel k_stream_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_stream)(type); }

}  // namespace heddle::cpu
#endif
