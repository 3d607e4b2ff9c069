#include <algorithm>
#include <limits>
#include <thread>

#include "ggml-impl.h"
#include "heddle/heddle.h"
#include "test_support.hpp"

namespace heddle::conformance {
namespace {

class GraphRun : public Device {
protected:
    void SetUp() override {
        Device::SetUp();
        stream_ = new_stream();
        ASSERT_NE(stream_, nullptr) << heddle_last_error();
    }

    ggml_status compute(ggml_cgraph* graph) const {
        return ggml_backend_graph_compute(stream_.get(), graph);
    }

    ggml_backend_ptr stream_;
};

TEST_P(GraphRun, NodesRunInOrderAndSeeEarlierResults) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain chain(doubling, buffer_type(), 5);
    write(chain.input(), counting(kSquare));
    ASSERT_EQ(compute(chain.graph()), GGML_STATUS_SUCCESS) << heddle_last_error();
    EXPECT_EQ(read(chain.output()), chain.expected(0));
}

TEST_P(GraphRun, GraphsCanBeRunAgainWithOtherInputs) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain chain(doubling, buffer_type(), 2);
    for (const float first : {0.0f, 100.0f, -7.0f}) {
        write(chain.input(), counting(kSquare, first));
        ASSERT_EQ(compute(chain.graph()), GGML_STATUS_SUCCESS) << heddle_last_error();
        EXPECT_EQ(read(chain.output()), chain.expected(first));
    }
}

TEST_P(GraphRun, EmptyGraphsSucceed) {
    const Workspace workspace;
    EXPECT_EQ(compute(workspace.new_graph()), GGML_STATUS_SUCCESS);
}

TEST_P(GraphRun, LeafsAndViewsAreLeftAlone) {
    Workspace workspace;
    ggml_tensor* x = workspace.floats(8, 4);
    ggml_cgraph* graph = workspace.new_graph();
    ggml_context* context = workspace.context();
    ggml_build_forward_expand(graph, ggml_transpose(context, ggml_reshape_2d(context, x, 16, 2)));
    ggml_graph_add_node(graph, x);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(x, counting(32));
    EXPECT_EQ(compute(graph), GGML_STATUS_SUCCESS) << heddle_last_error();
    EXPECT_EQ(read(x), counting(32));
}

TEST_P(GraphRun, NodesThatAreNotMarkedForComputingAreSkipped) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain chain(doubling, buffer_type(), 2);
    write(chain.input(), counting(kSquare));
    write(chain.step(0), counting(kSquare, 1000));
    chain.step(0)->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
    ASSERT_EQ(compute(chain.graph()), GGML_STATUS_SUCCESS) << heddle_last_error();
    EXPECT_EQ(read(chain.step(0)), counting(kSquare, 1000));
    EXPECT_EQ(read(chain.output()), doubled(counting(kSquare, 1000)));
}

TEST_P(GraphRun, EmptyNodesAreSkipped) {
    Workspace workspace;
    ggml_tensor* empty = workspace.floats(0, 4);
    ggml_cgraph* graph = workspace.new_graph();
    ggml_build_forward_expand(graph, ggml_add(workspace.context(), empty, empty));
    workspace.place(buffer_type());  // there may be no memory to place
    EXPECT_EQ(compute(graph), GGML_STATUS_SUCCESS) << heddle_last_error();
}

TEST_P(GraphRun, NodesThatRepeatRunEachTime) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    Workspace workspace;
    ggml_tensor* x = workspace.floats(Doubling::kSide, Doubling::kSide);
    ggml_tensor* node = doubling.twice_inplace(workspace.context(), x);
    if (node == nullptr) GTEST_SKIP() << "has no op that works in place";
    ggml_cgraph* graph = workspace.new_graph();
    ggml_build_forward_expand(graph, node);
    for (int i = 0; i < 4; ++i) ggml_graph_add_node(graph, node);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(x, counting(kSquare));
    ASSERT_EQ(compute(graph), GGML_STATUS_SUCCESS) << heddle_last_error();
    EXPECT_EQ(read(x), doubled(counting(kSquare), 5));
}

TEST_P(GraphRun, NodesThatTheGraphWasOnlyGivenRunToo) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    Workspace workspace;
    ggml_tensor* two = Doubling::make_two(workspace);
    ggml_tensor* x = workspace.floats(Doubling::kSide, Doubling::kSide);
    ggml_tensor* y = doubling.twice(workspace.context(), x, two);
    y->flags |= GGML_TENSOR_FLAG_COMPUTE;
    ggml_cgraph* graph = workspace.new_graph();
    ggml_graph_add_node(graph, y);  // it is in no hash set then
    ASSERT_TRUE(workspace.place(buffer_type()));
    Doubling::fill_two(two);
    write(x, counting(kSquare));
    ASSERT_EQ(compute(graph), GGML_STATUS_SUCCESS) << heddle_last_error();
    EXPECT_EQ(read(y), doubled(counting(kSquare)));
}

TEST_P(GraphRun, SlicesOfAGraphRunOneByOne) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain chain(doubling, buffer_type(), 4);
    write(chain.input(), counting(kSquare));
    for (int i = 0; i < ggml_graph_n_nodes(chain.graph()); ++i) {
        ggml_cgraph slice = ggml_graph_view(chain.graph(), i, i + 1);
        ASSERT_EQ(compute(&slice), GGML_STATUS_SUCCESS) << heddle_last_error();
    }
    EXPECT_EQ(read(chain.output()), chain.expected(0));
}

TEST_P(GraphRun, AnUnchangedGraphMayBeRecognisedByItsNumber) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain chain(doubling, buffer_type(), 2);
    chain.graph()->uid = ggml_graph_next_uid();
    for (const float first : {1.0f, 2.0f, 3.0f}) {
        write(chain.input(), counting(kSquare, first));
        ASSERT_EQ(compute(chain.graph()), GGML_STATUS_SUCCESS) << heddle_last_error();
        EXPECT_EQ(read(chain.output()), chain.expected(first));
    }
}

TEST_P(GraphRun, ResultsThatAnotherNodeReadsThroughAViewAreRight) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    Workspace workspace;
    ggml_context* context = workspace.context();
    ggml_tensor* two = Doubling::make_two(workspace);
    ggml_tensor* x = workspace.floats(Doubling::kSide, Doubling::kSide);
    ggml_tensor* y = doubling.twice(context, x, two);
    ggml_tensor* seen = ggml_view_2d(context, y, Doubling::kSide, Doubling::kSide, y->nb[1], 0);
    ggml_tensor* z = doubling.twice(context, seen, two);
    ggml_cgraph* graph = workspace.new_graph();
    ggml_build_forward_expand(graph, z);
    ASSERT_TRUE(workspace.place(buffer_type()));
    Doubling::fill_two(two);
    write(x, counting(kSquare));
    ASSERT_EQ(compute(graph), GGML_STATUS_SUCCESS) << heddle_last_error();
    EXPECT_EQ(read(z), doubled(counting(kSquare), 2));
}

TEST_P(GraphRun, IntermediateResultsMarkedAsOutputsAreWritten) {
    Workspace workspace;
    ggml_tensor* x = workspace.floats(64, 64);
    ggml_tensor* norm = ggml_rms_norm(workspace.context(), x, 0);
    ggml_tensor* product = ggml_mul(workspace.context(), norm, x);  // the two may be fused
    if (!ggml_backend_dev_supports_op(device(), norm) ||
        !ggml_backend_dev_supports_op(device(), product)) {
        GTEST_SKIP() << "supports no RMS_NORM with MUL";
    }
    ggml_set_output(norm);
    ggml_cgraph* graph = workspace.new_graph();
    ggml_build_forward_expand(graph, product);
    ASSERT_TRUE(workspace.place(buffer_type()));
    ggml_backend_buffer_clear(workspace.buffer(), 0);
    write(x, std::vector<float>(kSquare, 3));
    ASSERT_EQ(compute(graph), GGML_STATUS_SUCCESS) << heddle_last_error();
    constexpr float kRounding = 1e-5f;
    EXPECT_NEAR(read(norm)[77], 1, kRounding);
    EXPECT_NEAR(read(product)[77], 3, kRounding);
}

TEST_P(GraphRun, ExpertsThatAreNotSelectedAreNotRead) {
    Workspace workspace;
    ggml_context* context = workspace.context();
    ggml_tensor* experts = ggml_new_tensor_3d(context, GGML_TYPE_F32, 64, 64, 4);
    ggml_tensor* tokens = ggml_new_tensor_3d(context, GGML_TYPE_F32, 64, 1, 8);
    ggml_tensor* ids = ggml_new_tensor_2d(context, GGML_TYPE_I32, 2, 8);
    ggml_tensor* node = ggml_mul_mat_id(context, experts, tokens, ids);
    if (!ggml_backend_dev_supports_op(device(), node)) GTEST_SKIP() << "supports no MUL_MAT_ID";
    ggml_cgraph* graph = workspace.new_graph();
    ggml_build_forward_expand(graph, node);
    ASSERT_TRUE(workspace.place(buffer_type()));
    std::vector<float> weights(4 * kSquare, std::numeric_limits<float>::quiet_NaN());
    for (const std::size_t expert : {0u, 2u}) {
        std::fill_n(weights.begin() + static_cast<std::ptrdiff_t>(expert * kSquare), kSquare,
                    static_cast<float>(expert + 1));
    }
    write(experts, weights);
    write(tokens, std::vector<float>(64 * 8, 1));
    std::vector<std::int32_t> chosen;
    for (int i = 0; i < 8; ++i) chosen.insert(chosen.end(), {0, 2});
    ggml_backend_tensor_set(ids, chosen.data(), 0, chosen.size() * sizeof(std::int32_t));
    ASSERT_EQ(compute(graph), GGML_STATUS_SUCCESS) << heddle_last_error();
    const std::vector<float> result = read(node);
    for (std::size_t i = 0; i < result.size(); ++i) {
        ASSERT_EQ(result[i], i / 64 % 2 == 0 ? 64 : 192) << "element " << i;
    }
}

TEST_P(GraphRun, APlanRunsItsGraphAgain) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain chain(doubling, buffer_type(), 2);
    const ggml_backend_graph_plan_t plan =
        ggml_backend_graph_plan_create(stream_.get(), chain.graph());
    if (plan == nullptr) GTEST_SKIP() << "makes no plans";
    for (const float first : {0.0f, 9.0f}) {
        write(chain.input(), counting(kSquare, first));
        EXPECT_EQ(ggml_backend_graph_plan_compute(stream_.get(), plan), GGML_STATUS_SUCCESS);
        EXPECT_EQ(read(chain.output()), chain.expected(first));
    }
    ggml_backend_graph_plan_free(stream_.get(), plan);
}

TEST_P(GraphRun, AnOpThatIsNotSupportedFailsWithASentence) {
    Workspace workspace;
    ggml_context* context = workspace.context();
    ggml_tensor* half = ggml_new_tensor_2d(context, GGML_TYPE_F16, 64, 64);
    ggml_tensor* node = ggml_mul_mat(context, workspace.floats(64, 64), half);
    if (ggml_backend_dev_supports_op(device(), node)) GTEST_SKIP() << "supports F32 times F16";
    ggml_cgraph* graph = workspace.new_graph();
    ggml_build_forward_expand(graph, node);
    ASSERT_TRUE(workspace.place(buffer_type()));
    ggml_backend_buffer_clear(workspace.buffer(), 0);
    EXPECT_NE(compute(graph), GGML_STATUS_SUCCESS);
    EXPECT_STRNE(heddle_last_error(), "");

    HEDDLE_NEEDS_DOUBLING(doubling);  // and the stream works on
    const Chain chain(doubling, buffer_type());
    write(chain.input(), counting(kSquare));
    EXPECT_EQ(compute(chain.graph()), GGML_STATUS_SUCCESS) << heddle_last_error();
    EXPECT_EQ(read(chain.output()), chain.expected(0));
}

TEST_P(GraphRun, TwoStreamsRunInTwoThreads) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const auto work = [&](float first) {
        const ggml_backend_ptr stream = new_stream();
        const Chain chain(doubling, buffer_type(), 3);
        for (int i = 0; i < 20; ++i) {
            write(chain.input(), counting(kSquare, first + float(i)));
            if (ggml_backend_graph_compute(stream.get(), chain.graph()) != GGML_STATUS_SUCCESS) {
                ADD_FAILURE() << heddle_last_error();
            }
            if (read(chain.output()) != chain.expected(first + float(i))) ADD_FAILURE() << i;
        }
    };
    std::thread other(work, 100.0f);
    work(0);
    other.join();
}

INSTANTIATE_TEST_SUITE_P(Every, GraphRun, testing::ValuesIn(all_subjects()), label_of);

}  // namespace
}  // namespace heddle::conformance
