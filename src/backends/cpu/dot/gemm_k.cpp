#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/gemm_k.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/formats/grid.hpp"
#include "backends/cpu/dot/formats/k.hpp"
#include "backends/cpu/dot/gemm_codes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_CODE_GEMM

GemmKernel gemm_k(Type) { return {}; }

#else
namespace {

/// The scales of super-blocks of all rows. Byte i of a lane of vector v is number 4 * v + i of
/// them, each for 16 elements, or if they come from `row_scales` for as many as the format says.
struct ScaleWords {
    FloatVec d, dmin;
    WordVec scales[4], minima[4];
};

/// Whether scales are unpacked for all rows at a time.
template <class Super>
constexpr bool has_row_scales() {
    return requires(MicroPanelRows rows, ScaleWords words) { Super::row_scales(rows, words); };
}

template <class Super>
HWY_INLINE void load_scales(const Super& super, MicroPanelRows rows, ScaleWords& to) {
    if constexpr (has_row_scales<Super>()) {
        Super::row_scales(rows, to);
    } else {
        HWY_ALIGN float d[kCodeLanes];
        HWY_ALIGN std::int32_t words[4][kCodeLanes];
        for (std::int64_t r = 0; r < kCodeLanes; ++r) {
            SuperScales scales;
            super.scales(rows.row(r), scales);
            d[r] = scales.d;
            for (int i = 0; i < 4; ++i) std::memcpy(&words[i][r], scales.scales + 4 * i, 4);
        }
        to.d = hn::Load(FloatLanes(), d);
        for (int i = 0; i < 4; ++i) to.scales[i] = hn::Load(WordLanes(), words[i]);
    }
}

template <class Super>
struct SuperCodes : Super {
    using Other = block_q8_K;
    using Scale = float;
    static constexpr int kGroups = Super::kGroup < 32 ? 2 : 1;  ///< scales for 32 elements
    static constexpr int kOffset = Super::kZeroPoint;
    static constexpr int kMostCode = Super::kMostCode;
    static constexpr int kLoads = loads_of<Super>();

    static constexpr int parts(std::int64_t count) {
        return static_cast<int>(count / QK_K) * Super::kParts;
    }
    static constexpr std::size_t bytes(std::int64_t count) {
        return static_cast<std::size_t>(count / QK_K) * sizeof(typename Super::Block);
    }

    /// Those of the whole block.
    static constexpr bool has_scales(int part) { return part == 0; }

    template <class Place>
    HWY_INLINE void put_scales(MicroPanelRows rows, int, Place& to) const {
        constexpr int kStep = has_row_scales<Super>() ? 1 : 2 / kGroups;
        ScaleWords words;
        load_scales<Super>(*this, rows, words);
        HWY_UNROLL(16)
        for (int g = 0; g < 8 * kGroups; ++g) {
            hn::StoreU(hn::Mul(words.d, byte_of(words.scales, g * kStep)), FloatLanes(),
                       to.scales(g));
            if constexpr (Super::kHasMinima) {
                hn::StoreU(hn::Mul(words.dmin, byte_of(words.minima, g * kStep)), FloatLanes(),
                           to.minima(g));
            }
        }
    }

private:
    static HWY_INLINE FloatVec byte_of(const WordVec (&words)[4], int number) {
        const auto word = hn::ShiftLeftSame(words[number / 4], 24 - number % 4 * 8);
        return hn::ConvertTo(FloatLanes(), hn::ShiftRight<24>(word));
    }
};

}  // namespace

GemmKernel gemm_k(Type type) {
    return find_by_type<GemmKernel, Family::k, Family::grid>(
        type, []<Type kType>() { return code_gemm_kernel<SuperCodes<BlockFormat<kType> > >(); });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(gemm_k);

GemmKernel gemm_k_of(Type type) { return HWY_DYNAMIC_DISPATCH(gemm_k)(type); }

}  // namespace heddle::cpu
#endif
