#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_code_sums.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/dot/block_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_words.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"

/// Weighted sums of values of whole numbers in blocks, without turning values into f32: weights,
/// times the scales of blocks, become whole numbers of 16 bits, for a few values at a time.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_MICRO_PANELS

AddRows code_adder(Type) { return nullptr; }

#else
namespace {

/// Values that are taken at a time: value r and value r + kApart are multiplied together.
constexpr std::int64_t kValues = 32, kApart = kValues / 2;

using Blocks = const Q8Block* const*;

/// The weights of `kValues` values for one block of each.
struct CodedWeights {
    HWY_ALIGN std::int32_t pairs[4][kApart];
    HWY_ALIGN float scale[4];
};

/// Weights below that count as nothing: the inverse would be too large.
constexpr float kLeast = 0x1p-100f;

template <int kQueries>
HWY_INLINE void code_weights(Blocks blocks, std::int64_t b, const float* const* weights,
                             CodedWeights& to) {
    HWY_ALIGN F16 scales[kValues];
    HWY_UNROLL(32)
    for (std::int64_t r = 0; r < kValues; ++r) scales[r].bits = blocks[r][b].scale;
    HWY_ALIGN float scaled[kQueries][kValues];
    // As whole numbers, magnitudes compare as they should, and NaN is above them all.
    Ints most[4];
    unrolled<4>([&](auto q) HWY_ATTR { most[q] = hn::BitCast(kSums, hn::Set(kLanes, kLeast)); });
    for (std::int64_t j = 0; j < kValues; j += kVector) {
        const V scale = load_f32(kLanes, scales + j);
        unrolled<kQueries>([&](auto q) HWY_ATTR {
            // What has no weight stays without, whatever its scale is.
            const V weight = hn::LoadU(kLanes, weights[q] + j);
            const V product =
                hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(kLanes)), hn::Mul(weight, scale));
            hn::Store(product, kLanes, scaled[q] + j);
            most[q] = hn::Max(most[q], hn::BitCast(kSums, hn::Abs(product)));
        });
    }
    const FourFloats four;
    const auto largest =
        hn::BitCast(four, fold_four(kSums, most[0], most[1], most[2], most[3], MaxOp()));
    hn::Store(hn::Mul(largest, hn::Set(four, 1 / kMostNumber)), four, to.scale);
    HWY_ALIGN float factor[4];
    hn::Store(hn::Div(hn::Set(four, kMostNumber), largest), four, factor);
    unrolled<kQueries>([&](auto q) HWY_ATTR {
        const V by = hn::Set(kLanes, factor[q]);
        const auto numbers = [&](std::int64_t j) HWY_ATTR {
            return numbers_of(hn::Mul(hn::Load(kLanes, scaled[q] + j), by));
        };
        for (std::int64_t j = 0; j < kApart; j += kVector) {
            const Ints low = hn::And(numbers(j), hn::Set(kSums, 0xffff));
            const Ints high = hn::ShiftLeft<16>(numbers(j + kApart));
            hn::Store(hn::Or(low, high), kSums, to.pairs[q] + j);
        }
    });
}

/// `low` and `high` have fours of elements in turn; they become elements one after the other.
HWY_INLINE void put_in_order(V& low, V& high) {
#if HWY_MAX_BYTES == 16
    static_cast<void>(low), static_cast<void>(high);
#else
    V first = hn::ConcatLowerLower(kLanes, high, low);
    V second = hn::ConcatUpperUpper(kLanes, high, low);
#if HWY_MAX_BYTES == 64
    HWY_ALIGN static constexpr std::int32_t kOrder[16] = {0, 1, 2, 3, 8,  9,  10, 11,
                                                          4, 5, 6, 7, 12, 13, 14, 15};
    const auto order = hn::SetTableIndices(kLanes, kOrder);
    first = hn::TableLookupLanes(first, order);
    second = hn::TableLookupLanes(second, order);
#endif
    low = first;
    high = second;
#endif
}

/// Words of as many codes as fit into a vector.
HWY_INLINE WordVec words_at(const std::int8_t* codes) {
    return hn::PromoteTo(kWords, hn::LoadU(hn::Rebind<std::int8_t, decltype(kWords)>(), codes));
}

/// Adds `kValues` values to 2 * kVector elements, which are at `offset` in a block.
template <class Products, int kQueries>
HWY_INLINE void add_elements(Blocks blocks, std::int64_t b, std::int64_t offset,
                             const CodedWeights& weights, float* const* y) {
    Ints low[kQueries], high[kQueries], low_rest[kQueries], high_rest[kQueries];
    unrolled<kQueries>(
        [&](auto q) HWY_ATTR { low[q] = high[q] = low_rest[q] = high_rest[q] = hn::Zero(kSums); });
    for (std::int64_t r = 0; r < kApart; ++r) {
        const WordVec first = words_at(blocks[r][b].codes + offset);
        const WordVec second = words_at(blocks[r + kApart][b].codes + offset);
        const WordVec lower = hn::InterleaveLower(kWords, first, second);
        const WordVec upper = hn::InterleaveUpper(kWords, first, second);
        unrolled<kQueries>([&](auto q) HWY_ATTR {
            const std::int32_t& pair = weights.pairs[q][r];
            low[q] = Products::multiply_add(lower, pair, low[q], low_rest[q]);
            high[q] = Products::multiply_add(upper, pair, high[q], high_rest[q]);
        });
    }
    unrolled<kQueries>([&](auto q) HWY_ATTR {
        V first = total_of(low[q], low_rest[q]), second = total_of(high[q], high_rest[q]);
        put_in_order(first, second);
        const V scale = hn::Set(kLanes, weights.scale[q]);
        float* to = y[q] + 32 * b + offset;
        hn::StoreU(hn::MulAdd(first, scale, hn::LoadU(kLanes, to)), kLanes, to);
        hn::StoreU(hn::MulAdd(second, scale, hn::LoadU(kLanes, to + kVector)), kLanes,
                   to + kVector);
    });
}

/// Adds `kValues` values.
template <class Products, int kQueries>
void add_values(Blocks blocks, std::int64_t depth, const float* const* weights, float* const* y) {
    // Weights for the next blocks are made before these are added: it takes long, but leaves the
    // CPU room for something else.
    CodedWeights coded[2];
    code_weights<kQueries>(blocks, 0, weights, coded[0]);
    for (std::int64_t b = 0; b < depth / 32; ++b) {
        if (b + 1 < depth / 32) {
            code_weights<kQueries>(blocks, b + 1, weights, coded[(b + 1) % 2]);
        }
        for (std::int64_t offset = 0; offset < 32; offset += 2 * kVector) {
            add_elements<Products, kQueries>(blocks, b, offset, coded[b % 2], y);
        }
    }
}

template <class Products, int kQueries>
void add_block(const MatrixView& block, const float* const* weights, float* const* y,
               std::int64_t first) {
    const Q8Block* blocks[kValues];
    for (std::int64_t r = 0; r < kValues; ++r) {
        blocks[r] = row_of<Q8Block>(block, r < block.count ? r : 0);
    }
    const float* shifted[kQueries];
    for (int q = 0; q < kQueries; ++q) shifted[q] = weights[q] + first;
    HWY_ALIGN float padded[kQueries][kValues];  // missing values are some without weight
    for (int q = 0; q < kQueries && block.count < kValues; ++q) {
        for (std::int64_t r = 0; r < kValues; ++r) {
            padded[q][r] = r < block.count ? shifted[q][r] : 0;
        }
        shifted[q] = padded[q];
    }
    add_values<Products, kQueries>(blocks, block.depth, shifted, y);
}

template <class Products>
void add_codes(const MatrixView& view, std::span<const HeadSums> heads, int queries,
               const Ahead& ahead) {
    for_blocks(view, heads, kValues, queries, ahead,
               [&](auto number, const MatrixView& block, const HeadSums& head, int q,
                   std::int64_t first) HWY_ATTR {
                   add_block<Products, number>(block, head.weights + q, head.sums + q, first);
               });
}

}  // namespace

AddRows code_adder(Type type) {
    if (type != GGML_TYPE_Q8_0) return nullptr;
    return FusedWords::is_there() ? add_codes<FusedWords> : add_codes<PairedWords>;
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(code_adder);

AddRows code_adder_of(Type type) { return HWY_DYNAMIC_DISPATCH(code_adder)(type); }

}  // namespace heddle::cpu
#endif
