#include "backends/cpu/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "backends/cpu/isa.hpp"
#include "backends/cpu/stream.hpp"
#include "backends/cpu/topology.hpp"
#include "core/test_support.hpp"
#include "ggml-backend.h"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ops/check.hpp"

namespace heddle::cpu {
namespace {

/// Nodes of additions in a context with data, and a graph to put them in.
class PlanTest : public testing::Test {
protected:
    Tensor* add(Tensor* a, Tensor* b) { return ggml_add(&context(), a, b); }

    Context& context() { return context_; }

    Result<> plan_for(int threads, Memory memory = Memory::checked) {
        return make_plan(*graph, threads, memory, plan);
    }

    TestContext context_{std::size_t{16} << 20, false};
    Graph* graph = *new_graph(context_, 64, false);
    Tensor* x = context_.f32({64});
    Plan plan;
};

TEST_F(PlanTest, HasTheNodesToComputeInOrder) {
    Tensor* first = add(x, x);
    Tensor* last =
        add(ggml_reshape_2d(&context(), first, 8, 8), ggml_reshape_2d(&context(), x, 8, 8));
    ggml_build_forward_expand(graph, last);
    ASSERT_TRUE(plan_for(1));
    ASSERT_EQ(plan.steps.size(), 2u) << "views are left out";
    EXPECT_EQ(plan.steps[0].node, first);
    EXPECT_EQ(plan.steps[1].node, last);
    EXPECT_EQ(plan.tasks, 1);
}

TEST_F(PlanTest, LeavesOutNodesThatAreNotMarked) {
    Tensor* node = add(x, x);
    ggml_build_forward_expand(graph, node);
    node->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
    ASSERT_TRUE(plan_for(1));
    EXPECT_TRUE(plan.steps.empty());
}

TEST_F(PlanTest, KeepsNodesThatRepeatAndNodesTheGraphHasNotVisited) {
    Tensor* node = add(x, x);
    node->flags |= GGML_TENSOR_FLAG_COMPUTE;
    for (int i = 0; i < 5; ++i) ggml_graph_add_node(graph, node);
    ASSERT_TRUE(plan_for(1));
    EXPECT_EQ(plan.steps.size(), 5u);
}

TEST_F(PlanTest, TakesTensorsOfContextsAndOfBuffersInOneGraph) {
    TestContext headers(std::size_t{1} << 16, true);
    Tensor* y = headers.f32({64});
    ggml_backend_buffer_t buffer =
        ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 256);
    ASSERT_EQ(ggml_backend_tensor_alloc(buffer, y, ggml_backend_buffer_get_base(buffer)),
              GGML_STATUS_SUCCESS);
    ggml_build_forward_expand(graph, add(add(y, x), x));
    auto planned = plan_for(1);
    EXPECT_TRUE(planned) << planned.error().message;
    ggml_backend_buffer_free(buffer);
}

TEST_F(PlanTest, HasNoKernelForEmptyResults) {
    Tensor* empty = context_.f32({0});
    ggml_build_forward_expand(graph, add(empty, empty));
    ASSERT_TRUE(plan_for(1));
    ASSERT_EQ(plan.steps.size(), 1u);
    EXPECT_EQ(plan.steps[0].kernel, nullptr);
}

TEST_F(PlanTest, PlansSlices) {
    Tensor* first = add(x, x);
    Tensor* second = add(first, x);
    ggml_build_forward_expand(graph, second);
    const Graph one = slice(*graph, 1, 2);
    ASSERT_TRUE(make_plan(one, 1, Memory::checked, plan));
    ASSERT_EQ(plan.steps.size(), 1u);
    EXPECT_EQ(plan.steps[0].node, second);
}

TEST_F(PlanTest, SmallNodesGetOneTaskAndLargeOnesAsManyAsThereAreCpus) {
    ggml_build_forward_expand(graph, add(x, x));
    Tensor* large = context_.f32({512, 1024});
    ggml_build_forward_expand(graph, add(large, large));
    ASSERT_TRUE(plan_for(1000));
    ASSERT_EQ(plan.steps.size(), 2u);
    EXPECT_EQ(plan.steps[0].tasks, 1);
    EXPECT_GT(plan.steps[1].tasks, usable_cpus() > 1 ? 1 : 0);
    EXPECT_LE(plan.steps[1].tasks, usable_cpus());
}

TEST_F(PlanTest, RefusesOpsWithoutAKernelAndSaysWhy) {
    Tensor* node = add(x, x);
    set_name(*node, "sum");
    ggml_build_forward_expand(graph, node);
    node->op = static_cast<Op>(GGML_OP_COUNT + 3);
    EXPECT_EQ(plan_for(1).error().message,
              "node " + describe(*node) + ": there is no op " + std::to_string(GGML_OP_COUNT + 3));
}

TEST_F(PlanTest, RefusesMissingOperands) {
    Tensor* node = add(x, x);
    ggml_build_forward_expand(graph, node);
    node->src[1] = nullptr;
    EXPECT_EQ(plan_for(1).error().message,
              "node " + describe(*node) + ": add: operand b is missing");
}

TEST_F(PlanTest, RefusesNodesThatWereWrittenToAndListsWithHoles) {
    Tensor* node = add(x, x);
    ggml_build_forward_expand(graph, node);
    node->ne[0] = 1;
    EXPECT_EQ(plan_for(1).error().message, "node " + describe(*node) + ": add: the node " +
                                               describe(*node) + " should be f32[64,1,1,1]");
    Objections why;
    EXPECT_EQ(kernel_for(*node, &why), nullptr);
    EXPECT_EQ(why.text(), kUnsoundNode);
    graph->nodes[0] = nullptr;
    EXPECT_EQ(plan_for(1).error().message, "node 0 of the graph is NULL");
}

TEST(KernelList, AsksTheKernelsOfAnOpInTheOrderOfTheirRanks) {
    for (int op = 0; op < GGML_OP_COUNT; ++op) {
        const auto kernels = kernels_for(static_cast<Op>(op));
        EXPECT_TRUE(std::ranges::is_sorted(kernels, {}, &Kernel::rank)) << ggml_op_name(Op(op));
    }
    ASSERT_EQ(kernels_for(GGML_OP_ADD).size(), 2u);
    EXPECT_EQ(kernels_for(GGML_OP_ADD)[0]->name, "add");
    EXPECT_EQ(kernels_for(GGML_OP_ADD)[1]->name, "add_blocks");
}

TEST(KernelList, HasNoTwoKernelsWhoseOrderIsNotSaid) {
    for (int op = 0; op < GGML_OP_COUNT; ++op) {
        for (const Kernel* one : kernels_for(static_cast<Op>(op))) {
            for (const Kernel* other : kernels_for(static_cast<Op>(op))) {
                if (one == other || one->reads_repacked != other->reads_repacked) continue;
                EXPECT_NE(one->rank, other->rank)
                    << one->name << " and " << other->name << ": give one of them another `rank`";
            }
        }
    }
}

TEST_F(PlanTest, TellsWhatEveryKernelHasAgainstANode) {
    Tensor* halves = context_.tensor(GGML_TYPE_F16, {64});
    Tensor* node = add(x, x);
    node->src[1] = halves, node->type = GGML_TYPE_I32;
    Objections why;
    EXPECT_EQ(choose_kernel(*node, &why), nullptr);
    EXPECT_EQ(why.text_for(*node),
              "add: a, b and the result are not of types that go together; "
              "add_blocks: a is not of a block format (i32[64] = ADD(f32[64], f16[64]))");
}

TEST_F(PlanTest, RefusesNodesThatComeBeforeWhatTheyRead) {
    Tensor* first = add(x, x);
    Tensor* second = add(first, x);
    ggml_build_forward_expand(graph, second);
    EXPECT_TRUE(plan_for(1));
    std::swap(graph->nodes[0], graph->nodes[1]);
    EXPECT_EQ(plan_for(1).error().message,
              "node " + describe(*second) + ", number 0, reads the result of " + describe(*first) +
                  ", which is computed later, as number 1");
    first->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
    EXPECT_TRUE(plan_for(1)) << "its result is one of another graph";
}

TEST_F(PlanTest, RefusesTensorsThatAreNotInsideTheirBuffer) {
    TestContext headers(std::size_t{1} << 16, true);
    Tensor* y = headers.f32({64}, "y");
    ggml_backend_buffer_t buffer =
        ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 256);
    ASSERT_EQ(ggml_backend_tensor_alloc(buffer, y, ggml_backend_buffer_get_base(buffer)),
              GGML_STATUS_SUCCESS);
    Tensor* node = add(x, y);
    ggml_build_forward_expand(graph, node);
    EXPECT_TRUE(plan_for(1));
    y->data = static_cast<std::byte*>(y->data) + 4;
    EXPECT_EQ(plan_for(1).error().message,
              "node " + describe(*node) +
                  ", ADD: operand 'y' f32[64,1,1,1] is not inside its buffer of 256 bytes");
    ggml_backend_buffer_free(buffer);
}

TEST_F(PlanTest, RefusesViewsThatAreNotInsideTheBufferOfTheirRoot) {
    TestContext headers(std::size_t{1} << 16, true);
    Tensor* root = headers.f32({64});
    ggml_backend_buffer_t buffer =
        ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 256);
    ASSERT_EQ(ggml_backend_tensor_alloc(buffer, root, ggml_backend_buffer_get_base(buffer)),
              GGML_STATUS_SUCCESS);
    Tensor* view = ggml_view_1d(&context(), root, 64, 0);
    set_name(*view, "view");
    ASSERT_EQ(view->buffer, nullptr) << "it was made after its root was placed";
    Tensor* node = add(x, view);
    ggml_build_forward_expand(graph, node);
    auto planned = plan_for(1);
    EXPECT_TRUE(planned) << planned.error().message;
    view->data = static_cast<std::byte*>(view->data) + 4;
    planned = plan_for(1);
    ASSERT_FALSE(planned);
    EXPECT_EQ(planned.error().message,
              "node " + describe(*node) +
                  ", ADD: operand 'view' f32[64,1,1,1] is not inside its buffer of 256 bytes");
    ggml_backend_buffer_free(buffer);
}

TEST_F(PlanTest, RefusesOperandsWithoutMemoryUnlessOnlySizesAreAskedFor) {
    Tensor* node = add(x, x);
    ggml_build_forward_expand(graph, node);
    void* const data = x->data;
    x->data = nullptr;
    EXPECT_TRUE(plan_for(1, Memory::unchecked));
    EXPECT_EQ(plan_for(1).error().message,
              "node " + describe(*node) + ", ADD: operand " + describe(*x) + " has no memory");
    x->data = data;
    node->data = nullptr;
    EXPECT_EQ(plan_for(1).error().message,
              "node " + describe(*node) + ", ADD: the result has no memory");
}

TEST(Scratch, GrowsAndIsAligned) {
    Scratch scratch;
    std::byte* first = *scratch.reserve(100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % kScratchAlignment, 0u);
    EXPECT_EQ(*scratch.reserve(10), first);
    std::byte* second = *scratch.reserve(100'000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % kScratchAlignment, 0u);
    second[99'999] = std::byte{1};
}

TEST(Scratch, SaysHowMuchItCouldNotGetAndStaysUsable) {
    Scratch scratch;
    EXPECT_EQ(scratch.reserve(SIZE_MAX).error().code, Errc::out_of_memory);
    EXPECT_TRUE(scratch.reserve(64));
}

// ---- graphs that come again --------------------------------------------------------------------

class KeptPlansTest : public PlanTest {
protected:
    void SetUp() override {
        for (int i = 0; i < 3; ++i) x = add(x, x);
        ggml_build_forward_expand(graph, x);
        stream.settings.threads = 1;
    }
    /// How many plans computing the graph once more takes.
    std::uint64_t plans_made() {
        const std::uint64_t before = stream.plans().made();
        EXPECT_TRUE(stream.compute(*graph));
        return stream.plans().made() - before;
    }

    CpuStream stream;
};

TEST_F(KeptPlansTest, AGraphWithAUidIsPlannedOnce) {
    graph->uid = next_graph_uid();
    EXPECT_EQ(plans_made(), 1u);
    EXPECT_EQ(plans_made(), 0u);
    EXPECT_EQ(plans_made(), 0u);
}

TEST_F(KeptPlansTest, AGraphWithoutAUidIsPlannedEachTime) {
    EXPECT_EQ(plans_made(), 1u);
    EXPECT_EQ(plans_made(), 1u);
}

TEST_F(KeptPlansTest, SeveralGraphsTakeTurnsWithoutBeingPlannedAgain) {
    const std::uint64_t uids[] = {next_graph_uid(), next_graph_uid()};
    for (int turn = 0; turn < 3; ++turn) {
        for (const std::uint64_t uid : uids) {
            graph->uid = uid;
            EXPECT_EQ(plans_made(), turn == 0 ? 1u : 0u);
        }
    }
}

TEST_F(KeptPlansTest, OtherSettingsAreAnotherPlan) {
    graph->uid = next_graph_uid();
    EXPECT_EQ(plans_made(), 1u);
    stream.settings.threads = 2;
    EXPECT_EQ(plans_made(), 1u);
    stream.settings.fusion = Fusion::off;
    EXPECT_EQ(plans_made(), 1u);
    stream.settings.plain = true;
    EXPECT_EQ(plans_made(), 0u) << "which is without fusion anyway";
    ASSERT_TRUE(use_isa("best"));
    EXPECT_EQ(plans_made(), 1u);
    EXPECT_EQ(plans_made(), 0u);
}

TEST_F(KeptPlansTest, AUidThatIsGivenToAnotherListOfNodesByMistakeIsNotTrusted) {
    graph->uid = next_graph_uid();
    EXPECT_EQ(plans_made(), 1u);
    Tensor* const more = add(x, x);
    ASSERT_TRUE(append_node(*graph, *more));
    more->flags |= GGML_TENSOR_FLAG_COMPUTE;
    EXPECT_EQ(plans_made(), 1u);
}

TEST_F(KeptPlansTest, WhatCannotBePlannedIsNotKept) {
    graph->uid = next_graph_uid();
    Tensor* const missing = std::exchange(x->src[1], nullptr);
    EXPECT_FALSE(stream.compute(*graph));
    x->src[1] = missing;
    EXPECT_EQ(plans_made(), 1u);
}

TEST_F(KeptPlansTest, TheLeastUsedGoWhenThereAreTooMany) {
    const auto steps = static_cast<std::size_t>(graph->n_nodes);
    const std::uint64_t first = graph->uid = next_graph_uid();
    EXPECT_EQ(plans_made(), 1u);
    for (std::size_t i = 0; i < KeptPlans::kMostSteps / steps; ++i) {
        graph->uid = next_graph_uid();
        ASSERT_EQ(plans_made(), 1u);
    }
    EXPECT_EQ(plans_made(), 0u) << "the last one is there";
    graph->uid = first;
    EXPECT_EQ(plans_made(), 1u);
}

}  // namespace
}  // namespace heddle::cpu
