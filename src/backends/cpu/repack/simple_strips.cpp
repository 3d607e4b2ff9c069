#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/repack/simple_strips.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/levels.hpp"
#include "backends/cpu/repack/families.hpp"
#include "backends/cpu/repack/strips.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_REPACK

RepackKernel simple_repack(Type) { return {}; }

#else
namespace {

/// Blocks of 32 elements with one scale; codes are from -kLeast to kMost.
template <class BlockOfRow, bool kIsSigned, int kLeast, int kMost>
struct SimpleBlock {
    using Block = BlockOfRow;
    using Scale = float;
    using Other = block_q8_0;
    static constexpr int kElements = 32;
    static constexpr int kGroups = 1;
    static constexpr bool kHasMinima = false;
    static constexpr int kOffset = kIsSigned ? 0 : kLeast;
    static constexpr int kMostCode = kLeast + kMost;
    static constexpr int kLast = sizeof(Block) - sizeof(Block::qs);  ///< the scale
};

/// Bytes hold elements j and j + 16; `code(nibbles)` gives codes.
template <class Sink, class Code>
HWY_INLINE void put_nibbles(const Place& at, Sink& sink, Code code) {
    HWY_UNROLL(4)
    for (int u = 0; u < 4; ++u) sink.put(u, code(bits_of<0>(at.words(0, u), 15)));
    HWY_UNROLL(4)
    for (int u = 0; u < 4; ++u) sink.put(4 + u, code(bits_of<4>(at.words(0, u), 15)));
}

template <bool kIsSigned>
struct RepackedQ4_0 : SimpleBlock<block_q4_0, kIsSigned, 8, 7> {
    template <class Sink>
    static HWY_INLINE void unpack(const Place& at, Sink& sink) {
        put_nibbles(at, sink, [](ByteVec codes) HWY_ATTR { return codes; });
        sink.end(0, at.unit_halves(0));
    }
};

template <bool kIsSigned>
struct [[maybe_unused]] RepackedQ8_0 : SimpleBlock<block_q8_0, kIsSigned, 128, 127> {
    template <class Sink>
    static HWY_INLINE void unpack(const Place& at, Sink& sink) {
        const auto sign = hn::Set(ByteLanes(), kIsSigned ? 0 : 128);
        HWY_UNROLL(8)
        for (int u = 0; u < 8; ++u) sink.put(u, hn::Xor(at.words(0, u), sign));
        sink.end(0, at.unit_halves(0));
    }
};

/// Sixteen levels, each plus `offset`.
HWY_INLINE ByteVec level_table(const std::int8_t (&levels)[16], int offset) {
    const auto table = hn::LoadDup128(ByteLanes(), reinterpret_cast<const std::uint8_t*>(levels));
    return hn::Add(table, hn::Set(ByteLanes(), static_cast<std::uint8_t>(offset)));
}

template <bool kIsSigned>
struct RepackedIq4Nl : SimpleBlock<block_iq4_nl, kIsSigned, 127, 113> {
    template <class Sink>
    static HWY_INLINE void unpack(const Place& at, Sink& sink) {
        const auto table = level_table(kNonlinearLevels, RepackedIq4Nl::kOffset);
        put_nibbles(at, sink,
                    [&](ByteVec codes) HWY_ATTR { return hn::TableLookupBytes(table, codes); });
        sink.end(0, at.unit_halves(0));
    }
};

template <bool kIsSigned>
struct RepackedMxfp4 : SimpleBlock<block_mxfp4, kIsSigned, 12, 12> {
    template <class Sink>
    static HWY_INLINE void unpack(const Place& at, Sink& sink) {
        const auto table = level_table(kFp4Levels, RepackedMxfp4::kOffset);
        put_nibbles(at, sink,
                    [&](ByteVec codes) HWY_ATTR { return hn::TableLookupBytes(table, codes); });
        sink.end(0, scale(at.unit_bytes()));
    }

private:
    /// Half of two to the power of e - 127. The two smallest are subnormal.
    static HWY_INLINE RowVec scale(WordVec exponents) {
        const auto one = hn::Set(WordLanes(), 1);
        const auto normal = hn::ShiftLeft<23>(hn::Sub(exponents, one));
        const auto smallest = hn::ShiftLeft<21>(hn::Add(exponents, one));
        const auto is_normal = hn::Gt(exponents, one);
        return hn::BitCast(RowLanes(), hn::IfThenElse(is_normal, normal, smallest));
    }
};

}  // namespace

RepackKernel simple_repack(Type type) {
    switch (type) {
        case GGML_TYPE_Q4_0:
            return strip_kernel<RepackedQ4_0>();
#if !HWY_ARCH_X86  // one column, which is what writing text takes, is faster from rows there
        case GGML_TYPE_Q8_0:
            return strip_kernel<RepackedQ8_0>();
#endif
        case GGML_TYPE_IQ4_NL:
            return strip_kernel<RepackedIq4Nl>();
        case GGML_TYPE_MXFP4:
            return strip_kernel<RepackedMxfp4>();
        default:
            return {};
    }
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(simple_repack);

RepackKernel simple_repack_of(Type type) { return HWY_DYNAMIC_DISPATCH(simple_repack)(type); }

}  // namespace heddle::cpu
#endif
