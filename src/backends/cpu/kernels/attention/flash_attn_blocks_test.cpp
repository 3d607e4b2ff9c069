#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "backends/cpu/kernels/attention/flash_attn_test_support.hpp"
#include "ops/flash_attn.hpp"

/// Keys and values in blocks, which are multiplied as whole numbers.
namespace heddle::cpu {
namespace {

constexpr Type kBlockTypes[] = {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL};
constexpr std::uint16_t kNaN = 0x7e00, kHidden = 0xfc00;

Tensor* no_mask(Workbench& bench, std::int64_t keys, std::int64_t queries) {
    const auto count = static_cast<std::size_t>(keys * queries);
    return bench.numbers(GGML_TYPE_F16, {keys, queries, 1, 1}, std::vector<double>(count, 0.0));
}

TEST(CpuFlashAttnBlocks, HaveAnyNumberOfKeysForAnyNumberOfQueries) {
    for (const Type type : kBlockTypes) {
        for (const std::int64_t heads : {1, 2, 3, 4, 7}) {
            for (const std::int64_t keys : {1, 3, 4, 5, 8, 11, 15, 16, 17, 31, 32, 33, 47, 65}) {
                SCOPED_TRACE(testing::Message()
                             << name_of(type) << ", " << heads << " heads, " << keys << " keys");
                Workbench bench;
                expect_attention(
                    bench,
                    {bench.random(GGML_TYPE_F32, {64, 1, heads, 1}),
                     bench.random(type, {64, keys, 1, 1}), bench.random(type, {32, keys, 1, 1})},
                    {.scale = 0.25f});
            }
        }
    }
}

/// Queries and values whose blocks differ by far, and weights that do.
TEST(CpuFlashAttnBlocks, ScaleEachBlockByItself) {
    for (const Type type : kBlockTypes) {
        SCOPED_TRACE(name_of(type));
        Workbench bench;
        const Operands x{bench.random(GGML_TYPE_F32, {96, 2, 4, 1}, -3, 3),
                         bench.random(type, {96, 150, 2, 1}), bench.random(type, {64, 150, 2, 1})};
        for_elements(*x.q, [&](auto d, auto t, auto h, auto s) {
            if (d / 32 == 1) *at<float>(*x.q, d, t, h, s) *= 1e-6f;
            if (d / 32 == 2 && h == 1) *at<float>(*x.q, d, t, h, s) = 0;
        });
        expect_attention(bench, x, {.scale = 0.3f});
    }
}

TEST(CpuFlashAttnBlocks, LeaveNoTraceOfMaskedKeys) {
    for (const Type type : kBlockTypes) {
        for (const std::int64_t queries : {1, 2, 6}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << ", " << queries);
            Workbench bench;
            const Operands x{bench.random(GGML_TYPE_F32, {32, queries, 2, 1}),
                             bench.random(type, {32, 90, 1, 1}), bench.random(type, {32, 90, 1, 1}),
                             block_mask(bench, {90, queries, 1, 1})};
            for (const std::int64_t j : {3, 40, 89}) {
                for (std::int64_t t = 0; t < queries; ++t) {
                    *at<std::uint16_t>(*x.mask, j, t) = kHidden;
                }
                std::memset(at(*x.k, 0, j), 0xff, row_size(type, 32));  // scales are NaN
                std::memset(at(*x.v, 0, j), 0xff, row_size(type, 32));
            }
            expect_attention(bench, x, {.scale = 1});
        }
    }
}

TEST(CpuFlashAttnBlocks, ShowANaNOnlyToQueriesThatSeeItAndInItsBlock) {
    for (const std::uint16_t scale : {kNaN, std::uint16_t{0x7c00}}) {  // or infinity
        Workbench bench;
        Tensor* mask = no_mask(bench, 100, 3);
        Tensor* v = bench.random(GGML_TYPE_Q8_0, {64, 100, 1, 1});
        std::memcpy(at(*v, 0, 70) + 34, &scale, sizeof scale);  // of the second block
        for (const std::int64_t t : {1, 2}) *at<std::uint16_t>(*mask, 70, t) = kHidden;
        Tensor* y = bench.node<ops::FlashAttnExt>(
            {}, {bench.random(GGML_TYPE_F32, {32, 3, 1, 1}),
                 bench.random(GGML_TYPE_Q8_0, {32, 100, 1, 1}), v, mask, nullptr});
        for_each_way([&](int tasks) {
            ASSERT_TRUE(run_node(*y, tasks));
            for_elements(*y, [&](auto d, auto h, auto t, auto s) {
                EXPECT_EQ(!std::isfinite(value_at(*y, d, h, t, s)), d >= 32 && t == 0) << d;
            });
        });
    }
}

TEST(CpuFlashAttnBlocks, ShowANaNOfAQueryInItsRowAlone) {
    for (const Type type : kBlockTypes) {
        for (const float strange :
             {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            Workbench bench;
            Tensor* q = bench.random(GGML_TYPE_F32, {64, 5, 1, 1});
            *at<float>(*q, 40, 2) = strange;
            Tensor* y = bench.node<ops::FlashAttnExt>(
                {}, {q, bench.random(type, {64, 50, 1, 1}), bench.random(type, {32, 50, 1, 1}),
                     nullptr, nullptr});
            for_each_way([&](int tasks) {
                ASSERT_TRUE(run_node(*y, tasks));
                for_elements(*y, [&](auto d, auto h, auto t, auto s) {
                    EXPECT_EQ(!std::isfinite(value_at(*y, d, h, t, s)), t == 2) << name_of(type);
                });
            });
        }
    }
}

/// Caches are zero where nothing was written yet; such keys count all the same.
TEST(CpuFlashAttnBlocks, AreZeroWhereACacheIs) {
    Workbench bench;
    const Operands x{bench.random(GGML_TYPE_F32, {32, 1, 4, 1}),
                     bench.random(GGML_TYPE_Q8_0, {32, 80, 1, 1}),
                     bench.random(GGML_TYPE_Q8_0, {32, 80, 1, 1})};
    std::memset(at(*x.k, 0, 30), 0, 50 * row_size(GGML_TYPE_Q8_0, 32));
    std::memset(at(*x.v, 0, 30), 0, 50 * row_size(GGML_TYPE_Q8_0, 32));
    expect_attention(bench, x, {.scale = 1});
}

TEST(CpuFlashAttnBlocks, GiveTheSameBitsEveryTime) {
    for (const bool as_cache : {false, true}) {
        Workbench bench;
        const auto rows = [&] {
            return as_cache ? interleaved(bench, GGML_TYPE_Q8_0, 64, 2, 1500, 1)
                            : bench.random(GGML_TYPE_Q8_0, {64, 1500, 2, 1});
        };
        Tensor* y = bench.node<ops::FlashAttnExt>(
            {.scale = 1},
            {bench.random(GGML_TYPE_F32, {64, 1, 4, 1}), rows(), rows(), nullptr, nullptr});
        ASSERT_TRUE(run_node(*y, 1));
        const std::vector<double> first = values_of(*y);
        for (const int tasks : {1, 2, 3, 3, 5, 5}) {
            ASSERT_TRUE(run_node(*y, tasks));
            EXPECT_EQ(values_of(*y), first) << tasks << " tasks";
        }
    }
}

}  // namespace
}  // namespace heddle::cpu
