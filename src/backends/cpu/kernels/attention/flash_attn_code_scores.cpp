#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_code_scores.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/dot/formats/simple.hpp"
#include "backends/cpu/dot/micro_panel_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_words.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"

/// Products of queries with keys of whole numbers in blocks, without turning keys into f32: queries
/// become whole numbers of 16 bits, and a vector has one lane per key, so that sums of a block are
/// exact, need no adding up across lanes, and are scaled for all keys at once.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_MICRO_PANELS

CodeScorer code_scorer(Type) { return {}; }

#else
namespace {

constexpr hn::Repartition<std::uint8_t, decltype(kLanes)> kKeyBytes;
constexpr std::int64_t kRows = kVector;  // that are multiplied at once

// ---- queries -----------------------------------------------------------------------------------

/// 32 elements of a query. Numbers stand in pairs, as they are multiplied: of elements 0 and 2, 1
/// and 3, 4 and 6, ...
using Query = CodedQueryBlock;

/// The largest magnitude of 32 values; NaN if one of them is infinite or NaN.
float largest_of(const float* values) {
    const hn::FixedTag<float, 4> four;
    auto most = hn::Zero(four), nothing = most;
    for (int i = 0; i < 32; i += 4) {
        const auto v = hn::LoadU(four, values + i);
        most = hn::Max(most, hn::Abs(v));
        nothing = hn::MulAdd(v, hn::Zero(four), nothing);  // NaN unless finite
    }
    return hn::GetLane(hn::MaxOfLanes(four, most)) + hn::GetLane(hn::SumOfLanes(four, nothing));
}

void code_query(const float* values, std::int64_t depth, std::byte* to) {
    constexpr float kLeast = 0x1p-100f;  // what is below counts as zero: its inverse is too large
    const hn::FixedTag<float, 4> four;
    const hn::FixedTag<std::int32_t, 4> numbers;
    const hn::FixedTag<std::int64_t, 2> pairs;
    auto* query = reinterpret_cast<Query*>(to);
    for (std::int64_t b = 0; b < depth / 32; ++b, ++query, values += 32) {
        const float most = largest_of(values);
        const auto factor = hn::Set(four, most > kLeast ? kMostNumber / most : 0.0f);
        auto sum = hn::Zero(four);
        for (int i = 0; i < 32; i += 8) {
            const auto v0 = hn::LoadU(four, values + i), v1 = hn::LoadU(four, values + i + 4);
            sum = hn::Add(sum, hn::Add(v0, v1));
            const auto n0 = hn::BitCast(pairs, hn::NearestInt(hn::Mul(v0, factor)));
            const auto n1 = hn::BitCast(pairs, hn::NearestInt(hn::Mul(v1, factor)));
            const auto low = hn::BitCast(numbers, hn::InterleaveLower(pairs, n0, n1));
            const auto high = hn::BitCast(numbers, hn::InterleaveUpper(pairs, n0, n1));
            hn::StoreU(hn::Or(hn::And(low, hn::Set(numbers, 0xffff)), hn::ShiftLeft<16>(high)),
                       numbers, query->pairs + i / 2);
        }
        query->scale = most / kMostNumber;
        query->sum = hn::GetLane(hn::SumOfLanes(four, sum));
    }
}

// ---- products ----------------------------------------------------------------------------------

/// Adds products of four codes of each key with pairs from `pair` on.
template <class Products, int kQueries, class Codes>
HWY_INLINE void multiply_codes(Codes codes, const Query* const* query, int pair,
                               Ints (&sums)[kQueries], Ints (&rest)[kQueries]) {
    const auto words = hn::BitCast(kWords, codes);
    const WordVec even = hn::ShiftRight<8>(hn::ShiftLeft<8>(words));
    const WordVec odd = hn::ShiftRight<8>(words);
    // Inlined by force: compilers that call it have all sums in memory.
    unrolled<kQueries>([&](auto q) HWY_ATTR __attribute__((always_inline)) {
        const std::int32_t* pairs = query[q]->pairs + pair;
        sums[q] = Products::multiply_add(even, pairs[0], sums[q], rest[q]);
        sums[q] = Products::multiply_add(odd, pairs[1], sums[q], rest[q]);
    });
}

/// The sums of products of a block of each key.
template <class Format, class Products, int kQueries>
HWY_INLINE void multiply_blocks(MicroPanelRows rows, const Query* const* query,
                                V (&out)[kQueries]) {
    Ints first[4], second[4], sums[kQueries], rest[kQueries];
    load_transposed(kSums, rows + Format::load_at(0), first);
    if constexpr (Format::kLoads == 2) load_transposed(kSums, rows + Format::load_at(1), second);
    unrolled<kQueries>([&](auto q) HWY_ATTR { sums[q] = rest[q] = hn::Zero(kSums); });
    unrolled<4>([&](auto w) HWY_ATTR {
        const hn::RebindToSigned<decltype(kKeyBytes)> codes;
        auto low = hn::Zero(codes), high = low;
        const auto bytes = hn::BitCast(kKeyBytes, first[w]);
        if constexpr (Format::kLoads == 2) {
            Format::decode(low, high, bytes, hn::BitCast(kKeyBytes, second[w]));
        } else {
            Format::decode(low, high, bytes);
        }
        multiply_codes<Products>(low, query, 2 * w, sums, rest);
        multiply_codes<Products>(high, query, 8 + 2 * w, sums, rest);
    });
    unrolled<kQueries>([&](auto q) HWY_ATTR { out[q] = total_of(sums[q], rest[q]); });
}

/// A half of each row as f32.
template <class Get>
HWY_INLINE V halves_of(MicroPanelRows rows, Get get) {
    HWY_ALIGN F16 halves[kRows];
    HWY_UNROLL(16)
    for (std::int64_t r = 0; r < kRows; ++r) halves[r] = get(rows.row(r));
    return load_f32(kLanes, halves);
}

/// The products of `kRows` keys.
template <class Format, class Products, int kQueries>
HWY_INLINE void score_keys(MicroPanelRows rows, std::int64_t depth, const std::byte* const* queries,
                           bool is_alone, float (&out)[kQueries][kRows]) {
    V totals[kQueries], sums[kQueries];
    const Query* query[kQueries];
    unrolled<kQueries>([&](auto q) HWY_ATTR {
        totals[q] = hn::Zero(kLanes);
        query[q] = reinterpret_cast<const Query*>(queries[q]);
    });
    for (std::int64_t i = 0; i < depth; i += 32) {
        // A single head goes on with the next keys, which no prefetcher foresees: they come from
        // L2. Keys of the next head are near enough.
        HWY_UNROLL(16)
        for (std::int64_t r = 0; is_alone && r < kRows; ++r) hwy::Prefetch(rows.row(r + kRows));
        const V scale = halves_of(
            rows, [](const std::byte* block) HWY_ATTR { return Format::stored_scale(block, 0); });
        multiply_blocks<Format, Products>(rows, query, sums);
        unrolled<kQueries>([&](auto q) HWY_ATTR {
            const V factor = hn::Mul(scale, hn::Set(kLanes, query[q]->scale));
            totals[q] = hn::MulAdd(sums[q], factor, totals[q]);
        });
        if constexpr (Format::kHasMinimum) {
            const V minimum = halves_of(rows, [](const std::byte* block) HWY_ATTR {
                return Format::stored_minimum(block);
            });
            unrolled<kQueries>([&](auto q) HWY_ATTR {
                totals[q] = hn::MulAdd(minimum, hn::Set(kLanes, query[q]->sum), totals[q]);
            });
        }
        rows = rows + sizeof(typename Format::Block);
        unrolled<kQueries>([&](auto q) HWY_ATTR { ++query[q]; });
    }
    unrolled<kQueries>([&](auto q) HWY_ATTR { hn::Store(totals[q], kLanes, out[q]); });
}

template <class Format, class Products, int kQueries>
void score_block(const MatrixView& block, const std::byte* const* queries, float* const* out,
                 std::int64_t first, bool is_alone) {
    // The last keys are taken together with some that are done. If there are not enough, each
    // stands for all lanes.
    const std::int64_t back = kRows - block.count;
    const bool is_short = back > first;
    for (std::int64_t j = 0; j < block.count; j += is_short ? 1 : kRows) {
        const std::int64_t from = is_short ? j : -back;
        const MicroPanelRows rows{block.rows + from * static_cast<std::int64_t>(block.pitch),
                                  is_short ? 0 : block.pitch};
        HWY_ALIGN float results[kQueries][kRows];
        score_keys<Format, Products>(rows, block.depth, queries, is_alone, results);
        for (int q = 0; q < kQueries; ++q) {
            float* scores = out[q] + first + from;
            if (is_short) {
                *scores = results[q][0];
            } else {
                hn::StoreU(hn::Load(kLanes, results[q]), kLanes, scores);
            }
        }
    }
}

template <class Format, class Products>
void score_codes(const MatrixView& view, std::span<const HeadScores> heads, int queries,
                 const Ahead& ahead) {
    for_blocks(view, heads, kRows, queries, ahead,
               [&](auto number, const MatrixView& block, const HeadScores& head, int q,
                   std::int64_t first) HWY_ATTR {
                   score_block<Format, Products, number>(block, head.queries + q, head.scores + q,
                                                         first, heads.size() == 1);
               });
}

template <class Format>
CodeScorer scorer() {
    if (FusedWords::is_there()) return {code_query, score_codes<Format, FusedWords>};
    return {code_query, score_codes<Format, PairedWords>};
}

}  // namespace

CodeScorer code_scorer(Type type) {
    if (type == GGML_TYPE_Q8_0) return scorer<BlockFormat<GGML_TYPE_Q8_0> >();
    if (type == GGML_TYPE_Q4_0) return scorer<BlockFormat<GGML_TYPE_Q4_0> >();
    if (type == GGML_TYPE_Q4_1) return scorer<BlockFormat<GGML_TYPE_Q4_1> >();
    if (type == GGML_TYPE_IQ4_NL) return scorer<BlockFormat<GGML_TYPE_IQ4_NL> >();
    return {};
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(code_scorer);

CodeScorer code_scorer_of(Type type) { return HWY_DYNAMIC_DISPATCH(code_scorer)(type); }

}  // namespace heddle::cpu
#endif
