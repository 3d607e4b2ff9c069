#include "backends/cpu/kernels/attention/flash_attn_cut.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/attention/flash_attn_rows.hpp"
#include "backends/cpu/kernels/attention/flash_attn_test_support.hpp"

namespace heddle::cpu {
namespace {

/// One query and a cache of `heads` heads.
Tensor* decoding(Workbench& bench, std::int64_t heads, std::int64_t keys) {
    return bench.node<ops::FlashAttnExt>(
        {}, {bench.tensor(GGML_TYPE_F32, {64, 1, heads, 1}),
             interleaved(bench, GGML_TYPE_F16, 64, heads, keys, 1),
             interleaved(bench, GGML_TYPE_F16, 64, heads, keys, 1), nullptr, nullptr});
}

std::int64_t span_for(Workbench& bench, std::int64_t heads, std::int64_t keys, int tasks) {
    Attention a(*decoding(bench, heads, keys), kRowsUnit);
    a.join_heads(tasks, kMostHeads);
    EXPECT_EQ(a.pieces(), heads / a.span * a.parts);
    return a.span;
}

TEST(CpuFlashAttnCut, KeepsAllHeadsTogetherWherePartsAreEnoughForTheTasks) {
    Workbench bench;
    EXPECT_EQ(span_for(bench, 12, 100, 1), 12);
    EXPECT_EQ(span_for(bench, 20, 1500, 2), 20);  // 6 parts
}

TEST(CpuFlashAttnCut, SharesOutHeadsWhereTasksWouldWait) {
    Workbench bench;
    EXPECT_EQ(span_for(bench, 12, 100, 2), 6);
    EXPECT_EQ(span_for(bench, 12, 640, 2), 6);  // 3 parts
    EXPECT_EQ(span_for(bench, 12, 100, 5), 3);
}

TEST(CpuFlashAttnCut, JoinsNoMoreHeadsThanThereIsRoomFor) {
    Workbench bench;
    EXPECT_EQ(span_for(bench, kMostHeads + 8, 100, 1), (kMostHeads + 8) / 2);
    EXPECT_EQ(span_for(bench, 37, 100, 1), 1);
}

}  // namespace
}  // namespace heddle::cpu
