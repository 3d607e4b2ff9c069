#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/gemm_simple.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/formats/simple.hpp"
#include "backends/cpu/dot/gemm_codes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_CODE_GEMM

GemmKernel gemm_simple(Type) { return {}; }

#else
namespace {

/// Each part of a row is 32 elements.
template <class Simple>
struct SimpleCodes {
    using Other = typename Simple::Other;
    using Stored = decltype(Simple::stored_scale(nullptr, 0));
    /// Halves become f32 where they are used, if that is one instruction.
    using Scale = std::conditional_t<HWY_TARGET == HWY_SSE4, float, Stored>;
    static constexpr int kGroups = Simple::kHasTwoScales ? 2 : 1;
    static constexpr bool kHasMinima = Simple::kHasMinimum;
    static constexpr int kOffset = Simple::kZeroPoint;
    static constexpr int kMostCode = Simple::kMostCode;
    static constexpr int kSlots = 2;
    static constexpr int kLoads = loads_of<Simple>();

    static constexpr int parts(std::int64_t count) { return static_cast<int>(count / 32); }
    static constexpr int slots(int) { return kSlots; }
    static constexpr int group(int part, int slot) { return 2 * part + slot; }

    static constexpr std::size_t bytes(std::int64_t count) {
        return static_cast<std::size_t>(count / Simple::kElements) * sizeof(typename Simple::Block);
    }

    static constexpr bool has_scales(int) { return true; }

    template <class Place>
    static HWY_INLINE void put_scales(MicroPanelRows rows, int part, Place& to) {
        const MicroPanelRows blocks = rows + block_at(part);
        for (int g = 0; g < kGroups; ++g) {
            const int number = part % kPerBlock * kGroups + g;
            put_each(to.scales(part * kGroups + g), [&](std::int64_t r) HWY_ATTR {
                return Simple::stored_scale(blocks.row(r), number);
            });
        }
        if constexpr (kHasMinima) {
            put_each(to.minima(part), [&](std::int64_t r) HWY_ATTR {
                Stored minimum = Simple::stored_minimum(blocks.row(r));
                minimum.bits ^= 0x8000;  // minima of these formats are added, not taken away
                return minimum;
            });
        }
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        const hn::RebindToSigned<ByteLanes> lanes;
        auto low = hn::Zero(lanes), high = low;
        Simple::unpack(from + block_at(part), part % kPerBlock, low, high);
        put(0, low);
        put(1, high);
    }

    // For formats that have it.
    static constexpr std::size_t load_at(int part, int i) {
        return block_at(part) + Simple::load_at(i);
    }
    template <class Put, class... V>
    static HWY_INLINE void decode(int, Put put, V... bytes) {
        const hn::RebindToSigned<ByteLanes> lanes;
        auto low = hn::Zero(lanes), high = low;
        Simple::decode(low, high, bytes...);
        put(0, low);
        put(1, high);
    }

private:
    /// A value of each row. Storing is what packing by itself waits for, so values are put together
    /// before; beside products it is vectors that are short of time.
    template <class Get>
    static HWY_INLINE void put_each(Scale* to, Get get) {
        if constexpr (kPacksBeside) {
            for (std::int64_t r = 0; r < kCodeLanes; ++r) to[r] = to_scale(get(r));
        } else {
            HWY_ALIGN Scale values[kCodeLanes];
            for (std::int64_t r = 0; r < kCodeLanes; ++r) values[r] = to_scale(get(r));
            std::memcpy(to, values, sizeof values);
        }
    }

    static HWY_INLINE Scale to_scale(Stored value) {
        if constexpr (std::is_same_v<Scale, Stored>) {
            return value;
        } else {
            return to_float(value);
        }
    }

    static constexpr int kPerBlock = Simple::kElements / 32;

    static constexpr std::size_t block_at(int part) {
        return static_cast<std::size_t>(part / kPerBlock) * sizeof(typename Simple::Block);
    }
};

}  // namespace

GemmKernel gemm_simple(Type type) {
    return find_by_type<GemmKernel, Family::simple>(
        type, []<Type kType>() { return code_gemm_kernel<SimpleCodes<BlockFormat<kType> > >(); });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(gemm_simple);

GemmKernel gemm_simple_of(Type type) { return HWY_DYNAMIC_DISPATCH(gemm_simple)(type); }

}  // namespace heddle::cpu
#endif
