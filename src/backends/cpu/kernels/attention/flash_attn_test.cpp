#include "ops/flash_attn.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "backends/cpu/kernels/attention/flash_attn_test_support.hpp"

namespace heddle::cpu {
namespace {

TEST(CpuFlashAttn, MixesEveryTypeOfKeysAndValues) {
    const std::pair<Type, Type> mixes[] = {
        {GGML_TYPE_F32, GGML_TYPE_F32},    {GGML_TYPE_F16, GGML_TYPE_F16},
        {GGML_TYPE_BF16, GGML_TYPE_BF16},  {GGML_TYPE_F16, GGML_TYPE_F32},
        {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0},  {GGML_TYPE_Q4_0, GGML_TYPE_F16},
        {GGML_TYPE_F16, GGML_TYPE_Q4_0},   {GGML_TYPE_Q5_1, GGML_TYPE_Q5_0},
        {GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL}};
    for (const auto& [k, v] : mixes) {
        SCOPED_TRACE(std::string(name_of(k)) + " " + std::string(name_of(v)));
        Workbench bench;
        const Operands x{bench.random(GGML_TYPE_F32, {64, 5, 4, 2}),
                         bench.random(k, {64, 83, 2, 2}), bench.random(v, {64, 83, 2, 2}),
                         block_mask(bench, {96, 6, 1, 1})};
        expect_attention(bench, x, {.scale = 0.125f});
    }
}

TEST(CpuFlashAttn, HasMaskSlopeSoftcapAndSinksInAnyCombination) {
    for (int options = 0; options < 16; ++options) {
        const bool mask = options & 1, bias = options & 2, cap = options & 4, sinks = options & 8;
        if (bias && !mask) continue;
        SCOPED_TRACE(options);
        Workbench bench;
        Operands x{bench.random(GGML_TYPE_F32, {40, 3, 6, 1}),
                   bench.random(GGML_TYPE_F16, {40, 113, 3, 1}),
                   bench.random(GGML_TYPE_F16, {24, 113, 3, 1})};
        if (mask) x.mask = block_mask(bench, {113, 3, 2, 1});
        if (sinks) x.sinks = bench.random(GGML_TYPE_F32, {6, 1, 1, 1}, -4, 4);
        expect_attention(
            bench, x,
            {.scale = 1, .max_bias = bias ? 8.0f : 0.0f, .logit_softcap = cap ? 2.0f : 0.0f});
    }
}

TEST(CpuFlashAttn, ReadsCachesThatArePermutedAndValuesInsideKeys) {
    Workbench bench;
    Tensor* cache = bench.random(GGML_TYPE_F16, {96, 2, 70, 1});
    Tensor* k = bench.permuted(cache, {0, 2, 1, 3});
    Tensor* v = bench.slice(k, {0, 0, 0, 0}, {64, 70, 2, 1});
    Tensor* q = bench.permuted(bench.random(GGML_TYPE_F32, {96, 8, 3, 1}), {0, 2, 1, 3});
    expect_attention(bench, {q, k, v}, {.scale = 0.1f});
}

TEST(CpuFlashAttn, WorksOnSeveralHeadsOfACacheAtATime) {
    struct Heads {
        std::int64_t q, k, v;
    };
    // More than are joined, a prime number of them, and different ones for keys and values.
    for (const auto& [heads, key_heads, value_heads] :
         {Heads{34, 34, 34}, Heads{20, 20, 20}, Heads{14, 7, 7}, Heads{12, 6, 4}}) {
        for (const auto& [k, v] :
             {std::pair{GGML_TYPE_F16, GGML_TYPE_F16}, std::pair{GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}}) {
            SCOPED_TRACE(std::to_string(heads) + " " + std::string(name_of(k)));
            Workbench bench;
            const Operands x{bench.random(GGML_TYPE_F32, {32, 2, heads, 2}),
                             interleaved(bench, k, 32, key_heads, 700, 2),
                             interleaved(bench, v, 32, value_heads, 700, 2),
                             block_mask(bench, {700, 2, 1, 1})};
            for (std::int64_t j = 100; j < 400; ++j) {  // whole tiles
                *at<std::uint16_t>(*x.mask, j, 0) = *at<std::uint16_t>(*x.mask, j, 1) = 0xfc00;
            }
            expect_attention(bench, x, {.scale = 0.5f});
        }
    }
}

/// Every number of queries that rows are read for at once, over parts that follow each other, with
/// and without a mask: what is prefetched must not matter.
TEST(CpuFlashAttn, GoesFromPartToPartOfACacheOfAnyType) {
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                            GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL}) {
        for (const std::int64_t group : {1, 2, 7}) {
            SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(group));
            Workbench bench;
            Operands x{bench.random(GGML_TYPE_F32, {96, 1, 3 * group, 1}),
                       interleaved(bench, type, 96, 3, 600, 1),
                       interleaved(bench, type, 160, 3, 600, 1)};
            if (group == 2) x.mask = block_mask(bench, {600, 1, 1, 1});
            expect_attention(bench, x, {.scale = 0.2f});
        }
    }
}

/// Around the ends of blocks of keys that all heads see before they go on.
TEST(CpuFlashAttn, HasAnyNumberOfKeysInACache) {
    for (const auto& [type, width] :
         {std::pair{GGML_TYPE_F16, 80}, std::pair{GGML_TYPE_BF16, 37},
          std::pair{GGML_TYPE_Q8_0, 64}, std::pair{GGML_TYPE_Q5_0, 64}}) {
        for (const std::int64_t keys : {1, 2, 7, 8, 9, 15, 17, 33, 63, 65, 197, 409}) {
            for (const std::int64_t group : {1, 3}) {
                SCOPED_TRACE(testing::Message()
                             << name_of(type) << ", " << keys << " keys, " << group << " queries");
                Workbench bench;
                Operands x{bench.random(GGML_TYPE_F32, {width, 1, 5 * group, 1}),
                           interleaved(bench, type, width, 5, keys, 1),
                           interleaved(bench, type, width, 5, keys, 1)};
                if (keys > 16) x.mask = block_mask(bench, {keys, 1, 1, 1});
                expect_attention(bench, x, {.scale = 0.3f});
            }
        }
    }
}

TEST(CpuFlashAttn, HasHeadsOfKeysAndValuesOfDifferentNumber) {
    Workbench bench;
    expect_attention(
        bench,
        {bench.random(GGML_TYPE_F32, {16, 2, 12, 1}), bench.random(GGML_TYPE_F32, {16, 20, 3, 1}),
         bench.random(GGML_TYPE_F32, {16, 20, 2, 1})},
        {.scale = 0.25f});
}

TEST(CpuFlashAttn, JoinsTheParts) {
    Workbench bench;
    const Operands x{bench.random(GGML_TYPE_F32, {32, 1, 4, 1}, -4, 4),
                     bench.random(GGML_TYPE_F16, {32, 2100, 2, 1}),
                     bench.random(GGML_TYPE_F16, {32, 2100, 2, 1}),
                     block_mask(bench, {2100, 1, 1, 1}), bench.random(GGML_TYPE_F32, {4, 1, 1, 1})};
    // A whole part may be masked.
    for (std::int64_t j = 0; j < 1100; ++j) *at<std::uint16_t>(*x.mask, j) = 0xfc00;
    expect_attention(bench, x, {.scale = 1});
}

TEST(CpuFlashAttn, LeavesNoTraceOfMaskedKeys) {
    Workbench bench;
    const Operands x{bench.random(GGML_TYPE_F32, {32, 4, 2, 1}),
                     bench.random(GGML_TYPE_F16, {32, 90, 1, 1}),
                     bench.random(GGML_TYPE_F16, {32, 90, 1, 1}), block_mask(bench, {90, 4, 1, 1})};
    for (const std::int64_t j : {3, 40, 89}) {
        for (std::int64_t t = 0; t < 4; ++t) *at<std::uint16_t>(*x.mask, j, t) = 0xfc00;
        std::memset(at(*x.k, 0, j), 0xff, 64);  // NaN
        std::memset(at(*x.v, 0, j), 0xff, 64);
    }
    expect_attention(bench, x, {.scale = 1});
}

/// The rest of a cache, which is not filled yet, is hidden; each query sees one key more.
TEST(CpuFlashAttn, SeesTheFilledPartOfACacheOfAnyLength) {
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_Q8_0}) {
        for (const std::int64_t filled : {1, 15, 16, 17, 70, 131, 254}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << ", " << filled << " keys");
            Workbench bench;
            Operands x{bench.random(GGML_TYPE_F32, {32, 2, 4, 1}),
                       bench.random(type, {32, 256, 2, 1}), bench.random(type, {32, 256, 2, 1}),
                       bench.random(GGML_TYPE_F16, {256, 2, 1, 1})};
            for (std::int64_t t = 0; t < 2; ++t) {
                for (std::int64_t j = filled + t; j < 256; ++j) {
                    *at<std::uint16_t>(*x.mask, j, t) = 0xfc00;
                }
            }
            expect_attention(bench, x, {.scale = 0.25f});
        }
    }
}

TEST(CpuFlashAttn, GivesZerosWhereNoKeyCounts) {
    for (const bool with_sinks : {false, true}) {
        Workbench bench;
        Tensor* mask = bench.random(GGML_TYPE_F16, {10, 2, 1, 1});
        for (std::int64_t j = 0; j < 10; ++j) *at<std::uint16_t>(*mask, j, 1) = 0xfc00;
        Tensor* sinks = with_sinks ? bench.random(GGML_TYPE_F32, {2, 1, 1, 1}) : nullptr;
        const Operands x{bench.random(GGML_TYPE_F32, {8, 2, 2, 1}),
                         bench.random(GGML_TYPE_F32, {8, 10, 1, 1}),
                         bench.random(GGML_TYPE_F32, {8, 10, 1, 1}), mask, sinks};
        expect_attention(bench, x, {});
        const Operands none{x.q, bench.tensor(GGML_TYPE_F32, {8, 0, 1, 1}),
                            bench.tensor(GGML_TYPE_F32, {8, 0, 1, 1}), nullptr, sinks};
        expect_attention(bench, none, {});
    }
}

TEST(CpuFlashAttn, HasEveryTypeWithEveryOptionForFewAndManyQueries) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                            GGML_TYPE_Q4_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL}) {
        for (const std::int64_t queries : {1, 19}) {
            for (int options = 0; options < 16; ++options) {
                const bool mask = options & 1, bias = options & 2, cap = options & 4;
                const bool sinks = options & 8;
                if (bias && !mask) continue;
                SCOPED_TRACE(testing::Message() << name_of(type) << ", " << queries
                                                << " queries, options " << options);
                Workbench bench;
                Operands x{bench.random(GGML_TYPE_F32, {32, queries, 6, 1}),
                           bench.random(type, {32, 71, 3, 1}), bench.random(type, {64, 71, 3, 1})};
                if (mask) x.mask = block_mask(bench, {71, queries, 1, 1});
                if (sinks) x.sinks = bench.random(GGML_TYPE_F32, {6, 1, 1, 1}, -4, 4);
                expect_attention(bench, x,
                                 {.scale = 1,
                                  .max_bias = bias ? 8.0f : 0.0f,
                                  .logit_softcap = cap ? 2.0f : 0.0f});
            }
        }
    }
}

TEST(CpuFlashAttn, HasAnyNumberOfQueriesAndKeys) {
    // Around the ends of micro-panels, of tiles and of units.
    for (const std::int64_t queries : {1, 2, 3, 5, 7, 11, 12, 13, 16, 17, 31, 33, 64, 70, 131}) {
        for (const std::int64_t keys : {1, 2, 63, 64, 65, 130}) {
            SCOPED_TRACE(testing::Message() << queries << " queries, " << keys << " keys");
            Workbench bench;
            expect_attention(bench,
                             {bench.random(GGML_TYPE_F32, {16, queries, 2, 1}),
                              bench.random(GGML_TYPE_F16, {16, keys, 2, 1}),
                              bench.random(GGML_TYPE_F16, {16, keys, 2, 1})},
                             {.scale = 1});
        }
    }
}

TEST(CpuFlashAttn, HasHeadsOfAnySize) {
    const std::pair<std::int64_t, std::int64_t> sizes[] = {
        {1, 1},   {7, 5},     {40, 40},   {72, 72},   {80, 80},   {96, 96},   {128, 128},
        {129, 3}, {192, 128}, {256, 256}, {320, 256}, {512, 512}, {576, 512}, {3, 260}};
    for (const auto& [depth, width] : sizes) {
        for (const std::int64_t queries : {1, 6}) {
            SCOPED_TRACE(testing::Message() << depth << " and " << width << ", " << queries);
            Workbench bench;
            const Operands x{bench.random(GGML_TYPE_F32, {depth, queries, 4, 1}),
                             bench.random(GGML_TYPE_F16, {depth, 70, 1, 1}),
                             bench.random(GGML_TYPE_F16, {width, 70, 1, 1})};
            expect_attention(bench, x, {.scale = 1 / std::sqrt(static_cast<float>(depth))});
        }
    }
}

TEST(CpuFlashAttn, ReadsPermutedCachesForManyQueries) {
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        Workbench bench;
        Tensor* k = bench.permuted(bench.random(type, {64, 2, 200, 2}), {0, 2, 1, 3});
        Tensor* v = bench.permuted(bench.random(type, {64, 2, 200, 2}), {0, 2, 1, 3});
        Tensor* q = bench.permuted(bench.random(GGML_TYPE_F32, {64, 8, 33, 2}), {0, 2, 1, 3});
        // The cache is longer than what is in use.
        k = bench.slice(k, {0, 0, 0, 0}, {64, 150, 2, 2});
        v = bench.slice(v, {0, 0, 0, 0}, {64, 150, 2, 2});
        expect_attention(bench, {q, k, v, block_mask(bench, {150, 40, 1, 2})}, {.scale = 0.125f});
    }
}

TEST(CpuFlashAttn, LeavesNoTraceOfMaskedKeysAmongManyQueries) {
    for (const std::int64_t queries : {4, 40}) {
        Workbench bench;
        const Operands x{bench.random(GGML_TYPE_F32, {32, queries, 2, 1}),
                         bench.random(GGML_TYPE_F16, {32, 190, 1, 1}),
                         bench.random(GGML_TYPE_F16, {32, 190, 1, 1}),
                         block_mask(bench, {190, queries, 1, 1})};
        for (const std::int64_t j : {3, 40, 89, 189}) {
            for (std::int64_t t = 0; t < queries; ++t) *at<std::uint16_t>(*x.mask, j, t) = 0xfc00;
            std::memset(at(*x.k, 0, j), 0xff, 64);  // NaN
            std::memset(at(*x.v, 0, j), 0xff, 64);
        }
        expect_attention(bench, x, {.scale = 1});
    }
}

TEST(CpuFlashAttn, ShowsANaNOnlyToQueriesThatSeeIt) {
    for (const std::int64_t queries : {2, 40}) {
        Workbench bench;
        Tensor* mask =
            bench.numbers(GGML_TYPE_F16, {100, queries, 1, 1},
                          std::vector<double>(static_cast<std::size_t>(100 * queries), 0.0));
        Tensor* v = bench.random(GGML_TYPE_F32, {8, 100, 1, 1});
        *at<float>(*v, 5, 70) = std::numeric_limits<float>::quiet_NaN();
        for (std::int64_t t = 1; t < queries; ++t) *at<std::uint16_t>(*mask, 70, t) = 0xfc00;
        Tensor* y = bench.node<ops::FlashAttnExt>(
            {}, {bench.random(GGML_TYPE_F32, {8, queries, 1, 1}),
                 bench.random(GGML_TYPE_F32, {8, 100, 1, 1}), v, mask, nullptr});
        for_each_way([&](int tasks) {
            ASSERT_TRUE(run_node(*y, tasks));
            for_elements(*y, [&](auto d, auto h, auto t, auto s) {
                EXPECT_EQ(std::isnan(value_at(*y, d, h, t, s)), d == 5 && t == 0);
            });
        });
    }
}

TEST(CpuFlashAttn, GivesTheSameBitsEveryTime) {
    for (const auto& [queries, as_cache] :
         {std::pair{1, false}, std::pair{1, true}, std::pair{50, false}}) {
        Workbench bench;
        const auto rows = [&, is_cache = as_cache] {
            return is_cache ? interleaved(bench, GGML_TYPE_F16, 32, 2, 1500, 1)
                            : bench.random(GGML_TYPE_F16, {32, 1500, 2, 1});
        };
        Tensor* y = bench.node<ops::FlashAttnExt>(
            {.scale = 1},
            {bench.random(GGML_TYPE_F32, {32, queries, 4, 1}), rows(), rows(), nullptr, nullptr});
        ASSERT_TRUE(run_node(*y, 1));
        const std::vector<double> first = values_of(*y);
        for (const int tasks : {1, 2, 3, 3, 5, 5}) {
            ASSERT_TRUE(run_node(*y, tasks));
            EXPECT_EQ(values_of(*y), first) << tasks << " tasks";
        }
    }
}

TEST(CpuFlashAttn, HasNothingToDoWithoutHeads) {
    Workbench bench;
    Tensor* y = bench.node<ops::FlashAttnExt>(
        {}, {bench.tensor(GGML_TYPE_F32, {8, 2, 0, 1}), bench.tensor(GGML_TYPE_F32, {8, 4, 1, 1}),
             bench.tensor(GGML_TYPE_F32, {8, 4, 1, 1}), nullptr, nullptr});
    EXPECT_TRUE(run_demanded(*y, 4));
}

TEST(CpuFlashAttn, DeclinesWhatItCannotRead) {
    Workbench bench;
    Tensor* q = bench.tensor(GGML_TYPE_F32, {32, 2, 2, 1});
    Tensor* k = bench.tensor(GGML_TYPE_F32, {32, 8, 2, 1});
    const auto reason = [&](Tensor* keys, Tensor* values) {
        return objection_to(
            *bench.node<ops::FlashAttnExt>({}, {q, keys, values, nullptr, nullptr}));
    };
    EXPECT_EQ(reason(k, k), "");
    EXPECT_EQ(reason(bench.tensor(GGML_TYPE_I32, {32, 8, 2, 1}), k),
              "there is no dot product for the type of the keys");
    EXPECT_EQ(reason(k, bench.tensor(GGML_TYPE_I32, {32, 8, 2, 1})),
              "values of a type that has no decoder");
    EXPECT_EQ(reason(k, bench.tensor(GGML_TYPE_F32, {32, 7, 2, 1})),
              "k and v differ in the number of rows");
}

}  // namespace
}  // namespace heddle::cpu
