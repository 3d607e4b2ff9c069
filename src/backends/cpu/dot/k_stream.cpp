#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_stream.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/stream_lanes.hpp"

/// Super-blocks, as many bytes at once as a vector has.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_CODE_STREAMS

StreamKernel k_stream(Type) { return {}; }

#else
namespace {

constexpr int kBytes = 16 * kSixteens;  ///< of a vector

/// The column for a super-block.
struct ColumnBlock {
    std::int8_t codes[QK_K];  ///< in the order in which the format unpacks them
    float sums[QK_K / 16];    ///< of codes, as the format wants them
    float scale;
    float padding[15];
};
static_assert(sizeof(ColumnBlock) <= 2 * QK_K);

HWY_INLINE hn::Vec<WordLanes> load_words(const std::int8_t* codes) {
    return hn::BitCast(WordLanes(), hn::LoadU(hn::ScalableTag<std::int8_t>(), codes));
}

/// A float for each sixteen elements of a super-block.
class Units {
public:
    /// `compute(i)` gives floats number i and up, as many as a vector has.
    template <class Compute>
    HWY_INLINE explicit Units(Compute compute)
#if HWY_MAX_BYTES >= 64
        : all_(compute(0)){}
#else
    {
        hn::Store(compute(0), FloatLanes(), all_);
        hn::Store(compute(8), FloatLanes(), all_ + 8);
    }
#endif

          /// Float `first` + i fills the lanes of sixteen number i of a vector.
          HWY_INLINE hn::Vec<FloatLanes> spread(int first) const {
#if HWY_MAX_BYTES >= 64
        return look_up(first, 0, 1, 2, 3);
#else
        const hn::FixedTag<float, 4> half;
        return hn::Combine(FloatLanes(), hn::Set(half, all_[first + 1]),
                           hn::Set(half, all_[first]));
#endif
    }

    /// Float `first` fills the lanes of the first 32 bytes of a vector, float `first` + 4 those of
    /// the rest.
    HWY_INLINE hn::Vec<FloatLanes> spread_pairs(int first) const {
#if HWY_MAX_BYTES >= 64
        return look_up(first, 0, 0, 4, 4);
#else
        return hn::Set(FloatLanes(), all_[first]);
#endif
    }

private:
#if HWY_MAX_BYTES >= 64
    HWY_INLINE hn::Vec<FloatLanes> look_up(int first, int a, int b, int c, int d) const {
        const std::int32_t order[16] = {
            first + a, first + a, first + a, first + a, first + b, first + b, first + b, first + b,
            first + c, first + c, first + c, first + c, first + d, first + d, first + d, first + d};
        return hn::TableLookupLanes(all_, hn::SetTableIndices(FloatLanes(), order));
    }

    hn::Vec<FloatLanes> all_;
#else
    HWY_ALIGN float all_[16];
#endif
};

template <class Byte>
HWY_INLINE hn::Vec<FloatLanes> to_floats(const Byte* from) {
    const hn::Rebind<Byte, FloatLanes> bytes;
    return hn::ConvertTo(FloatLanes(), hn::PromoteTo(WordLanes(), hn::LoadU(bytes, from)));
}

/// A row's sum in parts that do not wait for each other.
struct RowSum {
    hn::Vec<FloatLanes> low, high, rest;

    HWY_INLINE RowSum()
        : low(hn::Zero(FloatLanes())), high(hn::Zero(FloatLanes())), rest(hn::Zero(FloatLanes())) {}

    HWY_INLINE float get() const {
        return hn::GetLane(hn::SumOfLanes(FloatLanes(), hn::Add(hn::Add(low, high), rest)));
    }
};

/// The element at a place of an arranged block: nibbles of one vector after the other, low ones
/// before high ones. `run` bytes hold as many elements in their low nibbles, and the next ones in
/// their high nibbles.
constexpr int element_of_nibbles(int place, int run) {
    const int vector = place / (2 * kBytes), high = place / kBytes % 2, lane = place % kBytes;
    const int byte = vector * kBytes + lane;
    return 2 * run * (byte / run) + run * high + byte % run;
}

struct StreamQ4K {
    using Block = block_q4_K;

    static constexpr int element(int place) { return element_of_nibbles(place, 32); }

    /// A minimum counts for 32 elements, that is for two sums.
    static void set_sums(const std::byte* block, ColumnBlock& to) {
        for (int g = 0; g < QK_K / 16; ++g) {
            const auto sum = read<std::int16_t>(block + offsetof(block_q8_K, bsums) + 2 * g);
            to.sums[g] = -to.scale * static_cast<float>(sum);
        }
    }

    template <class Products>
    static HWY_INLINE void add(const std::byte* from, const ColumnBlock& column, RowSum& row) {
        const std::byte* packed = from + offsetof(Block, scales);
        const auto a = read<std::uint32_t>(packed), b = read<std::uint32_t>(packed + 4);
        const auto c = read<std::uint32_t>(packed + 8);
        constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
        // Each scale and minimum twice, once for each sixteen elements.
        const auto twice = [](std::uint32_t low, std::uint32_t high, std::uint8_t* to) HWY_ATTR {
            const auto both = hn::BitCast(Bytes(), hn::Set(hn::FixedTag<std::uint64_t, 2>(),
                                                           std::uint64_t{high} << 32 | low));
            hn::Store(hn::InterleaveLower(Bytes(), both, both), Bytes(), to);
        };
        HWY_ALIGN std::uint8_t scales[16], minima[16];
        twice(a & kSix, (c & kFour) | (a >> 6 & kTwo) << 4, scales);
        twice(b & kSix, (c >> 4 & kFour) | (b >> 6 & kTwo) << 4, minima);
        const auto d = hn::Set(FloatLanes(), read_half(from + offsetof(Block, d)) * column.scale);
        const auto dmin = hn::Set(FloatLanes(), read_half(from + offsetof(Block, dmin)));
        const Units units([&](int i) HWY_ATTR {
            const auto below = hn::Mul(to_floats(minima + i), dmin);
            row.rest = hn::MulAdd(below, hn::LoadU(FloatLanes(), column.sums + i), row.rest);
            return hn::Mul(to_floats(scales + i), d);
        });
        HWY_UNROLL(4)
        for (int i = 0; i < QK_K / 2; i += kBytes) {
            const auto bytes = load_lanes(from + offsetof(Block, qs) + i);
            const auto low = hn::And(bytes, hn::Set(ByteLanes(), 15));
            const auto high = hn::ShiftRight<4>(bytes);
            const std::int8_t* codes = column.codes + 2 * i;
            const auto low_sum =
                Products::multiply_add(low, load_words(codes), hn::Zero(WordLanes()));
            const auto high_sum =
                Products::multiply_add(high, load_words(codes + kBytes), hn::Zero(WordLanes()));
            row.low = hn::MulAdd(hn::ConvertTo(FloatLanes(), low_sum), units.spread_pairs(i / 8),
                                 row.low);
            row.high = hn::MulAdd(hn::ConvertTo(FloatLanes(), high_sum),
                                  units.spread_pairs(i / 8 + 2), row.high);
        }
    }
};

struct StreamQ6K {
    using Block = block_q6_K;

    static constexpr int element(int place) { return element_of_nibbles(place, 64); }

    /// Codes of rows are 32 too large.
    static void set_sums(const std::byte* block, ColumnBlock& to) {
        for (int g = 0; g < QK_K / 16; ++g) {
            std::int32_t sum = 0;
            for (int i = 0; i < 16; ++i) {
                sum += static_cast<std::int8_t>(block[offsetof(block_q8_K, qs) + 16 * g + i]);
            }
            to.sums[g] = static_cast<float>(-32 * sum);
        }
    }

    template <class Products>
    static HWY_INLINE void add(const std::byte* from, const ColumnBlock& column, RowSum& row) {
        const auto d = hn::Set(FloatLanes(), read_half(from + offsetof(Block, d)) * column.scale);
        const auto* scales = reinterpret_cast<const std::int8_t*>(from + offsetof(Block, scales));
        const Units units([&](int i) HWY_ATTR {
            const auto unit = hn::Mul(to_floats(scales + i), d);
            row.rest = hn::MulAdd(unit, hn::LoadU(FloatLanes(), column.sums + i), row.rest);
            return unit;
        });
        const auto two_bits = hn::Set(ByteLanes(), 0x30);
        HWY_UNROLL(4)
        for (int i = 0; i < QK_K / 2; i += kBytes) {
            const auto bytes = load_lanes(from + offsetof(Block, ql) + i);
            const auto upper = upper_bits(from + offsetof(Block, qh) + 32 * (i / 64), i / 32 % 2);
            const auto low = hn::Or(hn::And(bytes, hn::Set(ByteLanes(), 15)),
                                    hn::And(shifted_left(upper), two_bits));
            const auto high = hn::Or(hn::ShiftRight<4>(bytes), hn::And(upper, two_bits));
            const std::int8_t* codes = column.codes + 2 * i;
            const auto low_sum =
                Products::multiply_add(low, load_words(codes), hn::Zero(WordLanes()));
            const auto high_sum =
                Products::multiply_add(high, load_words(codes + kBytes), hn::Zero(WordLanes()));
            const int group = 8 * (i / 64) + 2 * (i / 32 % 2);
            row.low =
                hn::MulAdd(hn::ConvertTo(FloatLanes(), low_sum), units.spread(group), row.low);
            row.high = hn::MulAdd(hn::ConvertTo(FloatLanes(), high_sum), units.spread(group + 4),
                                  row.high);
        }
    }

private:
    using HalfWords = hn::ScalableTag<std::uint16_t>;

    /// Bits 0 and 1 belong to a vector's low nibbles, bits 4 and 5 to the high ones.
    static HWY_INLINE hn::Vec<ByteLanes> upper_bits(const std::byte* from,
                                                    [[maybe_unused]] int odd) {
        const hn::FixedTag<std::uint8_t, 32> half;
        const hn::FixedTag<std::uint16_t, 16> words;
        const auto bits = hn::LoadU(half, reinterpret_cast<const std::uint8_t*>(from));
        const auto next = hn::BitCast(half, hn::ShiftRight<2>(hn::BitCast(words, bits)));
#if HWY_MAX_BYTES >= 64
        return hn::Combine(ByteLanes(), next, bits);
#else
        return odd != 0 ? next : bits;
#endif
    }

    /// Bits that cross into the next byte are masked off by the caller.
    static HWY_INLINE hn::Vec<ByteLanes> shifted_left(hn::Vec<ByteLanes> bytes) {
        return hn::BitCast(ByteLanes(), hn::ShiftLeft<4>(hn::BitCast(HalfWords(), bytes)));
    }
};

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
        Format::set_sums(block, *column);
    }
}

template <class Format, class Products>
void stream(const Panel& panel, const std::byte* column, float* out) {
    const auto* columns = reinterpret_cast<const ColumnBlock*>(column);
    const std::int64_t count = panel.depth / QK_K;
    for (std::int64_t r = 0; r < panel.count; ++r) {
        const std::byte* block = panel.rows + static_cast<std::size_t>(r) * panel.pitch;
        RowSum sum;
        for (std::int64_t i = 0; i < count; ++i, block += sizeof(typename Format::Block)) {
            Format::template add<Products>(block, columns[i], sum);
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
    return {.arrange = arrange<Format>, .multiply = stream<Format, PairedBytes>};
}

}  // namespace

StreamKernel k_stream(Type type) {
    if (type == GGML_TYPE_Q4_K) return kernel<StreamQ4K>();
    if (type == GGML_TYPE_Q6_K) return kernel<StreamQ6K>();
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
