#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/simple_stream.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/stream_lanes.hpp"

/// Blocks of 32 elements with one scale, as many at once as a vector has sixteens: the first half
/// of each block in one vector, the second half in another.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_CODE_STREAMS

StreamKernel simple_stream(Type) { return {}; }

#else
namespace {

/// The column for as many blocks as are multiplied at once.
struct ColumnGroup {
    std::int8_t low[16 * kSixteens];   ///< elements 0 .. 15 of each block
    std::int8_t high[16 * kSixteens];  ///< elements 16 .. 31
    float scales[4];
    float
        offsets[4];  ///< what the codes of the rows have too much, times the codes' sums; negative
};

/// Sixteen bytes of each of as many blocks as fit.
template <std::size_t kStride>
HWY_INLINE hn::Vec<ByteLanes> gather(const std::byte* from) {
    const hn::FixedTag<std::uint8_t, 32> two;
    const auto first = hn::Combine(two, load_bytes(from + kStride), load_bytes(from));
#if HWY_MAX_BYTES >= 64
    const auto second =
        hn::Combine(two, load_bytes(from + 3 * kStride), load_bytes(from + 2 * kStride));
    return hn::Combine(ByteLanes(), second, first);
#else
    return first;
#endif
}

/// The scales of as many blocks as are multiplied at once; zero for the rest.
template <std::size_t kStride>
HWY_INLINE hn::Vec<Quad> gather_scales(const std::byte* from) {
    std::uint64_t halves = 0;
    for (std::size_t i = 0; i < kSixteens; ++i) {
        halves |= std::uint64_t{read<std::uint16_t>(from + i * kStride)} << 16 * i;
    }
    const auto bits = hn::Set(hn::FixedTag<std::uint64_t, 1>(), halves);
    return hn::PromoteTo(Quad(), hn::BitCast(hn::FixedTag<hwy::float16_t, 4>(), bits));
}

struct StreamQ4_0 {
    using Block = block_q4_0;
    static constexpr int kOffset = 8;
    static constexpr int kMostCode = 15;

    static HWY_INLINE void unpack(const std::byte* from, hn::Vec<ByteLanes>& low,
                                  hn::Vec<ByteLanes>& high) {
        const auto bytes = gather<sizeof(Block)>(from + offsetof(Block, qs));
        low = hn::And(bytes, hn::Set(ByteLanes(), 15));
        high = hn::ShiftRight<4>(bytes);
    }
};

struct StreamQ8_0 {
    using Block = block_q8_0;
    static constexpr int kOffset = 128;
    static constexpr int kMostCode = 255;

    static HWY_INLINE void unpack(const std::byte* from, hn::Vec<ByteLanes>& low,
                                  hn::Vec<ByteLanes>& high) {
        const auto top = hn::Set(ByteLanes(), 128);
        low = hn::Xor(gather<sizeof(Block)>(from + offsetof(Block, qs)), top);
        high = hn::Xor(gather<sizeof(Block)>(from + offsetof(Block, qs) + 16), top);
    }
};

template <class Format>
void arrange(const void* from, std::int64_t depth, std::byte* to) {
    const auto* blocks = static_cast<const std::byte*>(from);
    auto* groups = reinterpret_cast<ColumnGroup*>(to);
    const std::int64_t count = depth / 32;
    std::memset(&groups[(count - 1) / kSixteens], 0, sizeof *groups);  // the last may be in part
    for (std::int64_t i = 0; i < count; ++i) {
        const std::byte* block = blocks + i * static_cast<std::int64_t>(sizeof(block_q8_0));
        ColumnGroup& group = groups[i / kSixteens];
        const std::int64_t place = i % kSixteens;
        std::memcpy(group.low + 16 * place, block + offsetof(block_q8_0, qs), 16);
        std::memcpy(group.high + 16 * place, block + offsetof(block_q8_0, qs) + 16, 16);
        group.scales[place] = read_half(block);
        std::int32_t sum = 0;
        for (int j = 0; j < 16; ++j) sum += group.low[16 * place + j] + group.high[16 * place + j];
        group.offsets[place] = static_cast<float>(-Format::kOffset * sum);
    }
}

template <class Format, class Products>
struct RowSum {
    hn::Vec<FloatLanes> total;
    hn::Vec<Quad> rest;

    HWY_INLINE RowSum() : total(hn::Zero(FloatLanes())), rest(hn::Zero(Quad())) {}

    HWY_INLINE void add(const std::byte* from, const ColumnGroup& group) {
        auto low = hn::Zero(ByteLanes()), high = low;
        Format::unpack(from, low, high);
        const auto other = [](const std::int8_t* codes) HWY_ATTR {
            return hn::BitCast(WordLanes(), hn::LoadU(hn::ScalableTag<std::int8_t>(), codes));
        };
        auto sum = Products::multiply_add(low, other(group.low), hn::Zero(WordLanes()));
        sum = Products::multiply_add(high, other(group.high), sum);
        const auto unit = hn::Mul(gather_scales<sizeof(typename Format::Block)>(from),
                                  hn::LoadU(Quad(), group.scales));
        total = hn::MulAdd(hn::ConvertTo(FloatLanes(), sum), spread(unit), total);
        rest = hn::MulAdd(unit, hn::LoadU(Quad(), group.offsets), rest);
    }

    HWY_INLINE float get() const {
        return hn::GetLane(hn::SumOfLanes(FloatLanes(), total)) +
               hn::GetLane(hn::SumOfLanes(Quad(), rest));
    }
};

template <class Format, class Products>
void stream(const Panel& panel, const std::byte* column, float* out) {
    constexpr std::size_t kSize = sizeof(typename Format::Block) * kSixteens;
    const auto* groups = reinterpret_cast<const ColumnGroup*>(column);
    const std::int64_t count = panel.depth / 32 / kSixteens, left = panel.depth / 32 % kSixteens;
    for (std::int64_t r = 0; r < panel.count; ++r) {
        const std::byte* row = panel.rows + static_cast<std::size_t>(r) * panel.pitch;
        RowSum<Format, Products> sum;
        for (std::int64_t g = 0; g < count; ++g, row += kSize) {
            sum.add(row, groups[g]);
        }
        if (left > 0) {  // no byte behind the row is read
            std::byte last[kSize] = {};
            std::memcpy(last, row, static_cast<std::size_t>(left) * (kSize / kSixteens));
            sum.add(last, groups[count]);
        }
        out[r] = sum.get();
    }
}

template <class Format>
StreamKernel kernel() {
#if HWY_TARGET == HWY_AVX3
    if (FusedBytes::is_there()) {
        return {.arrange = arrange<Format>, .multiply = stream<Format, FusedBytes>};
    }
#endif
    if constexpr (Format::kMostCode <= 127) {
        return {.arrange = arrange<Format>, .multiply = stream<Format, PairedBytes>};
    }
    return {};
}

}  // namespace

StreamKernel simple_stream(Type type) {
    if (type == GGML_TYPE_Q4_0) return kernel<StreamQ4_0>();
    if (type == GGML_TYPE_Q8_0) return kernel<StreamQ8_0>();
    return {};
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(simple_stream);

StreamKernel simple_stream_of(Type type) { return HWY_DYNAMIC_DISPATCH(simple_stream)(type); }

}  // namespace heddle::cpu
#endif
