#include "ops/recurrent.hpp"

#include <gtest/gtest.h>

#include "ggml/op_list.h"
#include "ops/backward.hpp"
#include "ops/build.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/dsv4.hpp"
#include "ops/lightning_indexer.hpp"
#include "ops/loss.hpp"
#include "ops/optimizer.hpp"
#include "ops/solve_tri.hpp"
#include "ops/state_space.hpp"
#include "ops/test_support.hpp"
#include "ops/view_builders.hpp"

namespace heddle {
namespace {

using StateSpace = NodeTest;
using Recurrences = NodeTest;
using TriangularSolve = NodeTest;
using Indexer = NodeTest;
using HyperConnections = NodeTest;
using Losses = NodeTest;
using Gradients = NodeTest;
using Optimizers = NodeTest;

// ---- state-space models ------------------------------------------------------------------------

TEST_F(StateSpace, ConvolutionPutsChannelsFirst) {
    Tensor* x = tensor("x", {4 - 1 + 10, 6, 2, 1});
    Tensor* kernel = tensor("c", {4, 6, 1, 1});
    Tensor* y = *build<ops::SsmConv>(context, {}, {x, kernel});
    EXPECT_EQ(summary(*y), "f32[6,10,2,1]");
    EXPECT_EQ(cost_of(*y).flops, 2.0 * 4 * 6 * 10 * 2);
    EXPECT_EQ(summary(**build<ops::SsmConv>(context, {}, {tensor("x", {3, 6, 2, 1}), kernel})),
              "f32[6,0,2,1]");
    EXPECT_EQ(build<ops::SsmConv>(context, {}, {tensor("x", {2, 6, 2, 1}), kernel}).error().message,
              "ssm_conv: x 'x' f32[2,6,2,1] is shorter than kernel 'c' f32[4,6,1,1]");
    EXPECT_EQ(build<ops::SsmConv>(context, {}, {kernel, x}).error().message,
              "ssm_conv: kernel 'x' f32[13,6,2,1] is not a matrix");
}

class Scan : public NodeTest {
protected:
    Tensor* s = tensor("s", {16, 4, 6, 3});
    Tensor* x = tensor("x", {4, 6, 5, 2});
    Tensor* dt = tensor("dt", {6, 5, 2, 1});
    Tensor* a = tensor("A", {1, 6, 1, 1});
    Tensor* b = tensor("B", {16, 2, 5, 2});
    Tensor* c = tensor("C", {16, 2, 5, 2});
    Tensor* ids = tensor("ids", {2, 1, 1, 1}, GGML_TYPE_I32);

    Result<Tensor*> scan(std::int64_t snapshots) {
        return build<ops::SsmScan>(context, ops::SsmScan::args(snapshots),
                                   {s, x, dt, a, b, c, ids});
    }
};

TEST_F(Scan, HoldsOutputsThenSnapshots) {
    Tensor* y = *scan(3);
    EXPECT_EQ(summary(*y), "f32[2544,1,1,1]");  // 4*6*5*2 + 3 * 16*4*6*2
    EXPECT_EQ(y->op_params[0], 3);
    EXPECT_EQ(cost_of(*y).flops, 5.0 * 16 * 4 * 6 * 5 * 2);
    EXPECT_TRUE(check_node(*y));
}

TEST_F(Scan, ADecayForEachElementOfTheStateKeepsOneSnapshot) {
    a = tensor("A", {16, 6, 1, 1});
    EXPECT_TRUE(scan(1));
    EXPECT_EQ(
        scan(2).error().message,
        "ssm_scan: 2 snapshots of a scan whose A 'A' f32[16,6,1,1] has a decay for each element "
        "of the state; it keeps 1");
    a = tensor("A", {8, 6, 1, 1});
    EXPECT_EQ(scan(1).error().message,
              "ssm_scan: A 'A' f32[8,6,1,1] does not have the extents [16,6,1,1]");
}

TEST_F(Scan, TakesPiecesOfOneProjection) {
    Tensor* joint = tensor("xBC", {24 + 64, 5, 2, 1});
    const std::size_t pitch = joint->nb[1];
    x = *view_nd(context, joint, {4, 6, 5, 2}, {16, pitch, 5 * pitch}, 0);
    b = *view_nd(context, joint, {16, 2, 5, 2}, {64, pitch, 5 * pitch}, 24 * 4);
    c = *view_nd(context, joint, {16, 2, 5, 2}, {64, pitch, 5 * pitch}, 56 * 4);
    EXPECT_TRUE(scan(1));
    x = *view_nd(context, joint, {4, 6, 5, 2}, {20, pitch, 5 * pitch}, 0);
    EXPECT_EQ(scan(1).error().message,
              "ssm_scan: x 'xBC (view)' f32[4,6,5,2] is not packed in dimensions 0 and 1");
}

TEST_F(Scan, RefusesCountsThatCannotBeStored) {
    EXPECT_EQ(scan(0).error().message, "ssm_scan: snapshot count 0 is not in 1 .. 2^31 - 1");
    EXPECT_EQ(scan((std::int64_t{1} << 32) + 1).error().message,
              "ssm_scan: snapshot count 4294967297 is not in 1 .. 2^31 - 1");
    ids = tensor("ids", {2, 1, 1, 1});
    EXPECT_EQ(scan(1).error().message, "ssm_scan: ids 'ids' f32[2,1,1,1] is not i32");
}

// ---- matrix states -----------------------------------------------------------------------------

TEST_F(Recurrences, HoldOutputsThenStates) {
    Tensor* k = tensor("k", {8, 3, 10, 1});
    Tensor* bonus = tensor("tf", {8, 3, 1, 1});
    Tensor* state = tensor("state", {8 * 8 * 3, 2, 1, 1});
    Tensor* six = *build<ops::RwkvWkv6>(context, {}, {k, k, k, bonus, k, state});
    EXPECT_EQ(summary(*six), "f32[24,26,1,1]");
    EXPECT_EQ(cost_of(*six).flops, 7.0 * 8 * 8 * 3 * 10);
    Tensor* seven = *build<ops::RwkvWkv7>(context, {}, {k, k, k, k, k, k, state});
    EXPECT_EQ(summary(*seven), "f32[24,26,1,1]");
    EXPECT_EQ(cost_of(*seven).flops, 9.0 * 8 * 8 * 3 * 10);
    Tensor* gated = *build<ops::GatedLinearAttn>(context, {0.5f}, {k, k, k, k, state});
    EXPECT_EQ(summary(*gated), "f32[24,26,1,1]");
    EXPECT_EQ(unpack<ops::GatedLinearAttn::Params>(*gated).scale, 0.5f);
    EXPECT_EQ(cost_of(*gated).flops, 5.0 * 8 * 8 * 3 * 10);
}

TEST_F(Recurrences, RefuseOperandsThatDoNotBelongTogether) {
    Tensor* k = tensor("k", {8, 3, 10, 1});
    Tensor* v = tensor("v", {8, 3, 9, 1});
    Tensor* state = tensor("state", {8 * 8 * 2, 2, 1, 1});
    EXPECT_EQ(build<ops::GatedLinearAttn>(context, {1}, {k, v, k, k, state}).error().message,
              "gated_linear_attn: v 'v' f32[8,3,9,1] does not have the extents [8,3,10,1]");
    EXPECT_EQ(
        build<ops::GatedLinearAttn>(context, {1}, {k, k, k, k, state}).error().message,
        "gated_linear_attn: state 'state' f32[128,2,1,1] does not hold 2 times 3 matrices of 8 by "
        "8");
}

class DeltaNet : public NodeTest {
protected:
    Tensor* q = tensor("q", {8, 2, 5, 1});
    Tensor* v = tensor("v", {8, 4, 5, 2});
    Tensor* g = tensor("g", {1, 4, 5, 2});
    Tensor* beta = tensor("beta", {1, 4, 5, 2});
    Tensor* state = tensor("state", {8, 8, 4, 2});

    Result<Tensor*> net(std::int64_t snapshots) {
        return build<ops::GatedDeltaNet>(context, ops::GatedDeltaNet::args(snapshots),
                                         {q, q, v, g, beta, state});
    }
};

TEST_F(DeltaNet, HoldsOutputsThenSnapshots) {
    Tensor* y = *net(3);
    EXPECT_EQ(summary(*y), "f32[32,58,1,1]");  // 5*2 + 3 * 8*2
    EXPECT_EQ(y->op_params[0], 3);
    EXPECT_EQ(cost_of(*y).flops, 7.0 * 8 * 8 * 4 * 5 * 2);
    EXPECT_TRUE(check_node(*y));
    g = tensor("g", {8, 4, 5, 2});
    EXPECT_TRUE(net(1));
}

TEST_F(DeltaNet, RefusesHeadsThatDoNotRepeat) {
    q = tensor("q", {8, 3, 5, 1});
    EXPECT_EQ(net(1).error().message,
              "gated_delta_net: q 'q' f32[8,3,5,1] does not go with v 'v' f32[8,4,5,2]");
    q = tensor("q", {8, 2, 5, 1}, GGML_TYPE_F16);
    EXPECT_EQ(net(1).error().message, "gated_delta_net: q 'q' f16[8,2,5,1] is not f32");
    q = tensor("q", {8, 2, 5, 1});
    g = tensor("g", {2, 4, 5, 2});
    EXPECT_EQ(net(1).error().message,
              "gated_delta_net: g 'g' f32[2,4,5,2] does not have the extents [8,4,5,2]");
}

// ---- ops of single models ----------------------------------------------------------------------

TEST_F(TriangularSolve, SolvesLowerTrianglesFromTheLeft) {
    Tensor* a = tensor("a", {5, 5, 2, 3});
    Tensor* b = tensor("b", {7, 5, 2, 3});
    Tensor* y = *build<ops::SolveTri>(context, {}, {a, b});
    EXPECT_EQ(summary(*y), "f32[7,5,2,3]");
    EXPECT_EQ(cost_of(*y).flops, 5.0 * 6 * 7 * 2 * 3);
    EXPECT_TRUE(check_node(*y));
    EXPECT_EQ(build<ops::SolveTri>(context, {{}, true, false, false}, {a, b}).error().message,
              "solve_tri: only lower triangular matrices are supported");
    EXPECT_EQ(build<ops::SolveTri>(context, {}, {b, b}).error().message,
              "solve_tri: a 'b' f32[7,5,2,3] does not have the extents [5,5,2,3]");
}

TEST_F(Indexer, ScoresEveryKeyForEveryToken) {
    Tensor* q = tensor("q", {128, 4, 3, 2});
    Tensor* k = tensor("k", {128, 1, 50, 2}, GGML_TYPE_Q8_0);
    Tensor* weights = tensor("weights", {4, 3, 1, 2});
    Tensor* mask = tensor("mask", {50, 3, 1, 1}, GGML_TYPE_F16);
    Tensor* y = *build<ops::LightningIndexer>(context, {}, {q, k, weights, mask});
    EXPECT_EQ(summary(*y), "f32[50,3,1,2]");
    EXPECT_EQ(cost_of(*y).flops, ((2 * 128 + 2) * 4 + 1) * 50.0 * 3 * 2);
    Tensor* three = tensor("mask", {50, 3, 1, 3}, GGML_TYPE_F16);
    EXPECT_EQ(
        build<ops::LightningIndexer>(context, {}, {q, k, weights, three}).error().message,
        "lightning_indexer: mask 'mask' f16[50,3,1,3] does not repeat to extent 2 in dimension 3");
    Tensor* none = tensor("mask", {50, 3, 1, 0}, GGML_TYPE_F16);
    EXPECT_FALSE(build<ops::LightningIndexer>(context, {}, {q, k, weights, none}));
}

TEST_F(HyperConnections, MixFourStreams) {
    Tensor* mixes = tensor("mixes", {24, 10, 1, 1});
    Tensor* scale = tensor("scale", {3, 1, 1, 1});
    Tensor* base = tensor("base", {24, 1, 1, 1});
    Tensor* comb = *build<ops::Dsv4HcComb>(context, {1e-6f, 20}, {mixes, scale, base});
    EXPECT_EQ(summary(*comb), "f32[4,4,10,1]");
    EXPECT_EQ(unpack<ops::Dsv4HcComb::Params>(*comb).eps, 1e-6f);
    EXPECT_EQ(comb->op_params[1], 20);
    EXPECT_EQ(build<ops::Dsv4HcComb>(context, {1e-6f, 0}, {mixes, scale, base}).error().message,
              "dsv4_hc_comb: iteration count 0 is below 1");
    EXPECT_EQ(build<ops::Dsv4HcComb>(context, {1e-6f, 1}, {scale, scale, base}).error().message,
              "dsv4_hc_comb: mixes 'scale' f32[3,1,1,1] does not have extent 24 in dimension 0");

    Tensor* streams = tensor("streams", {64, 4, 10, 1});
    Tensor* weights = tensor("weights", {4, 10, 1, 1});
    Tensor* x = *build<ops::Dsv4HcPre>(context, {}, {streams, weights});
    EXPECT_EQ(summary(*x), "f32[64,10,1,1]");
    EXPECT_EQ(cost_of(*x).flops, 2.0 * 64 * 4 * 10);
    Tensor* y = *build<ops::Dsv4HcPost>(context, {}, {x, streams, weights, comb});
    EXPECT_EQ(summary(*y), "f32[64,4,10,1]");
    EXPECT_EQ(cost_of(*y).flops, 9.0 * 64 * 4 * 10);
    set_name(*x, "x");
    EXPECT_EQ(build<ops::Dsv4HcPost>(context, {}, {x, x, weights, comb}).error().message,
              "dsv4_hc_post: residual 'x' f32[64,10,1,1] does not have the extents [64,10,10,1]");
}

// ---- training ----------------------------------------------------------------------------------

TEST_F(Losses, AreOneNumberAndTheirGradientLooksLikeTheLogits) {
    Tensor* logits = tensor("logits", {10, 4, 1, 1});
    Tensor* labels = tensor("labels", {10, 4, 1, 1});
    Tensor* loss = *build<ops::CrossEntropyLoss>(context, {}, {logits, labels});
    EXPECT_EQ(summary(*loss), "f32[1,1,1,1]");
    Tensor* gradient = *build<ops::CrossEntropyLossBack>(context, {}, {loss, logits, labels});
    EXPECT_EQ(summary(*gradient), "f32[10,4,1,1]");
    EXPECT_EQ(build<ops::CrossEntropyLossBack>(context, {}, {logits, loss, labels}).error().message,
              "cross_entropy_loss_back: dy 'logits' f32[10,4,1,1] is not a single element");
    EXPECT_EQ(
        build<ops::CrossEntropyLoss>(context, {}, {loss, labels}).error().message,
        "cross_entropy_loss: labels 'labels' f32[10,4,1,1] does not have the extents of logits '' "
        "f32[1,1,1,1]");
}

TEST_F(Gradients, LookLikeTheGradientTheyAreGiven) {
    Tensor* dy = tensor("dy", {10, 4, 1, 1}, GGML_TYPE_F16);
    Tensor* silu = *build<ops::SiluBack>(context, {}, {dy, dy});
    EXPECT_EQ(summary(*silu), "f16[10,4,1,1]");
    Tensor* norm = *build<ops::RmsNormBack>(context, {1e-5f}, {dy, dy});
    EXPECT_EQ(unpack<ops::RmsNormBack::Params>(*norm).eps, 1e-5f);
    EXPECT_TRUE(find_op(GGML_OP_SILU_BACK)->may_reuse_source);
    EXPECT_TRUE(find_op(GGML_OP_RMS_NORM_BACK)->may_reuse_source);
}

TEST_F(Optimizers, UpdateTheirWeightsWhereTheyLie) {
    Tensor* weights = tensor("weights", {10, 4, 1, 1});
    Tensor* gradient = tensor("gradient", {10, 4, 1, 1});
    Tensor* seven = tensor("seven", {7, 1, 1, 1});
    Tensor* two = tensor("two", {2, 1, 1, 1});
    EXPECT_EQ(build<ops::OptStepSgd>(context, {}, {weights, gradient, two}).error().message,
              "opt_step_sgd: weights 'weights' f32[10,4,1,1] are not marked as a parameter");
    weights->flags |= GGML_TENSOR_FLAG_PARAM;
    Tensor* sgd = *build<ops::OptStepSgd>(context, {}, {weights, gradient, two});
    EXPECT_EQ(sgd->view_src, weights);
    EXPECT_EQ(name_of(*sgd), "weights (view)");
    EXPECT_EQ(cost_of(*sgd).flops, 120);
    EXPECT_TRUE(check_node(*sgd));
    Tensor* adamw =
        *build<ops::OptStepAdamw>(context, {}, {weights, gradient, gradient, gradient, seven});
    EXPECT_EQ(adamw->view_src, weights);
    EXPECT_EQ(cost_of(*adamw).bytes, 7.0 * 160 + 28);
    EXPECT_EQ(build<ops::OptStepAdamw>(context, {}, {weights, gradient, gradient, gradient, two})
                  .error()
                  .message,
              "opt_step_adamw: values 'two' f32[2,1,1,1] are not 7");
    EXPECT_EQ(
        build<ops::OptStepSgd>(context, {}, {weights, two, two}).error().message,
        "opt_step_sgd: gradient 'two' f32[2,1,1,1] does not have the extents of weights 'weights' "
        "f32[10,4,1,1]");
}

}  // namespace
}  // namespace heddle
