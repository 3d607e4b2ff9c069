#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "heddle/heddle.h"

namespace {

/// A C program's view of a context; failures are reported instead of stopping the test.
class GraphApi : public testing::Test {
protected:
    GraphApi() { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }
    ~GraphApi() override {
        ggml_free(ctx_);
        heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
        heddle_clear_error();
    }

    ggml_tensor* vector() { return ggml_new_tensor_1d(ctx_, GGML_TYPE_F32, 4); }

    ggml_context* ctx_ = ggml_init({1 << 20, nullptr, true});
};

TEST_F(GraphApi, NodesCountFromBothEnds) {
    ggml_tensor* a = ggml_dup(ctx_, vector());
    ggml_tensor* b = ggml_cont(ctx_, a);
    ggml_cgraph* graph = ggml_new_graph(ctx_);
    ggml_build_forward_expand(graph, b);
    EXPECT_EQ(ggml_graph_size(graph), 2048);
    EXPECT_EQ(ggml_graph_n_nodes(graph), 2);
    EXPECT_EQ(ggml_graph_node(graph, 0), a);
    EXPECT_EQ(ggml_graph_node(graph, -1), b);
    EXPECT_EQ(ggml_graph_nodes(graph)[1], b);
    EXPECT_EQ(ggml_graph_node(graph, 2), nullptr);
    EXPECT_STREQ(heddle_last_error(), "graph node: number 2 of 2 nodes");
    EXPECT_EQ(ggml_graph_node(graph, -3), nullptr);
    EXPECT_EQ(ggml_graph_get_tensor(graph, "node_0"), a);
    EXPECT_EQ(ggml_graph_get_grad(graph, a), nullptr);
}

TEST_F(GraphApi, SelectionNeedsANumberInsideTheList) {
    ggml_tensor* branches[] = {ggml_dup(ctx_, vector()), ggml_dup(ctx_, vector())};
    ggml_cgraph* graph = ggml_new_graph_custom(ctx_, 8, false);
    EXPECT_EQ(ggml_build_forward_select(graph, branches, 2, 2), nullptr);
    EXPECT_STREQ(heddle_last_error(), "graph selection: number 2 of 2 tensors");
    EXPECT_EQ(ggml_graph_n_nodes(graph), 0);
}

TEST_F(GraphApi, ViewsOfGraphsStayInside) {
    ggml_cgraph* graph = ggml_new_graph_custom(ctx_, 8, false);
    ggml_build_forward_expand(graph, ggml_cont(ctx_, ggml_dup(ctx_, vector())));
    EXPECT_EQ(ggml_graph_view(graph, 1, 2).n_nodes, 1);
    EXPECT_EQ(ggml_graph_view(graph, 1, 3).n_nodes, 0);
    EXPECT_STREQ(heddle_last_error(), "graph view: nodes 1 to 3 of 2");
}

TEST_F(GraphApi, DrawingSaysWhichFileItCouldNotWrite) {
    ggml_cgraph* graph = ggml_new_graph_custom(ctx_, 8, false);
    std::string logged;
    ggml_log_set(
        [](ggml_log_level, const char* text, void* to) { *static_cast<std::string*>(to) += text; },
        &logged);
    heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_ABORT);  // not even then is it an abort
    ggml_graph_dump_dot(graph, nullptr, "no/such/folder/graph.dot");
    ggml_graph_dump_dot(graph, nullptr, "/dev/full");
    heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_PROCESS);
    ggml_log_set(nullptr, nullptr);
    EXPECT_STREQ(heddle_last_error(),
                 "/dev/full: cannot be written: No space left on device after 0 bytes");
    EXPECT_EQ(logged,
              "no/such/folder/graph.dot: cannot be written: No such file or directory\n"
              "/dev/full: cannot be written: No space left on device after 0 bytes\n");
}

TEST_F(GraphApi, DrawingIsWrittenToItsFile) {
    ggml_cgraph* graph = ggml_new_graph_custom(ctx_, 8, false);
    const std::string path = testing::TempDir() + "heddle_graph_test.dot";
    ggml_graph_dump_dot(graph, nullptr, path.c_str());
    std::FILE* file = ggml_fopen(path.c_str(), "r");
    ASSERT_NE(file, nullptr);
    char line[64];
    EXPECT_STREQ(std::fgets(line, sizeof line, file), "digraph G {\n");
    std::fclose(file);
    std::remove(path.c_str());
}

TEST_F(GraphApi, HashSetsOfImpossibleSizesAreEmpty) {
    EXPECT_EQ(ggml_hash_set_new(SIZE_MAX).size, 0u);
    EXPECT_GE(ggml_hash_size(SIZE_MAX), SIZE_MAX);
    ggml_hash_set none{};
    ggml_hash_set_reset(&none);
    ggml_hash_set_free(&none);
}

/// x -> dup -> cont, in a graph.
class Fusion : public GraphApi {
protected:
    Fusion() { ggml_build_forward_expand(graph_, last_); }

    bool can_fuse(std::initializer_list<int> outputs) {
        return ggml_can_fuse_subgraph(graph_, 0, {GGML_OP_DUP, GGML_OP_CONT}, outputs);
    }

    ggml_tensor* x_ = vector();
    ggml_tensor* first_ = ggml_dup(ctx_, x_);
    ggml_tensor* last_ = ggml_cont(ctx_, first_);
    ggml_cgraph* graph_ = ggml_new_graph_custom(ctx_, 8, false);
};

TEST_F(Fusion, WorksWhereOnlyTheOutputIsSeenOutside) {
    EXPECT_TRUE(can_fuse({1}));
    EXPECT_FALSE(ggml_can_fuse_subgraph(graph_, 0, {GGML_OP_DUP, GGML_OP_DUP}, {1}));
    EXPECT_FALSE(ggml_can_fuse_subgraph(graph_, 1, {GGML_OP_CONT, GGML_OP_CONT}, {1}));
}

TEST_F(Fusion, StopsAtResultsThatOthersUse) {
    ggml_build_forward_expand(graph_, ggml_cont(ctx_, first_));
    EXPECT_FALSE(can_fuse({1}));
    EXPECT_TRUE(can_fuse({0, 1}));
}

TEST_F(Fusion, StopsAtOutputsAndAtNodesThatAreNotComputed) {
    first_->flags |= GGML_TENSOR_FLAG_OUTPUT;
    EXPECT_FALSE(can_fuse({1}));
    first_->flags = 0;
    EXPECT_FALSE(can_fuse({1}));
}

TEST_F(Fusion, ViewsMustBeOfTheGroupOrOfWeights) {
    first_->view_src = x_;
    EXPECT_FALSE(can_fuse({1}));
    ggml_backend_buffer weights{};
    weights.usage = GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    x_->buffer = &weights;
    EXPECT_TRUE(can_fuse({1}));
    x_->flags |= GGML_TENSOR_FLAG_PARAM;
    EXPECT_FALSE(can_fuse({1}));
    x_->buffer = nullptr;
}

TEST_F(GraphApi, RopeStoresSectionsOnlyForModesWithFourPositions) {
    ggml_tensor* x = ggml_new_tensor_3d(ctx_, GGML_TYPE_F32, 64, 4, 7);
    ggml_tensor* one = ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, 7);
    ggml_tensor* four = ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, 28);
    int sections[4] = {16, 8, 8, 1};
    const auto rope = [&](ggml_tensor* positions, int mode) {
        return ggml_rope_multi(ctx_, x, positions, nullptr, 64, sections, mode, 0, 1e4f, 1, 0, 1, 0,
                               0);
    };
    EXPECT_EQ(rope(one, GGML_ROPE_TYPE_NEOX)->op_params[11], 0);
    EXPECT_EQ(rope(four, GGML_ROPE_TYPE_MROPE)->op_params[11], 16);
    EXPECT_EQ(rope(four, GGML_ROPE_TYPE_MROPE)->op_params[14], 1);
    EXPECT_EQ(rope(four, GGML_ROPE_TYPE_NEOX), nullptr);
}

TEST_F(GraphApi, NullOperandsAreRefusedWithASentence) {
    EXPECT_EQ(ggml_view_1d(ctx_, nullptr, 4, 0), nullptr);
    EXPECT_STREQ(heddle_last_error(), "view: operand x is missing");
    EXPECT_EQ(ggml_repeat(ctx_, vector(), nullptr), nullptr);
    EXPECT_STREQ(heddle_last_error(), "repeat: the tensor that lends its shape is missing");
    EXPECT_EQ(ggml_cont(nullptr, vector()), nullptr);
    EXPECT_EQ(ggml_reshape(ctx_, nullptr, vector()), nullptr);
    EXPECT_EQ(ggml_soft_max_ext(ctx_, nullptr, nullptr, 1, 0), nullptr);
    ggml_soft_max_add_sinks(nullptr, nullptr);
    ggml_build_forward_expand(nullptr, nullptr);
    EXPECT_STREQ(heddle_last_error(), "graph expansion: the graph is NULL");
}

}  // namespace
