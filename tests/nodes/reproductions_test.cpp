// Calls of the C API that once crashed or computed from memory that was not theirs, with operands
// that end at an unreadable page.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/graph.hpp"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "guarded_memory.hpp"
#include "heddle/heddle.h"

namespace heddle {
namespace {

class Reproductions : public testing::Test {
protected:
    void SetUp() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }
    void TearDown() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT); }

    /// A tensor whose memory ends at an unreadable page.
    ggml_tensor* tensor(std::initializer_list<std::int64_t> extents,
                        ggml_type type = GGML_TYPE_F32) {
        ggml_tensor* made =
            ggml_new_tensor(context(), type, static_cast<int>(extents.size()), std::data(extents));
        return placed(made);
    }
    ggml_tensor* placed(ggml_tensor* made) {
        if (made == nullptr || made->data != nullptr) return made;
        made->data = memory_.last(next_++ % kPieces, ggml_nbytes(made));
        return made;
    }

    ggml_context* context() { return context_.get(); }

    /// What is said against computing `node`, or nothing. A node that could not be built has said
    /// it already.
    std::string objection_to(ggml_tensor* node) {
        if (node == nullptr) return heddle_last_error();
        const bool is_supported =
            ggml_backend_dev_supports_op(ggml_backend_get_device(cpu_.get()), node);
        ggml_cgraph* const graph = ggml_new_graph(context());
        ggml_build_forward_expand(graph, placed(node));
        const ggml_status status = ggml_backend_graph_compute(cpu_.get(), graph);
        EXPECT_EQ(status == GGML_STATUS_SUCCESS, is_supported) << heddle_last_error();
        return status == GGML_STATUS_SUCCESS ? "" : heddle_last_error();
    }

private:
    static constexpr std::size_t kPieces = 16;
    GuardedMemory memory_{kPieces, 1 << 16};
    std::size_t next_ = 0;
    ggml_context_ptr context_{
        ggml_init({.mem_size = std::size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_backend_ptr cpu_{ggml_backend_cpu_init()};
};

TEST_F(Reproductions, BlocksCannotBeTransposed) {
    for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0}) {
        ggml_tensor* const w = tensor({256, 64}, type);
        EXPECT_EQ(ggml_transpose(context(), w), nullptr);
        EXPECT_EQ(ggml_permute(context(), w, 1, 2, 0, 3), nullptr);
        EXPECT_NE(ggml_permute(context(), w, 0, 2, 1, 3), nullptr) << "rows stay as they are";
    }
}

TEST_F(Reproductions, OperandsWithoutElementsAreNotRead) {
    const ggml_type ids = GGML_TYPE_I32;
    ggml_context* const c = context();
    EXPECT_NE(objection_to(ggml_timestep_embedding(c, tensor({5, 0}), 8, 100)), "");
    EXPECT_NE(
        objection_to(ggml_add_id(c, tensor({32, 2, 4}), tensor({32, 3, 0}), tensor({2, 4}, ids))),
        "");
    EXPECT_NE(
        objection_to(ggml_add_id(c, tensor({32, 2, 4}), tensor({32, 3}), tensor({2, 4, 0}, ids))),
        "");
    EXPECT_NE(objection_to(ggml_rope_ext(c, tensor({32, 2, 4}), tensor({4}, ids), tensor({16, 0}),
                                         32, 0, 0, 1e4F, 1, 0, 1, 0, 0)),
              "");
    EXPECT_NE(objection_to(ggml_get_rel_pos(c, tensor({6, 15, 0}, GGML_TYPE_F16), 8, 8)), "");
    const auto tokens = [&](std::int64_t n3) { return tensor({16, 2, 5, n3}); };
    ggml_tensor* const state = tensor({16 * 16 * 2, 1});
    EXPECT_NE(objection_to(ggml_rwkv_wkv6(c, tokens(1), tokens(0), tokens(1), tensor({16, 2}),
                                          tokens(1), state)),
              "");
    EXPECT_NE(objection_to(ggml_rwkv_wkv7(c, tokens(1), tokens(1), tokens(1), tokens(0), tokens(1),
                                          tokens(1), state)),
              "");
    EXPECT_NE(objection_to(
                  ggml_gated_linear_attn(c, tokens(1), tokens(1), tokens(0), tokens(1), state, 1)),
              "");
}

TEST_F(Reproductions, ConvolutionsNeedKernelsWithElements) {
    ggml_context* const c = context();
    EXPECT_NE(objection_to(ggml_conv_2d_direct(c, tensor({3, 0, 4, 1}), tensor({8, 8, 4, 4}), 1, 1,
                                               1, 1, 1, 1)),
              "");
    EXPECT_NE(objection_to(ggml_conv_3d_direct(c, tensor({3, 0, 2, 2}), tensor({8, 8, 8, 2}), 1, 1,
                                               1, 1, 1, 1, 1, 1, 1, 2, 1, 1)),
              "");
    EXPECT_NE(objection_to(ggml_conv_transpose_2d_p0(c, tensor({2, 0, 5, 5}, GGML_TYPE_F16),
                                                     tensor({8, 8, 5, 1}), 2)),
              "");
}

TEST_F(Reproductions, ViewsEndWithTheirRootsHoweverFarTheirStridesLead) {
    ggml_context* const c = context();
    ggml_tensor* const a = tensor({64});
    EXPECT_EQ(ggml_view_2d(c, a, 4, 3, std::size_t{1} << 63, 0), nullptr);
    EXPECT_EQ(ggml_view_2d(c, a, 4, 4, 1 << 20, 0), nullptr);
    ggml_tensor* const inner = ggml_view_1d(c, a, 4, 64);
    EXPECT_EQ(ggml_view_1d(c, inner, 4, std::size_t{0} - 64), nullptr);
    EXPECT_NE(ggml_view_2d(c, a, 0, 4, std::size_t{1} << 63, 0), nullptr) << "nothing is nowhere";

    ggml_tensor* const view = ggml_view_2d(c, a, 4, 3, 64, 0);
    view->nb[1] = std::size_t{1} << 63;
    EXPECT_NE(objection_to(ggml_cont(c, view)), "");
}

TEST_F(Reproductions, ParametersThatWereRewrittenAreRefused) {
    ggml_context* const c = context();
    ggml_tensor* const y = ggml_conv_transpose_1d(c, tensor({4, 2, 3}), tensor({8, 3}), 2, 0, 1);
    y->op_params[0] = 0;
    EXPECT_NE(objection_to(y).find("stride 0 along axis 0"), std::string::npos);
    ggml_tensor* const windows = ggml_win_unpart(c, tensor({4, 3, 3, 9}), 7, 7, 3);
    windows->op_params[0] = 0;
    EXPECT_NE(objection_to(windows).find("window width 0"), std::string::npos);
    ggml_tensor* const patches = ggml_im2col_3d(c, tensor({2, 2, 2, 3}), tensor({4, 4, 4, 3}), 3, 1,
                                                1, 1, 0, 0, 0, 1, 1, 1, GGML_TYPE_F32);
    patches->op_params[9] = 0;
    EXPECT_NE(objection_to(patches).find("channel count 0"), std::string::npos);
}

TEST_F(Reproductions, ExtentsThatWereRewrittenAreRefused) {
    ggml_tensor* const y = ggml_mul_mat(context(), tensor({16, 8}), tensor({16, 4}));
    y->ne[0] = 1;
    EXPECT_NE(objection_to(y).find("should be f32[8,4,1,1]"), std::string::npos);
    y->ne[0] = 8;
    y->nb[1] = std::size_t{1} << 40;
    EXPECT_NE(objection_to(y).find("strides"), std::string::npos);
}

TEST_F(Reproductions, ParametersHaveAnUpperEnd) {
    ggml_context* const c = context();
    EXPECT_EQ(ggml_group_norm(c, tensor({9, 5, 8}), INT32_MAX, 1e-5F), nullptr);
    // 17 GB of scratch memory once; now each window is looked at by itself.
    EXPECT_EQ(objection_to(ggml_pool_1d(c, tensor({100}), GGML_OP_POOL_MAX, 2, 1 << 29, INT32_MAX)),
              "");
    EXPECT_NE(objection_to(
                  ggml_pool_1d(c, tensor({100}), GGML_OP_POOL_MAX, INT32_MAX, 1 << 29, INT32_MAX)),
              "");
    ggml_tensor* const a = tensor({8, 8});
    EXPECT_EQ(ggml_set_2d(c, a, tensor({8, 2}), 32, 256), nullptr);
    EXPECT_EQ(ggml_rope(c, tensor({32, 2, 4}), tensor({4}, GGML_TYPE_I32), 31, 0), nullptr);
}

TEST_F(Reproductions, ListsMayHoldAnything) {
    ggml_context* const c = context();
    ggml_tensor* const a = placed(ggml_sqr(c, tensor({4})));
    ggml_cgraph* const graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, a);
    ggml_backend_ptr cpu(ggml_backend_cpu_init());
    ggml_backend_t streams[] = {cpu.get()};
    ggml_backend_sched_ptr scheduler(ggml_backend_sched_new(streams, nullptr, 1, 64, false, false));
    ggml_graph_nodes(graph)[0] = nullptr;
    EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), graph), GGML_STATUS_FAILED);
    EXPECT_NE(std::string(heddle_last_error()).find("node 0 of the graph is NULL"),
              std::string::npos)
        << heddle_last_error();
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(scheduler.get(), graph));
    ggml_graph_nodes(graph)[0] = a;
    a->op = static_cast<ggml_op>(9999);
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(scheduler.get(), graph));
    EXPECT_NE(std::string(heddle_last_error()).find("there is no op 9999"), std::string::npos)
        << heddle_last_error();
    a->op = GGML_OP_SQR;
    a->src[0] = a;
    EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), graph), GGML_STATUS_FAILED);
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(scheduler.get(), graph));
}

}  // namespace
}  // namespace heddle
