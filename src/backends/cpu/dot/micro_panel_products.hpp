// Products of a micro-panel of rows of codes with a micro-panel of columns, summed in whole
// numbers. Included once per instruction set, inside a file that is compiled by foreach_target.h.
//
// A unit is four codes of every row and of every column. Each way to multiply says how it wants the
// columns' codes (`kWords` words of 4 bytes for a unit, put there by `put_four`), whether those of
// rows are signed, and sums up `kUnits` units: sum[c] = initial(c) + the products with column c,
// which times `kFactor` are what they should be.
#if defined(HEDDLE_CPU_DOT_MICRO_PANEL_PRODUCTS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_MICRO_PANEL_PRODUCTS_HPP
#undef HEDDLE_CPU_DOT_MICRO_PANEL_PRODUCTS_HPP
#else
#define HEDDLE_CPU_DOT_MICRO_PANEL_PRODUCTS_HPP
#endif

#include "backends/cpu/dot/micro_panel_lanes.hpp"
#include "simd/opaque.hpp"
#include "simd/pair_products.hpp"

#undef HEDDLE_HAS_CODE_GEMM
#define HEDDLE_HAS_CODE_GEMM (HEDDLE_HAS_MICRO_PANELS && HEDDLE_HAS_BYTE_PRODUCTS)

#if HEDDLE_HAS_CODE_GEMM
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of a micro-panel of rows, and columns of a micro-panel of columns: all pairs of them have
// sums in registers at a time. Where columns' codes must be spread over the lanes by an instruction
// of its own, two vectors share it.
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2
constexpr int kCodeVectors = 2, kCodeColumns = 4;  // of 16 registers
#else
constexpr int kCodeVectors = 1, kCodeColumns = 12;  // of 32
#endif
static_assert(kMicroPanelColumns % kCodeColumns == 0);

constexpr std::int64_t kCodeLanes = static_cast<std::int64_t>(hn::MaxLanes(WordLanes()));

/// Rows of a micro-panel.
constexpr std::int64_t kCodeRows = kCodeVectors * kCodeLanes;

using WordVec = hn::Vec<WordLanes>;

/// Sums of all rows of a micro-panel with some columns.
template <int kColumns>
using WordSums = WordVec[kColumns][kCodeVectors];

HWY_INLINE hn::Vec<ByteLanes> load_unit(const std::int32_t* rows, int unit, int vector) {
    return hn::BitCast(ByteLanes(),
                       hn::LoadU(WordLanes(), rows + unit * kCodeRows + vector * kCodeLanes));
}

/// Four products at a time, straight into the sum.
template <class Bytes>
struct DirectProducts {
    static constexpr bool kTakesSigned = false;
    static constexpr int kWords = 1;
    static constexpr float kFactor = 1;

    static HWY_INLINE void put_four(const std::byte* codes, std::uint32_t* to, int) {
        std::memcpy(to, codes, 4);
    }

    template <int kUnits, int kMost, int kColumns, class Initial>
    static HWY_INLINE void sum_up(const std::int32_t* rows, const std::int32_t* columns,
                                  Initial initial, WordSums<kColumns>& sum) {
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) {
            for (int v = 0; v < kCodeVectors; ++v) sum[c][v] = initial(c);
        }
        HWY_UNROLL(8)
        for (int u = 0; u < kUnits; ++u) {
            for (int v = 0; v < kCodeVectors; ++v) {
                const auto bytes = load_unit(rows, u, v);
                HWY_UNROLL(12)
                for (int c = 0; c < kColumns; ++c) {
                    const std::int32_t* four = columns + u * kCodeColumns + c;
                    sum[c][v] = Bytes::multiply_add(bytes, four, sum[c][v]);
                }
            }
        }
    }
};

#if HWY_ARCH_X86
/// a + b. Compilers would rather compute all products first and add them up later, for which there
/// are not nearly enough registers.
template <class V>
HWY_INLINE V add_opaque(V a, V b) {
    V sum = hn::Add(a, b);
    opaque(sum);
    return sum;
}

/// For codes up to 127: pairs of products stay in 16 bits over as many units as they have room for.
struct PairProducts {
    static constexpr bool kTakesSigned = false;
    static constexpr int kWords = 1;
    static constexpr float kFactor = 1;

    static HWY_INLINE void put_four(const std::byte* codes, std::uint32_t* to, int) {
        std::memcpy(to, codes, 4);
    }

    /// Units whose sums cannot exceed 16 bits, if no code exceeds `kMost`: a power of two.
    static constexpr int safe_units(int most, int units) {
        while (units > 1 && units * 2 * most * 128 > 32767) units /= 2;
        return units;
    }

    template <int kUnits, int kMost, int kColumns, class Initial>
    static HWY_INLINE void sum_up(const std::int32_t* rows, const std::int32_t* columns,
                                  Initial initial, WordSums<kColumns>& sum) {
        static_assert(kMost <= 127);
        constexpr int kRun = safe_units(kMost, kUnits);
        // Where there are sums to be kept besides those in 16 bits, half of the columns at a time.
        constexpr int kSome = kRun > 1 && kRun < kUnits ? kColumns / 2 : kColumns;
        HWY_UNROLL(2)
        for (int begin = 0; begin < kColumns; begin += kSome) {
            HWY_UNROLL(8)
            for (int first = 0; first < kUnits; first += kRun) {
                PairVec pairs[kSome][kCodeVectors];
                sum_pairs<kRun, kSome>(rows + first * kCodeRows,
                                       columns + first * kCodeColumns + begin, pairs);
                HWY_UNROLL(12)
                for (int c = 0; c < kSome; ++c) {
                    for (int v = 0; v < kCodeVectors; ++v) {
                        const auto words = multiply_pairs(pairs[c][v], hn::Set(PairLanes(), 1));
                        WordVec& to = sum[begin + c][v];
                        to = add_opaque(first == 0 ? initial(begin + c) : to, words);
                    }
                }
            }
        }
    }

private:
    template <int kRun, int kColumns>
    static HWY_INLINE void sum_pairs(const std::int32_t* rows, const std::int32_t* columns,
                                     PairVec (&pairs)[kColumns][kCodeVectors]) {
        HWY_UNROLL(8)
        for (int u = 0; u < kRun; ++u) {
            hn::Vec<ByteLanes> bytes[kCodeVectors];
            for (int v = 0; v < kCodeVectors; ++v) bytes[v] = load_unit(rows, u, v);
            HWY_UNROLL(12)
            for (int c = 0; c < kColumns; ++c) {
                const auto other = hn::Set(WordLanes(), columns[u * kCodeColumns + c]);
                for (int v = 0; v < kCodeVectors; ++v) {
                    const auto products = multiply_bytes(bytes[v], other);
                    pairs[c][v] = u == 0 ? products : add_opaque(pairs[c][v], products);
                }
            }
        }
    }
};

/// For all codes, signed: products in 16 bits, of codes 0 and 2 and of codes 1 and 3 of a unit.
/// Rows' codes stand in the upper halves of 16 bits, which makes sums 256 times too large.
struct WideProducts {
    static constexpr bool kTakesSigned = true;
    static constexpr int kWords = 2;
    static constexpr float kFactor = 1.0f / 256;

    static HWY_INLINE void put_four(const std::byte* codes, std::uint32_t* to, int pitch) {
        std::int8_t four[4];
        std::memcpy(four, codes, sizeof four);
        const std::int16_t even[2] = {four[0], four[2]}, odd[2] = {four[1], four[3]};
        std::memcpy(to, even, sizeof even);
        std::memcpy(to + pitch, odd, sizeof odd);
    }

    template <int kUnits, int kMost, int kColumns, class Initial>
    static HWY_INLINE void sum_up(const std::int32_t* rows, const std::int32_t* columns, Initial,
                                  WordSums<kColumns>& sum) {
        HWY_UNROLL(8)
        for (int u = 0; u < kUnits; ++u) {
            PairVec even[kCodeVectors], odd[kCodeVectors];
            for (int v = 0; v < kCodeVectors; ++v) {
                const auto both = hn::BitCast(PairLanes(), load_unit(rows, u, v));
                even[v] = hn::ShiftLeft<8>(both);
                odd[v] = hn::And(both, hn::Set(PairLanes(), -256));
            }
            const std::int32_t* words = columns + 2 * u * kCodeColumns;
            HWY_UNROLL(12)
            for (int c = 0; c < kColumns; ++c) {
                const auto pairs = [&](int i) HWY_ATTR {
                    return hn::BitCast(PairLanes(), hn::Set(WordLanes(), words[i]));
                };
                const auto for_even = pairs(c), for_odd = pairs(kCodeColumns + c);
                for (int v = 0; v < kCodeVectors; ++v) {
                    const auto first = multiply_pairs(even[v], for_even);
                    sum[c][v] = u == 0 ? first : add_opaque(sum[c][v], first);
                    sum[c][v] = add_opaque(sum[c][v], multiply_pairs(odd[v], for_odd));
                }
            }
        }
    }
};
#endif

/// `use` of the best products for unsigned codes up to `kMost`: of an object of their type. A
/// default of the result's type if there are none.
template <int kMost, class Use>
auto with_best_micro_panel_products(Use use) -> decltype(use(DirectProducts<PairedBytes>())) {
#if HWY_ARCH_X86
#if HEDDLE_HAS_FUSED_BYTES
    if (FusedBytes::is_there()) return use(DirectProducts<FusedBytes>());
#endif
    if constexpr (kMost <= 127) {
        return use(PairProducts());
    } else {
        return use(WideProducts());
    }
#else
    return with_best_products<kMost>(
        [&](auto bytes) { return use(DirectProducts<decltype(bytes)>()); });
#endif
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
