// Micro-panels of codes of 8 bits, multiplied by codes of 8 bits in whole numbers; scales come in
// once for 16 or 32 elements. code_packing.hpp says how micro-panels are laid out. Included once
// per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_GEMM_CODES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_GEMM_CODES_HPP
#undef HEDDLE_CPU_DOT_GEMM_CODES_HPP
#else
#define HEDDLE_CPU_DOT_GEMM_CODES_HPP
#endif

#include "backends/cpu/dot/code_packing.hpp"

#if HEDDLE_HAS_CODE_GEMM
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements that are multiplied before results are written.
constexpr std::int64_t kCodeDepth = 1024;

/// Vectors for each column, which are needed once for every group only.
template <int kColumns>
class Totals {
public:
    HWY_INLINE Totals() {
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) {
            for (int v = 0; v < kCodeVectors; ++v) set(c, v, hn::Zero(FloatLanes()));
        }
    }

#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2 && defined(__GNUC__)
    // Of 16 registers the sums of a group take as many as there are: compilers must be made to keep
    // the totals out of them.
    HWY_INLINE void opaque() { opaque_memory(totals_); }
    HWY_INLINE FloatVec get(int c, int v) const { return hn::Load(FloatLanes(), totals_[c][v]); }
    HWY_INLINE void set(int c, int v, FloatVec total) {
        hn::Store(total, FloatLanes(), totals_[c][v]);
    }

private:
    HWY_ALIGN float totals_[kColumns][kCodeVectors][kCodeLanes];
#else
    HWY_INLINE void opaque() {}
    HWY_INLINE FloatVec get(int c, int v) const { return totals_[c][v]; }
    HWY_INLINE void set(int c, int v, FloatVec total) { totals_[c][v] = total; }

private:
    FloatVec totals_[kColumns][kCodeVectors];
#endif
};

HWY_INLINE const float* as_floats(const std::int32_t* words) {
    return reinterpret_cast<const float*>(words);
}

/// Adds the products of group `g` of 32 elements to `totals`.
template <class Format, class Products, int kColumns>
HWY_INLINE void multiply_group(const std::int32_t* a, const std::int32_t* b, int g,
                               Totals<kColumns>& totals) {
    using Layout = CodeLayout<Format, Products>;
    constexpr int kUnits = 8 / Format::kGroups;
    const FloatLanes floats;
    const std::int32_t* sums = b + Layout::kColumnSums + g * kCodeColumns;
    const auto initial = [&](int c) HWY_ATTR {
        if constexpr (Layout::kOffset == 0) return hn::Zero(WordLanes());
        return hn::Set(WordLanes(), sums[c]);
    };
    WordSums<kColumns> sum;
    totals.opaque();
    Products::template sum_up<kUnits, Format::kMostCode, kColumns>(
        a + g * kUnits * kCodeRows, b + g * kUnits * Layout::kUnit, initial, sum);
    const auto row_values = [&](std::int64_t place, int v) HWY_ATTR {
        const std::int32_t* from = a + place + g * Layout::kScaleWords;
        using Scale = typename Layout::Scale;
        return load_f32(floats, reinterpret_cast<const Scale*>(from) + v * kCodeLanes);
    };
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) {
        const auto column_scale = hn::Set(floats, as_floats(b + Layout::kColumnScales)[c]);
        for (int v = 0; v < kCodeVectors; ++v) {
            const auto unit = hn::Mul(row_values(Layout::kScales, v), column_scale);
            auto total = hn::MulAdd(hn::ConvertTo(floats, sum[c][v]), unit, totals.get(c, v));
            if constexpr (Format::kHasMinima) {
                total = hn::NegMulAdd(row_values(Layout::kMinima, v),
                                      hn::Set(floats, as_floats(sums)[c]), total);
            }
            totals.set(c, v, total);
        }
    }
}

/// Calls `ahead(i)` before elements i .. i + 32 are multiplied.
template <class Format, class Products, int kColumns, class Ahead>
HWY_INLINE void multiply_codes(const std::byte* rows, const std::byte* columns, std::int64_t count,
                               float* const* out, bool add, Ahead ahead) {
    using Layout = CodeLayout<Format, Products>;
    const auto* a = reinterpret_cast<const std::int32_t*>(rows);
    const auto* b = reinterpret_cast<const std::int32_t*>(columns);
    Totals<kColumns> totals;
    if (add) fetch_results<kColumns>(out, kCodeRows);
    for (std::int64_t i = 0; i < count;
         i += 32, a += Layout::kRowWords, b += Layout::kColumnWords) {
        ahead(i);
        HWY_UNROLL(2)
        for (int g = 0; g < Format::kGroups; ++g) {
            multiply_group<Format, Products, kColumns>(a, b, g, totals);
        }
    }
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) {
        for (int v = 0; v < kCodeVectors; ++v) {
            put_sum(FloatLanes(), totals.get(c, v), out[c] + v * kCodeLanes, add);
        }
    }
}

/// Calls `body` with the number of columns that kernels are made for which is no less than `width`,
/// as a constant.
template <class Body>
HWY_INLINE void with_width(int width, Body body) {
    constexpr int kFew = kCodeColumns == 12 ? 4 : kCodeColumns / 2;
    if (width <= kFew) return body(std::integral_constant<int, kFew>());
    if constexpr (2 * kFew < kCodeColumns) {
        if (width <= 2 * kFew) return body(std::integral_constant<int, 2 * kFew>());
    }
    body(std::integral_constant<int, kCodeColumns>());
}

template <class Format, class Products>
void multiply_codes(const std::byte* rows, const std::byte* columns, std::int64_t count, int width,
                    float* const* out, bool add) {
    with_width(width, [&](auto columns_at_once) HWY_ATTR {
        multiply_codes<Format, Products, columns_at_once>(rows, columns, count, out, add,
                                                          [](std::int64_t) {});
    });
}

/// Multiplies `kCodeDepth` of `count` elements, those from `first` on, and packs rows meanwhile: a
/// piece further on than what is multiplied.
template <class Format, class Products, int kColumns>
HWY_NOINLINE void multiply_and_pack_ahead(MicroPanelRows rows, std::int64_t first,
                                          std::int64_t count, std::byte* micro_panel,
                                          const std::byte* columns, float* const* out, bool add) {
    using Packer = CodePacker<Format, Products>;
    using Layout = CodeLayout<Format, Products>;
    const std::int64_t left = count - first;
    micro_panel += first / 32 * 4 * Layout::kRowWords;
    columns += first / 32 * 4 * Layout::kColumnWords;
    rows = rows + Format::bytes(first);
    Packer packer(micro_panel);
    multiply_codes<Format, Products, kColumns>(
        micro_panel, columns, HWY_MIN(left, kCodeDepth), out, add, [&](std::int64_t i) HWY_ATTR {
            const std::int64_t next = i / Packer::kElements * Packer::kElements;
            const int step = static_cast<int>(i % Packer::kElements / 32);
            fetch_step<Format::bytes(Packer::kElements)>(rows + Format::bytes(next), step);
            const std::int64_t piece = next + Packer::kElements;
            packer.pack_step(rows + Format::bytes(piece), piece, piece_length(piece, left), step);
        });
}

/// Alternates between packing rows and multiplying them.
template <class Format, class Products>
void pack_and_multiply_codes(const MatrixView& view, std::int64_t begin, std::int64_t count,
                             std::byte* micro_panel, const std::byte* columns, int width,
                             float* const* out, bool add) {
    const MicroPanelRows rows = rows_of<Format>(view, begin);
    CodePacker<Format, Products>(micro_panel).pack(rows, 0, piece_length(0, count));
    with_width(width, [&](auto columns_at_once) HWY_ATTR {
        for (std::int64_t first = 0; first < count; first += kCodeDepth) {
            multiply_and_pack_ahead<Format, Products, columns_at_once>(
                rows, first, count, micro_panel, columns, out, add || first > 0);
        }
    });
}

// ---- rows of a family's list -------------------------------------------------------------------

template <class Format, class Products>
constexpr auto packs_beside() -> decltype(GemmKernel::pack_and_multiply) {
    if constexpr (kPacksBeside) {
        return pack_and_multiply_codes<Format, Products>;
    } else {
        return nullptr;
    }
}

template <class Format>
GemmKernel code_gemm_kernel() {
    return with_best_micro_panel_products<Format::kMostCode>([](auto products) {
        using Products = decltype(products);
        using Layout = CodeLayout<Format, Products>;
        return GemmKernel{.rows = kCodeRows,
                          .columns = kCodeColumns,
                          .depth = kCodeDepth,
                          .least_columns = 3,
                          .row_bytes = 4 * Layout::kRowWords / kCodeRows,
                          .column_bytes = 4 * Layout::kColumnWords / kCodeColumns,
                          .pack_rows = pack_codes<Format, Products>,
                          .put_column = put_codes<Format, Products>,
                          .multiply = multiply_codes<Format, Products>,
                          .pack_and_multiply = packs_beside<Format, Products>()};
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
