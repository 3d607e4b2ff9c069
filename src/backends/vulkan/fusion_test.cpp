// What is computed together gives what the nodes give one by one.

#include "backends/vulkan/fusion.hpp"

#include <gtest/gtest.h>

#include <random>

#include "backends/vulkan/plan.hpp"
#include "backends/vulkan/test_support.hpp"
#include "ggml/ops.h"
#include "heddle/backend/nodes.hpp"

namespace heddle::vulkan {
namespace {

Options options(bool is_fusing) {
    Options options;
    options.forces_integer_dot = true;
    options.forces_gpu_kernels = true;
    options.is_fusing = is_fusing;
    return options;
}

/// Random numbers of the tensor's type, the same for the same seed.
void fill(ggml_tensor* tensor, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    for (float& value : values) value = normal(random);
    std::vector<std::byte> bytes(ggml_nbytes(tensor));
    ggml_quantize_chunk(tensor->type, values.data(), bytes.data(), 0, ggml_nrows(tensor),
                        tensor->ne[0], nullptr);
    ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
}

/// A block of a model for one token: what it writes, after all its nodes have run.
struct Block {
    static constexpr std::int64_t kWidth = 128, kHead = 16, kHidden = 192, kPlaces = 5;

    Bench bench;
    ggml_cgraph* graph = nullptr;
    ggml_tensor* place = nullptr;  ///< the row of the cache that is written
    std::vector<ggml_tensor*> results;

    explicit Block(bool is_fusing) : bench(options(is_fusing)) {
        if (!bench.is_there()) return;
        ggml_context* c = bench.context();
        const auto weights = [&](std::int64_t from, std::int64_t to) {
            return input(ggml_new_tensor_2d(c, GGML_TYPE_Q4_0, from, to));
        };
        graph = ggml_new_graph(c);
        ggml_tensor* x = input(bench.vector(kWidth));
        ggml_tensor* a = ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), input(bench.vector(kWidth)));
        ggml_tensor* position = ggml_new_tensor_1d(c, GGML_TYPE_I32, 1);
        place = ggml_new_tensor_1d(c, GGML_TYPE_I64, 1);
        ggml_tensor* cache = ggml_new_tensor_2d(c, GGML_TYPE_F16, kWidth / 2, kPlaces);
        const auto rope = [&](ggml_tensor* t) {
            t = ggml_reshape_3d(c, t, kHead, t->ne[0] / kHead, 1);
            return ggml_rope(c, t, position, static_cast<int>(kHead), GGML_ROPE_TYPE_NEOX);
        };
        ggml_tensor* q = rope(ggml_mul_mat(c, weights(kWidth, kWidth), a));
        ggml_tensor* k = rope(ggml_mul_mat(c, weights(kWidth, kWidth / 2), a));
        ggml_tensor* v = ggml_mul_mat(c, weights(kWidth, kWidth / 2), a);
        k = ggml_set_rows(c, cache, ggml_reshape_2d(c, k, kWidth / 2, 1), place);
        ggml_tensor* y = ggml_add(c, x, ggml_mul_mat(c, weights(kWidth, kWidth), x));
        ggml_tensor* b = ggml_mul(c, ggml_rms_norm(c, y, 1e-5f), input(bench.vector(kWidth)));
        b = ggml_geglu_split(c, ggml_mul_mat(c, weights(kWidth, kHidden), b),
                             ggml_mul_mat(c, weights(kWidth, kHidden), b));
        ggml_tensor* plain = ggml_swiglu_split(c, ggml_mul_mat(c, weights(kWidth, kHidden), x),
                                               ggml_mul_mat(c, weights(kWidth, kHidden), x));
        // Rows of these two weights lie differently far apart.
        ggml_tensor* wide = weights(2 * kWidth, kHidden);
        ggml_tensor* part = ggml_view_2d(c, wide, kWidth, kHidden, wide->nb[1], 0);
        ggml_tensor* uneven = ggml_swiglu_split(c, ggml_mul_mat(c, weights(kWidth, kHidden), x),
                                                ggml_mul_mat(c, part, x));
        results = {q, k, v, y, b, plain, uneven};
        for (ggml_tensor* result : results) ggml_build_forward_expand(graph, result);
        if (!bench.allocate()) return;
        for (unsigned i = 0; i < inputs_.size(); ++i) fill(inputs_[i], i);
        const std::int32_t number = 7;
        const std::int64_t row = 3;
        const std::vector<ggml_fp16_t> zeros(static_cast<std::size_t>(ggml_nelements(cache)), 0);
        ggml_backend_tensor_set(position, &number, 0, sizeof number);
        ggml_backend_tensor_set(place, &row, 0, sizeof row);
        ggml_backend_tensor_set(cache, zeros.data(), 0, ggml_nbytes(cache));
    }

    ggml_tensor* input(ggml_tensor* tensor) { return inputs_.emplace_back(tensor); }

private:
    std::vector<ggml_tensor*> inputs_;
};

std::vector<float> floats_of(const ggml_tensor* tensor) {
    if (tensor->type == GGML_TYPE_F32) return values_of(tensor);
    std::vector<ggml_fp16_t> halves(static_cast<std::size_t>(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, halves.data(), 0, ggml_nbytes(tensor));
    std::vector<float> values(halves.size());
    ggml_fp16_to_fp32_row(halves.data(), values.data(), static_cast<std::int64_t>(halves.size()));
    return values;
}

TEST(VulkanFusion, GivesWhatNodesGiveOneByOne) {
    Block apart(false), together(true);
    if (!apart.bench.is_there()) GTEST_SKIP() << "there is no Vulkan driver for the CPU";
    for (Block* block : {&apart, &together}) {
        ASSERT_EQ(ggml_backend_graph_compute(block->bench.stream(), block->graph),
                  GGML_STATUS_SUCCESS);
    }
    for (std::size_t i = 0; i < apart.results.size(); ++i) {
        const auto right = floats_of(apart.results[i]), found = floats_of(together.results[i]);
        double difference = 0, size = 0;
        for (std::size_t j = 0; j < right.size(); ++j) {
            difference += (right[j] - found[j]) * (right[j] - found[j]);
            size += right[j] * right[j];
        }
        EXPECT_GT(size, 0) << i;
        // A column may be rounded the other way where it lies between two codes.
        EXPECT_LT(difference, 1e-5 * size) << i;
    }
}

using Names = std::vector<std::string>;

/// Of the steps of a graph whose tensors have memory; none if there is no plan for it.
Names steps_of(Bench& bench, ggml_cgraph& graph) {
    const auto plan = Plan::make(bench.device().site(), graph);
    Names names;
    if (!plan) return names;
    for (const Step& step : plan->steps) names.emplace_back(step.name());
    return names;
}

TEST(VulkanFusion, LeavesOneStepForEachGroup) {
    Block block(true);
    if (!block.bench.is_there()) GTEST_SKIP() << "there is no Vulkan driver for the CPU";
    EXPECT_EQ(steps_of(block.bench, *block.graph),
              (Names{"gemv_int8", "rope", "rope and set_rows", "gemv_int8", "gemv_int8",
                     "gemv_int8", "gemv_int8", "gemv_int8", "glu"}));
}

TEST(VulkanFusion, LeavesASumInThePlaceOfTheColumn) {
    HEDDLE_BENCH(bench, options(true));
    ggml_context* c = bench.context();
    ggml_tensor *x = bench.vector(128), *other = bench.vector(128);
    ggml_tensor* weights = ggml_new_tensor_2d(c, GGML_TYPE_Q4_0, 128, 128);
    ggml_cgraph* on_column = bench.graph(ggml_add_inplace(c, x, ggml_mul_mat(c, weights, x)));
    ggml_cgraph* on_other = bench.graph(ggml_add_inplace(c, other, ggml_mul_mat(c, weights, x)));
    ASSERT_TRUE(bench.allocate());
    EXPECT_EQ(steps_of(bench, *on_column), (Names{"gemv_int8", "add"}));
    EXPECT_EQ(steps_of(bench, *on_other), (Names{"gemv_int8"}));
}

TEST(VulkanFusion, MovesNoProductPastAUseOfItsMemory) {
    HEDDLE_BENCH(bench, options(true));
    ggml_context* c = bench.context();
    ggml_tensor* norm = ggml_rms_norm(c, bench.vector(128), 1e-5f);
    ggml_tensor* column = ggml_mul(c, norm, bench.vector(128));
    const auto product = [&] {
        return ggml_mul_mat(c, ggml_new_tensor_2d(c, GGML_TYPE_Q4_0, 128, 64), column);
    };
    ggml_tensor *first = product(), *second = product();
    ggml_cgraph* graph = bench.graph(ggml_sqr(c, first));
    ggml_build_forward_expand(graph, second);
    ASSERT_TRUE(bench.allocate());
    EXPECT_EQ(steps_of(bench, *graph), (Names{"gemv_int8", "sqr"}));
    second->data = first->data;  // which a planner may choose: the first one is not read later
    EXPECT_EQ(steps_of(bench, *graph),
              (Names{"rms_norm_f32 and mul", "gemv_int8", "sqr", "gemv_int8"}));
}

TEST(VulkanFusion, LeavesResultsThatAreWanted) {
    Block block(true);
    if (!block.bench.is_there()) GTEST_SKIP() << "there is no Vulkan driver for the CPU";
    for (int i = 0; i < ggml_graph_n_nodes(block.graph); ++i) {
        ggml_set_output(ggml_graph_node(block.graph, i));
    }
    const auto plan = Plan::make(block.bench.device().site(), *block.graph);
    ASSERT_TRUE(plan);
    for (const Step& step : plan->steps) EXPECT_NE(step.single(), nullptr) << step.name();
}

TEST(VulkanFusion, LeavesNodesWhoseUsesAreNotCounted) {
    Block block(true);
    if (!block.bench.is_there()) GTEST_SKIP() << "there is no Vulkan driver for the CPU";
    block.graph->use_counts = nullptr;
    const auto plan = Plan::make(block.bench.device().site(), *block.graph);
    ASSERT_TRUE(plan);
    for (const Step& step : plan->steps) EXPECT_NE(step.single(), nullptr) << step.name();
}

TEST(VulkanFusion, ReportsAnIndexOutsideOfTheCacheAsTheStoreDoes) {
    for (const bool is_fusing : {false, true}) {
        Block block(is_fusing);
        if (!block.bench.is_there()) GTEST_SKIP() << "there is no Vulkan driver for the CPU";
        const std::int64_t row = Block::kPlaces;
        ggml_backend_tensor_set(block.place, &row, 0, sizeof row);
        VulkanStream* const stream = vulkan_stream(block.bench.stream());
        ASSERT_TRUE(stream->compute(*block.graph));
        const auto finished = stream->synchronize();
        ASSERT_FALSE(finished);
        EXPECT_EQ(finished.error().message,
                  "SET_ROWS on Vulkan0: index 5 is outside of its table, which has 5 entries");
    }
}

}  // namespace
}  // namespace heddle::vulkan
