#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/gemv_grid.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/formats/grid.hpp"
#include "quant/codebooks.hpp"
#include "simd/look_up.hpp"
#include "simd/opaque.hpp"

/// Formats that name rows of a codebook. Looking these up is most of the work, so all else is done
/// for a whole super-block at once.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_BYTE_PRODUCTS

GemvKernel gemv_grid(Type) { return {}; }

#else
namespace {

constexpr int kVectors = QK_K / kBytes;  ///< of a super-block

/// The column for a super-block.
struct ColumnBlock {
    std::int8_t codes[QK_K];
    std::int16_t sums[QK_K / 8];  ///< of codes, one for each offset of a row
    float scale;
    float padding[15];
};
static_assert(sizeof(ColumnBlock) % 64 == 0 && sizeof(ColumnBlock) <= 2 * QK_K);

// ---- sums --------------------------------------------------------------------------------------

/// Sixteen bytes of rows of the codebook, from element `kFirst` of a super-block on.
template <class Format, int kFirst>
HWY_INLINE hn::Vec<Bytes> look_up_sixteen(const std::int8_t* book, const std::byte* from,
                                          const UnpackedBlock& unpacked) {
    constexpr int kElements = Format::kRowElements;
    const auto row = [&](int i) HWY_ATTR {
        const unsigned number = Format::row(from, unpacked, kFirst / kElements + i);
        return book + std::size_t{number} * kElements;
    };
    return join_rows<kElements>(row);
}

/// A vector of them.
template <class Format, int kFirst, int kCount = kBytes>
HWY_INLINE auto look_up_rows(const std::int8_t* book, const std::byte* from,
                             const UnpackedBlock& unpacked) {
    if constexpr (kCount == 16) {
        return look_up_sixteen<Format, kFirst>(book, from, unpacked);
    } else {
        constexpr int kHalf = kCount / 2;
        const auto low = look_up_rows<Format, kFirst, kHalf>(book, from, unpacked);
        const auto high = look_up_rows<Format, kFirst + kHalf, kHalf>(book, from, unpacked);
        return hn::Combine(hn::FixedTag<std::uint8_t, kCount>(), high, low);
    }
}

/// A column's codes, negative where bits are set.
HWY_INLINE hn::Vec<CodeLanes> with_signs_at(hn::Vec<CodeLanes> column, const std::uint8_t* bits) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    return negated(column, read<std::uint64_t>(reinterpret_cast<const std::byte*>(bits)));
#else
    alignas(16) static constexpr std::uint8_t kOrder[32] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1,
                                                            1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2,
                                                            2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
    using Word = std::conditional_t<kBytes == 32, std::uint32_t, std::uint16_t>;
    const hn::ScalableTag<Word> words;
    const auto all = hn::Set(words, read<Word>(reinterpret_cast<const std::byte*>(bits)));
    const auto spread =
        hn::TableLookupBytes(hn::BitCast(ByteLanes(), all), hn::LoadU(ByteLanes(), kOrder));
    const auto negative = where_bits(spread, each_bit(ByteLanes()), 255);
    return hn::Sub(hn::Xor(column, negative), negative);
#endif
}

/// The scales of a vector, each in as many lanes as it counts for.
template <class Format>
HWY_INLINE hn::Vec<PairLanes> scales_at(const std::int16_t* from) {
    if constexpr (kBytes == 16) {
        return hn::Set(PairLanes(), *from);
    } else {
        using Some = std::conditional_t<kBytes == 64, std::uint64_t, std::uint32_t>;
        const hn::ScalableTag<Some> some;
        const auto all = hn::BitCast(
            PairLanes(), hn::Set(some, read<Some>(reinterpret_cast<const std::byte*>(from))));
        if constexpr (kBytes <= Format::kGroup) return all;  // all the same
        HWY_ALIGN static constexpr std::uint8_t kOrder[64] = {
            0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3,
            2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5,
            4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7, 6, 7, 6, 7, 6, 7, 6, 7};
        const auto order = hn::BitCast(PairLanes(), hn::Load(ByteLanes(), kOrder));
        return hn::TableLookupBytes(all, order);
    }
}

/// Block `i` of each of a few columns.
template <class Format, class Products, int kVector = 0, int kColumns>
HWY_INLINE void add_vectors(const std::int8_t* book, const std::byte* from,
                            const UnpackedBlock& unpacked,
                            const ColumnBlock* const (&columns)[kColumns], std::int64_t i,
                            ColumnSums<WordLanes, kColumns>& sums) {
    if constexpr (kVector < kVectors) {
        constexpr int kFirst = kVector * kBytes;
        hn::Vec<ByteLanes> codes = look_up_rows<Format, kFirst>(book, from, unpacked);
        if constexpr (!Format::kHasSigns) codes = hn::Add(codes, hn::Set(ByteLanes(), 1));
        const auto scales = scales_at<Format>(unpacked.scales + kFirst / 16);
        for (int c = 0; c < kColumns; ++c) {
            auto others = load_column(columns[c][i].codes + kFirst);
            if constexpr (Format::kHasSigns) {
                others = with_signs_at(others, Format::signs(from, unpacked) + kFirst / 8);
            }
            sums[c] = Products::add_scaled(multiply_bytes(codes, others), scales, sums[c]);
        }
        add_vectors<Format, Products, kVector + 1>(book, from, unpacked, columns, i, sums);
    }
}

/// Products of a row with a few columns.
template <class Format, class Products, int kColumns>
struct RowSums {
    using Part = hn::FixedTag<std::int32_t, 4>;

    ColumnSums<FloatLanes, kColumns> total;
    ColumnSums<Quad, kColumns> rest;

    HWY_INLINE RowSums() {}  // for the instruction set: a default one would not be

    /// Block `i` of each column; `from` is that of the row.
    HWY_INLINE void add(const std::int8_t* book, const std::byte* from,
                        const UnpackedBlock& unpacked,
                        const ColumnBlock* const (&columns)[kColumns], std::int64_t i) {
        ColumnSums<WordLanes, kColumns> sums;
        add_vectors<Format, Products>(book, from, unpacked, columns, i, sums);
        const float own = half_to_float(Format::half(from));
        for (int c = 0; c < kColumns; ++c) {
            const float unit = own * columns[c][i].scale;
            total[c] = hn::MulAdd(hn::ConvertTo(FloatLanes(), sums[c]), hn::Set(FloatLanes(), unit),
                                  total[c]);
            if constexpr (Format::kOffsets > 0) {
                const auto below = multiply_offsets(unpacked.offsets, columns[c][i].sums);
                rest[c] = hn::MulAdd(hn::ConvertTo(Quad(), below), hn::Set(Quad(), unit), rest[c]);
            }
        }
    }

    HWY_INLINE void put(float* const* out, std::int64_t row) const {
        for (int c = 0; c < kColumns; ++c) {
            const float sum = hn::GetLane(hn::SumOfLanes(FloatLanes(), total[c]));
            if constexpr (Format::kOffsets > 0) {  // in units; elements themselves are whole
                const float offsets = hn::GetLane(hn::SumOfLanes(Quad(), rest[c]));
                out[c][row] = sum + Format::kUnit * offsets;
            } else {
                out[c][row] = sum * Format::kUnit;
            }
        }
    }

private:
    static HWY_INLINE hn::Vec<Part> multiply_offsets(const std::int16_t* offsets,
                                                     const std::int16_t* sums) {
        auto even = hn::Zero(Part()), odd = hn::Zero(Part());
        for (int i = 0; i < Format::kOffsets; i += 8) {
            even = hn::ReorderWidenMulAccumulate(Part(), hn::Load(EightCodes(), offsets + i),
                                                 hn::Load(EightCodes(), sums + i), even, odd);
        }
        return hn::Add(even, odd);
    }
};

template <class Format, class Products>
struct Gemv {
    template <int kColumns>
    static void multiply(const MatrixView& view, Turns turns, const std::byte* const* from,
                         float* const* out) {
        const std::int8_t* book = quant::codebook_of(Format::kBook).values.data();
        const ColumnBlock* columns[kColumns];
        for (int c = 0; c < kColumns; ++c)
            columns[c] = reinterpret_cast<const ColumnBlock*>(from[c]);
        const std::int64_t count = view.depth / QK_K;
        for_rows_in_thirds(view, turns, [&](const RowsInThirds& rows) HWY_ATTR {
            const std::byte *row0 = rows.row[0], *row1 = rows.row[1], *row2 = rows.row[2];
            RowSums<Format, Products, kColumns> sums0, sums1, sums2;
            UnpackedBlock unpacked0, unpacked1, unpacked2;
            for (std::int64_t i = 0; i < count; ++i) {
                const std::size_t block =
                    static_cast<std::size_t>(i) * sizeof(typename Format::Block);
                // All are unpacked before the first is used, so that nothing waits for it.
                Format::unpack(row0 + block, unpacked0);
                Format::unpack(row1 + block, unpacked1);
                Format::unpack(row2 + block, unpacked2);
                // Compilers would rather take vectors apart than read what is in memory anyway.
                opaque_memory(unpacked0, unpacked1, unpacked2);
                sums0.add(book, row0 + block, unpacked0, columns, i);
                sums1.add(book, row1 + block, unpacked1, columns, i);
                sums2.add(book, row2 + block, unpacked2, columns, i);
            }
            sums0.put(out, rows.at[0]);
            sums1.put(out, rows.at[1]);
            sums2.put(out, rows.at[2]);
        });
    }
};

template <class Format>
void arrange(const void* from, std::int64_t depth, std::byte* to) {
    const auto* block = static_cast<const std::byte*>(from);
    auto* column = reinterpret_cast<ColumnBlock*>(to);
    for (std::int64_t i = 0; i < depth; i += QK_K, block += sizeof(block_q8_K), ++column) {
        column->scale = read<float>(block + offsetof(block_q8_K, d));
        std::memcpy(column->codes, block + offsetof(block_q8_K, qs), QK_K);
        constexpr int kEach = Format::kOffsets > 0 ? QK_K / Format::kOffsets : QK_K;
        for (int j = 0; j < Format::kOffsets; ++j) {
            int sum = 0;
            for (int k = 0; k < kEach; ++k) sum += column->codes[kEach * j + k];
            column->sums[j] = static_cast<std::int16_t>(sum);
        }
    }
}

template <class Format>
GemvKernel kernel() {
#if HEDDLE_HAS_FUSED_BYTES && HWY_ARCH_X86
    if (FusedBytes::is_there()) {
        return {.arrange = arrange<Format>,
                .multiply = multiply_columns<4, Gemv<Format, FusedPairs> >,
                .most_columns = kMostGemvColumns};
    }
#endif
    return {.arrange = arrange<Format>,
            .multiply = multiply_columns<4, Gemv<Format, Pairs> >,
            .most_columns = kMostGemvColumns};
}

}  // namespace

GemvKernel gemv_grid(Type type) {
    return find_by_type<GemvKernel, Family::grid>(
        type, []<Type kType>() { return kernel<typename BlockFormat<kType>::Gemv>(); });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(gemv_grid);

GemvKernel gemv_grid_of(Type type) { return HWY_DYNAMIC_DISPATCH(gemv_grid)(type); }

}  // namespace heddle::cpu
#endif
