// Strips of codes of 8 bits, multiplied by codes of 8 bits in whole numbers; scales come in once
// for 16 or 32 elements. Included once per instruction set, inside a file that is compiled by
// foreach_target.h.
//
// Codes are made unsigned by adding an offset, which is taken out again through the sums of the
// columns' codes. For 32 elements a strip of rows holds
//     codes    [8][rows][4]
//     scales   [groups][rows]   f32
//     minima   [groups][rows]   f32, for formats that have them
// and a strip of columns
//     codes    [8][columns][4]
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
#include "backends/cpu/dot/byte_products.hpp"
#include "backends/cpu/dot/strip_lanes.hpp"

#undef HEDDLE_HAS_CODE_STRIPS
#define HEDDLE_HAS_CODE_STRIPS (HEDDLE_HAS_STRIPS && HEDDLE_HAS_BYTE_PRODUCTS)

#if HEDDLE_HAS_CODE_STRIPS
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A piece of a row, unpacked.
struct CodeRow {
    static constexpr std::int64_t kElements = 256;
    HWY_ALIGN std::uint8_t codes[kElements];
    float scales[kElements / 16];
    float minima[kElements / 16];
};

constexpr std::int64_t kCodeRows = static_cast<std::int64_t>(hn::MaxLanes(WordLanes()));

/// Where the parts of 32 elements are, in words of 4 bytes.
template <class Format>
struct CodeLayout {
    static constexpr std::int64_t kGroups = Format::kGroups;
    static constexpr std::int64_t kScales = 8 * kCodeRows;
    static constexpr std::int64_t kMinima = kScales + kGroups * kCodeRows;
    static constexpr std::int64_t kRowWords =
        kMinima + (Format::kHasMinima ? kGroups * kCodeRows : 0);

    static constexpr std::int64_t kColumnScales = 8 * kStripWidth;
    static constexpr std::int64_t kColumnSums = kColumnScales + kStripWidth;
    static constexpr std::int64_t kColumnWords = kColumnSums + kGroups * kStripWidth;
};

// ---- making strips -----------------------------------------------------------------------------

template <class Format>
HWY_INLINE void interleave(const CodeRow (&rows)[4], std::int64_t count, std::uint32_t* to) {
    using Layout = CodeLayout<Format>;
    const hn::FixedTag<std::uint32_t, 4> four;
    const auto load = [&](int r, std::int64_t at) HWY_ATTR {
        return hn::BitCast(four, hn::Load(Bytes(), rows[r].codes + at));
    };
    for (std::int64_t i = 0; i < count; i += 32, to += Layout::kRowWords) {
        for (std::int64_t half = 0; half < 2; ++half) {
            const std::int64_t at = i + 16 * half;
            store_transposed(four, load(0, at), load(1, at), load(2, at), load(3, at),
                             to + 4 * half * kCodeRows, kCodeRows);
        }
        const std::int64_t group = i / 32 * Layout::kGroups;
        for (std::int64_t g = 0; g < Layout::kGroups; ++g) {
            for (int r = 0; r < 4; ++r) {
                std::uint32_t* place = to + Layout::kScales + g * kCodeRows + r;
                std::memcpy(place, &rows[r].scales[group + g], 4);
                if constexpr (Format::kHasMinima) {
                    std::memcpy(place + Layout::kMinima - Layout::kScales,
                                &rows[r].minima[group + g], 4);
                }
            }
        }
    }
}

template <class Format>
void pack_codes(const Panel& panel, std::int64_t begin, std::int64_t count, std::byte* to) {
    CodeRow rows[4];
    auto* strip = reinterpret_cast<std::uint32_t*>(to);
    for (std::int64_t r = 0; r < kCodeRows; r += 4) {
        for (std::int64_t i = 0; i < count; i += CodeRow::kElements) {
            const std::int64_t length =
                count - i < CodeRow::kElements ? count - i : CodeRow::kElements;
            const std::byte* from = panel.rows + row_size(panel.type, begin + i);
            const std::size_t size = row_size(panel.type, length);
            for (std::int64_t k = 0; k < 4; ++k) {
                if (r + k < panel.count) {
                    const std::byte* row = from + static_cast<std::size_t>(r + k) * panel.pitch;
                    for (std::size_t at = 0; at < size; at += 64) {  // what is packed after this
                        fetch_rows(row + 4 * panel.pitch + at);
                    }
                    Format::unpack(row, length, rows[k]);
                } else {
                    std::memset(&rows[k], 0, sizeof rows[k]);
                }
            }
            interleave<Format>(rows, length, strip + i / 32 * CodeLayout<Format>::kRowWords + r);
        }
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

template <class Format>
void put_codes(const void* from, std::int64_t count, std::byte* to, int column) {
    using Layout = CodeLayout<Format>;
    constexpr int kGroup = 32 / Format::kGroups;
    auto* words = reinterpret_cast<std::uint32_t*>(to) + column;
    for (std::int64_t i = 0; i < count / 32; ++i, words += Layout::kColumnWords) {
        const ColumnPiece<typename Format::Other> piece(static_cast<const std::byte*>(from), i);
        for (int u = 0; u < 8; ++u) std::memcpy(words + u * kStripWidth, piece.codes + 4 * u, 4);
        std::memcpy(words + Layout::kColumnScales, &piece.scale, 4);
        for (int g = 0; g < Format::kGroups; ++g) {
            const std::int32_t sum = piece.sum(g * kGroup, kGroup);
            const std::int32_t offset = -Format::kOffset * sum;
            const float scaled = piece.scale * static_cast<float>(sum);
            std::memcpy(words + Layout::kColumnSums + g * kStripWidth,
                        Format::kHasMinima ? static_cast<const void*>(&scaled) : &offset, 4);
        }
    }
}

// ---- multiplying -------------------------------------------------------------------------------

template <class Format, class Products, int kColumns>
void multiply_codes(const std::int32_t* a, const std::int32_t* b, std::int64_t count,
                    float* const* out, bool add) {
    using Layout = CodeLayout<Format>;
    constexpr int kUnits = 8 / Format::kGroups;
    const hn::ScalableTag<float> floats;
    const auto as_floats = [](const std::int32_t* words)
                               HWY_ATTR { return reinterpret_cast<const float*>(words); };
    hn::Vec<decltype(floats)> total[kColumns];
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) total[c] = hn::Zero(floats);
    if (add) fetch_results<kColumns>(out, kCodeRows);
    for (std::int64_t i = 0; i < count;
         i += 32, a += Layout::kRowWords, b += Layout::kColumnWords) {
        HWY_UNROLL(2)
        for (int g = 0; g < Format::kGroups; ++g) {
            const std::int32_t* sums = b + Layout::kColumnSums + g * kStripWidth;
            hn::Vec<WordLanes> sum[kColumns];
            HWY_UNROLL(12)
            for (int c = 0; c < kColumns; ++c) {
                sum[c] = Format::kHasMinima ? hn::Zero(WordLanes()) : hn::Set(WordLanes(), sums[c]);
            }
            HWY_UNROLL(8)
            for (int u = 0; u < kUnits; ++u) {
                const std::int64_t unit = g * kUnits + u;
                const auto bytes =
                    hn::BitCast(ByteLanes(), hn::LoadU(WordLanes(), a + unit * kCodeRows));
                HWY_UNROLL(12)
                for (int c = 0; c < kColumns; ++c) {
                    sum[c] = Products::multiply_add(bytes, b + unit * kStripWidth + c, sum[c]);
                }
            }
            const auto scale = hn::LoadU(floats, as_floats(a + Layout::kScales + g * kCodeRows));
            HWY_UNROLL(12)
            for (int c = 0; c < kColumns; ++c) {
                const auto unit =
                    hn::Mul(scale, hn::Set(floats, as_floats(b + Layout::kColumnScales)[c]));
                total[c] = hn::MulAdd(hn::ConvertTo(floats, sum[c]), unit, total[c]);
            }
            if constexpr (Format::kHasMinima) {
                const auto minimum =
                    hn::LoadU(floats, as_floats(a + Layout::kMinima + g * kCodeRows));
                HWY_UNROLL(12)
                for (int c = 0; c < kColumns; ++c) {
                    total[c] =
                        hn::NegMulAdd(minimum, hn::Set(floats, as_floats(sums)[c]), total[c]);
                }
            }
        }
    }
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) put_sum(floats, total[c], out[c], add);
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
    using Layout = CodeLayout<Format>;
    StripKernel kernel{.rows = kCodeRows,
                       .columns = kStripWidth,
                       .depth = 1024,
                       .least_columns = 4,
                       .row_bytes = 4 * Layout::kRowWords / kCodeRows,
                       .column_bytes = 4 * Layout::kColumnWords / kStripWidth,
                       .pack_rows = pack_codes<Format>,
                       .put_column = put_codes<Format>};
#if HWY_TARGET == HWY_AVX3
    if (FusedBytes::is_there()) {
        kernel.multiply = multiply_code_strips<Format, FusedBytes>;
        return kernel;
    }
#endif
    if constexpr (Format::kMostCode <= 127) {
        kernel.multiply = multiply_code_strips<Format, PairedBytes>;
        return kernel;
    }
    return {};
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
