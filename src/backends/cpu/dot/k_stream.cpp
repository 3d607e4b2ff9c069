#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_stream.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backends/cpu/dot/k_stream_formats.hpp"

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

/// The sum of all pairs of a block, whose codes are so small that it fits into 16 bits.
template <class Format, int kVector = 0>
HWY_INLINE hn::Vec<PairLanes> sum_pairs(const std::byte* from, const ColumnBlock& column) {
    const auto pairs = multiply_pairs(Format::template codes<kVector>(from),
                                      load_column(column.codes + kVector * kBytes));
    if constexpr (kVector + 1 < kVectors) {
        return hn::Add(pairs, sum_pairs<Format, kVector + 1>(from, column));
    } else {
        return pairs;
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
        if constexpr (Format::kGroup == QK_K) {
            const auto sum = Products::add_scaled(sum_pairs<Format>(from, column),
                                                  hn::Set(PairLanes(), 1), hn::Zero(WordLanes()));
            add(from, column, sum, SixteenWords(hn::Set(Codes(), 1)));
        } else {
            HWY_ALIGN std::int16_t scales[16];
            const SixteenWords below = Format::put_scales(from, scales);
            auto sum = hn::Zero(WordLanes());
            add_vectors<Format, Products>(from, column, scales, sum);
            add(from, column, sum, below);
        }
    }

    HWY_INLINE float get() const {
        constexpr float kFactor = kHasMinima ? 1 : Format::kOffset;
        return hn::GetLane(hn::SumOfLanes(FloatLanes(), total)) -
               kFactor * hn::GetLane(hn::SumOfLanes(Parts(), rest));
    }

private:
    HWY_INLINE void add(const std::byte* from, const ColumnBlock& column, hn::Vec<WordLanes> sum,
                        SixteenWords below) {
        const auto units = hn::Mul(units_of(from), hn::Set(Quad(), column.scale));
        const auto d = hn::Set(FloatLanes(), hn::GetLane(units));
        total = hn::MulAdd(hn::ConvertTo(FloatLanes(), sum), d, total);
        if constexpr (kHasMinima || Format::kOffset != 0) {
            const float unit = hn::GetLane(kHasMinima ? hn::Broadcast<1>(units) : units);
            rest = hn::MulAdd(below.multiply(column.sums), hn::Set(Parts(), unit), rest);
        }
    }

    /// The unit of the scales, and behind it that of the minima.
    static HWY_INLINE hn::Vec<Quad> units_of(const std::byte* from) {
        using Number = std::conditional_t<kHasMinima, std::uint32_t, std::uint16_t>;
        return four_halves(read<Number>(from + offsetof(Block, d)));
    }
};

template <class Format, class Products>
void stream(const Panel& panel, Turns turns, const std::byte* column, float* out) {
    const auto* columns = reinterpret_cast<const ColumnBlock*>(column);
    const std::int64_t count = panel.depth / QK_K;
    for_rows_in_thirds(panel, turns, [&](const RowsInThirds& rows) HWY_ATTR {
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
    if (type == GGML_TYPE_TQ1_0) return kernel<StreamTq1>();
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
