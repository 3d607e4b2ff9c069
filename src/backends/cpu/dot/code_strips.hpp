// Strips of codes of 8 bits, multiplied by codes of 8 bits in whole numbers; scales come in once
// for 16 or 32 elements. Included once per instruction set, inside a file that is compiled by
// foreach_target.h.
//
// Codes are made unsigned by adding an offset, which is taken out again through the sums of the
// columns' codes; where products want signed codes, the offset is nought. For 32 elements a strip
// of rows holds
//     codes    [8][rows][4]
//     scales   [groups][rows]   f32
//     minima   [groups][rows]   f32, for formats that have them
// and a strip of columns
//     codes    [8][columns][4], or as the products want them
//     scales   [columns]           f32
//     sums     [groups][columns]   of codes: f32, times the scale, for formats with minima; else
//                                  whole numbers, times the offset, negative
#if defined(HEDDLE_CPU_DOT_CODE_STRIPS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_CODE_STRIPS_HPP
#undef HEDDLE_CPU_DOT_CODE_STRIPS_HPP
#else
#define HEDDLE_CPU_DOT_CODE_STRIPS_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/strip_products.hpp"

#if HEDDLE_HAS_CODE_STRIPS
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Where the parts of 32 elements are, in words of 4 bytes.
template <class Format, class Products>
struct CodeLayout {
    static constexpr std::int64_t kGroups = Format::kGroups;
    static constexpr std::int64_t kScales = 8 * kCodeRows;
    static constexpr std::int64_t kMinima = kScales + kGroups * kCodeRows;
    static constexpr std::int64_t kRowWords =
        kMinima + (Format::kHasMinima ? kGroups * kCodeRows : 0);

    static constexpr std::int64_t kUnit = Products::kWords * kStripWidth;  ///< four codes
    static constexpr std::int64_t kColumnScales = 8 * kUnit;
    static constexpr std::int64_t kColumnSums = kColumnScales + kStripWidth;
    static constexpr std::int64_t kColumnWords = kColumnSums + kGroups * kStripWidth;

    static constexpr int kOffset = Products::kTakesSigned ? 0 : Format::kOffset;
};

// ---- making strips -----------------------------------------------------------------------------

using FloatLanes = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatLanes>;

/// A half of each row.
HWY_INLINE FloatVec load_halves(StripRows rows) {
    HWY_ALIGN F16 halves[kCodeRows];
    for (std::int64_t r = 0; r < kCodeRows; ++r) {
        halves[r].bits = read<std::uint16_t>(rows.row(r));
    }
    return load_f32(FloatLanes(), halves);
}

/// Puts a piece of all rows of a strip into its place.
template <class Format, class Products>
class CodePacker {
    using Layout = CodeLayout<Format, Products>;

public:
    static constexpr std::int64_t kElements = 256;

    explicit CodePacker(std::byte* strip) : strip_(reinterpret_cast<std::uint32_t*>(strip)) {}

    /// `count` elements of each row, in whole blocks.
    HWY_INLINE void pack(StripRows rows, std::int64_t count) {
        format_.put_scales(rows, count, *this);
        for (int part = 0; part < Format::parts(count); ++part) pack_part(rows, part);
        strip_ += count / 32 * Layout::kRowWords;
    }

    // Of part `group` of all rows.
    HWY_INLINE void put_scales(int group, FloatVec scales) { put(Layout::kScales, group, scales); }
    HWY_INLINE void put_minima(int group, FloatVec minima) { put(Layout::kMinima, group, minima); }

private:
    HWY_INLINE void put(std::int64_t place, int group, FloatVec values) {
        std::uint32_t* to = strip_ + group / Layout::kGroups * Layout::kRowWords + place +
                            group % Layout::kGroups * kCodeRows;
        hn::StoreU(values, FloatLanes(), reinterpret_cast<float*>(to));
    }

    HWY_INLINE void pack_part(StripRows rows, int part) {
        const auto offset = hn::Set(ByteLanes(), Layout::kOffset);
        WordVec codes[4][Format::kSlots];
        HWY_UNROLL(4)
        for (int k = 0; k < 4; ++k) {
            format_.codes(RowBlocks(rows, k), part, [&](int slot, auto values) HWY_ATTR {
                const auto bytes = hn::Add(hn::BitCast(ByteLanes(), values), offset);
                codes[k][slot] = hn::BitCast(WordLanes(), bytes);
            });
        }
        for (int slot = 0; slot < Format::slots(part); ++slot) {
            const std::int64_t group = Format::group(part, slot);
            std::uint32_t* to = strip_ + group / 2 * Layout::kRowWords + group % 2 * 4 * kCodeRows;
            store_transposed(WordLanes(), codes[0][slot], codes[1][slot], codes[2][slot],
                             codes[3][slot], reinterpret_cast<std::int32_t*>(to), kCodeRows);
        }
    }

    const Format format_{};
    std::uint32_t* strip_;
};

/// Asks for `size` bytes of each of the rows that are packed next.
HWY_INLINE void fetch_piece(StripRows rows, std::size_t size) {
    for (std::int64_t r = kCodeRows; r < 2 * kCodeRows; ++r) {
        for (std::size_t at = 0; at < size; at += 64) fetch_rows(rows.row(r) + at);
    }
}

template <class Format, class Products>
void pack_codes(const Panel& panel, std::int64_t begin, std::int64_t count, std::byte* to) {
    using Packer = CodePacker<Format, Products>;
    constexpr std::size_t kMostBytes = Packer::kElements / 32 * sizeof(block_q8_1);
    Packer packer(to);
    for (std::int64_t i = 0; i < count; i += Packer::kElements) {
        const std::int64_t length = count - i < Packer::kElements ? count - i : Packer::kElements;
        const std::size_t at = row_size(panel.type, begin + i), size = row_size(panel.type, length);
        const StripRows rows{panel.rows + at, panel.pitch};
        if (panel.count >= kCodeRows) {
            fetch_piece(rows, size);
            packer.pack(rows, length);
            continue;
        }
        std::byte filled[kCodeRows * kMostBytes] = {};  // rows that are not there are zeros
        for (std::int64_t r = 0; r < panel.count; ++r) {
            std::memcpy(filled + static_cast<std::size_t>(r) * kMostBytes, rows.row(r), size);
        }
        packer.pack({filled, kMostBytes}, length);
    }
}

/// The scale and the codes of 32 elements of a prepared column.
template <class Other>
struct ColumnPiece {
    float scale;
    const std::byte* codes;

    HWY_INLINE ColumnPiece(const std::byte* from, std::int64_t number) {
        if constexpr (std::is_same_v<Other, block_q8_K>) {
            from += number / 8 * static_cast<std::int64_t>(sizeof(Other));
            scale = read<float>(from + offsetof(Other, d));
            codes = from + offsetof(Other, qs) + 32 * (number % 8);
        } else {
            from += number * static_cast<std::int64_t>(sizeof(Other));
            scale = read_half(from + offsetof(Other, d));
            codes = from + offsetof(Other, qs);
        }
    }

    /// Of the codes from `begin` on.
    HWY_INLINE std::int32_t sum(int begin, int count) const {
        std::int32_t total = 0;
        for (int i = begin; i < begin + count; ++i) {
            total += static_cast<std::int8_t>(codes[i]);
        }
        return total;
    }
};

template <class Format, class Products>
void put_codes(const void* from, std::int64_t count, std::byte* to, int column) {
    using Layout = CodeLayout<Format, Products>;
    constexpr int kGroup = 32 / Format::kGroups;
    auto* words = reinterpret_cast<std::uint32_t*>(to) + column;
    for (std::int64_t i = 0; i < count / 32; ++i, words += Layout::kColumnWords) {
        const ColumnPiece<typename Format::Other> piece(static_cast<const std::byte*>(from), i);
        for (int u = 0; u < 8; ++u) {
            Products::put_four(piece.codes + 4 * u, words + u * Layout::kUnit, kStripWidth);
        }
        std::memcpy(words + Layout::kColumnScales, &piece.scale, 4);
        for (int g = 0; g < Format::kGroups; ++g) {
            const std::int32_t sum = piece.sum(g * kGroup, kGroup);
            const std::int32_t offset = -Layout::kOffset * sum;
            const float scaled = piece.scale * static_cast<float>(sum);
            std::memcpy(words + Layout::kColumnSums + g * kStripWidth,
                        Format::kHasMinima ? static_cast<const void*>(&scaled) : &offset, 4);
        }
    }
}

// ---- multiplying -------------------------------------------------------------------------------

/// A vector for each column, which is needed once for every group only.
template <int kColumns>
class Totals {
public:
    HWY_INLINE Totals() {
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) set(c, hn::Zero(FloatLanes()));
    }

#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2 && defined(__GNUC__)
    // Of 16 registers the sums of a group take as many as there are: compilers must be made to keep
    // the totals out of them.
    HWY_INLINE void put_away() { asm volatile("" : "+m"(totals_)); }
    HWY_INLINE FloatVec get(int c) const { return hn::Load(FloatLanes(), totals_[c]); }
    HWY_INLINE void set(int c, FloatVec total) { hn::Store(total, FloatLanes(), totals_[c]); }

private:
    HWY_ALIGN float totals_[kColumns][kCodeRows];
#else
    HWY_INLINE void put_away() {}
    HWY_INLINE FloatVec get(int c) const { return totals_[c]; }
    HWY_INLINE void set(int c, FloatVec total) { totals_[c] = total; }

private:
    FloatVec totals_[kColumns];
#endif
};

template <class Format, class Products, int kColumns>
void multiply_codes(const std::int32_t* a, const std::int32_t* b, std::int64_t count,
                    float* const* out, bool add) {
    using Layout = CodeLayout<Format, Products>;
    constexpr int kUnits = 8 / Format::kGroups;
    const FloatLanes floats;
    const auto as_floats = [](const std::int32_t* words)
                               HWY_ATTR { return reinterpret_cast<const float*>(words); };
    Totals<kColumns> totals;
    if (add) fetch_results<kColumns>(out, kCodeRows);
    for (std::int64_t i = 0; i < count;
         i += 32, a += Layout::kRowWords, b += Layout::kColumnWords) {
        HWY_UNROLL(2)
        for (int g = 0; g < Format::kGroups; ++g) {
            const std::int32_t* sums = b + Layout::kColumnSums + g * kStripWidth;
            const auto initial = [&](int c) HWY_ATTR {
                if constexpr (Layout::kOffset == 0) return hn::Zero(WordLanes());
                return hn::Set(WordLanes(), sums[c]);
            };
            WordVec sum[kColumns];
            totals.put_away();
            Products::template sum_up<kUnits, Format::kMostCode>(
                a + g * kUnits * kCodeRows, b + g * kUnits * Layout::kUnit, initial, sum);
            const auto scale = hn::LoadU(floats, as_floats(a + Layout::kScales + g * kCodeRows));
            const auto minimum = hn::LoadU(
                floats, as_floats(a + (Format::kHasMinima ? Layout::kMinima : 0) + g * kCodeRows));
            HWY_UNROLL(12)
            for (int c = 0; c < kColumns; ++c) {
                const auto unit =
                    hn::Mul(scale, hn::Set(floats, as_floats(b + Layout::kColumnScales)[c]));
                auto total = hn::MulAdd(hn::ConvertTo(floats, sum[c]), unit, totals.get(c));
                if constexpr (Format::kHasMinima) {
                    total = hn::NegMulAdd(minimum, hn::Set(floats, as_floats(sums)[c]), total);
                }
                totals.set(c, total);
            }
        }
    }
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) put_sum(floats, totals.get(c), out[c], add);
}

template <class Format, class Products>
void multiply_code_strips(const std::byte* rows, const std::byte* columns, std::int64_t count,
                          int width, float* const* out, bool add) {
    const auto* a = reinterpret_cast<const std::int32_t*>(rows);
    const auto* b = reinterpret_cast<const std::int32_t*>(columns);
    constexpr int kThird = kStripWidth / 3;
    if (width <= kThird) return multiply_codes<Format, Products, kThird>(a, b, count, out, add);
    if (width <= 2 * kThird) {
        return multiply_codes<Format, Products, 2 * kThird>(a, b, count, out, add);
    }
    multiply_codes<Format, Products, kStripWidth>(a, b, count, out, add);
}

// ---- rows of a family's list -------------------------------------------------------------------

template <class Format>
StripKernel code_strip_kernel() {
    return with_best_strip_products<Format::kMostCode>([](auto products) {
        using Products = decltype(products);
        using Layout = CodeLayout<Format, Products>;
        return StripKernel{.rows = kCodeRows,
                           .columns = kStripWidth,
                           .depth = 1024,
                           .least_columns = 4,
                           .row_bytes = 4 * Layout::kRowWords / kCodeRows,
                           .column_bytes = 4 * Layout::kColumnWords / kStripWidth,
                           .pack_rows = pack_codes<Format, Products>,
                           .put_column = put_codes<Format, Products>,
                           .multiply = multiply_code_strips<Format, Products>};
    });
}

struct CodeStripEntry {
    Type type;
    StripKernel (*kernel)();
};

template <std::size_t kCount>
StripKernel find_code_strips(const CodeStripEntry (&entries)[kCount], Type type) {
    for (const CodeStripEntry& entry : entries) {
        if (entry.type == type) return entry.kernel();
    }
    return {};
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
