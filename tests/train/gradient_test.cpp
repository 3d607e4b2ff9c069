#include <gtest/gtest.h>

#include <cmath>

#include "differences.hpp"
#include "heddle/heddle.h"

namespace heddle::test {
namespace {

/// A graph with parameters, and how well its gradients agree with differences.
struct Case {
    const char* name;
    ggml_tensor* (*build)(Experiment&, ggml_context*);
    double tolerance = 2e-4;  ///< of the largest gradient: mostly roundings, divided by the step

    friend void PrintTo(const Case& self, std::ostream* out) { *out << self.name; }
};

using E = Experiment;
using C = ggml_context;
using T = ggml_tensor;

// ---- element by element ------------------------------------------------------------------------

const Case kElementwise[] = {
    {"Add",
     [](E& e, C* c) {
         return ggml_add(c, e.parameter({5, 3}), e.parameter({5, 3}));
     }},
    {"AddRepeatsRows",
     [](E& e, C* c) {
         return ggml_add(c, e.parameter({5, 3, 2}), e.parameter({5}));
     }},
    {"AddRepeatsEverywhere",
     [](E& e, C* c) {
         return ggml_add(c, e.parameter({4, 6, 2, 2}), e.parameter({2, 3, 1, 2}));
     }},
    {"AddOfOneTensorTwice",
     [](E& e, C* c) {
         T* x = e.parameter({5, 3});
         return ggml_add(c, x, x);
     }},
    {"Sub",
     [](E& e, C* c) {
         return ggml_sub(c, e.parameter({5, 3}), e.parameter({5, 3}));
     }},
    {"SubRepeats",
     [](E& e, C* c) {
         return ggml_sub(c, e.parameter({4, 3, 2}), e.parameter({1, 3}));
     }},
    {"Mul",
     [](E& e, C* c) {
         return ggml_mul(c, e.parameter({5, 3}), e.parameter({5, 3}));
     }},
    {"MulRepeats",
     [](E& e, C* c) {
         return ggml_mul(c, e.parameter({4, 3, 2}), e.parameter({4, 1, 2}));
     }},
    {"MulOfOneTensorTwice",
     [](E& e, C* c) {
         T* x = e.parameter({5, 3});
         return ggml_mul(c, x, x);
     }},
    {"Div",
     [](E& e, C* c) {
         return ggml_div(c, e.parameter({5, 3}), e.parameter({5, 3}, 0.5F, 2));
     }},
    {"DivRepeats",
     [](E& e, C* c) {
         return ggml_div(c, e.parameter({4, 3, 2}), e.parameter({4}, 0.5F, 2));
     }},
    {"Add1",
     [](E& e, C* c) {
         return ggml_add1(c, e.parameter({5, 3}), e.parameter({1}));
     }},
    {"Scale",
     [](E& e, C* c) {
         return ggml_scale(c, e.parameter({5, 3}), -0.3F);
     }},
    {"ScaleBias",
     [](E& e, C* c) {
         return ggml_scale_bias(c, e.parameter({5, 3}), 3, 7);
     }},
    {"Sqr",
     [](E& e, C* c) {
         return ggml_sqr(c, e.parameter({5, 3}));
     }},
    {"Sqrt",
     [](E& e, C* c) {
         return ggml_sqrt(c, e.parameter({5, 3}, 0.5F, 2));
     }},
    {"Log",
     [](E& e, C* c) {
         return ggml_log(c, e.parameter({5, 3}, 0.5F, 2));
     }},
    {"Sin",
     [](E& e, C* c) {
         return ggml_sin(c, e.parameter({5, 3}));
     }},
    {"Cos",
     [](E& e, C* c) {
         return ggml_cos(c, e.parameter({5, 3}));
     }},
    {"Abs",
     [](E& e, C* c) {
         return ggml_abs(c, e.parameter({5, 3}));
     }},
    {"Neg",
     [](E& e, C* c) {
         return ggml_neg(c, e.parameter({5, 3}));
     }},
    {"Relu",
     [](E& e, C* c) {
         return ggml_relu(c, e.parameter({5, 3}));
     }},
    {"Silu",
     [](E& e, C* c) {
         return ggml_silu(c, e.parameter({5, 3}));
     }},
    {"Exp",
     [](E& e, C* c) {
         return ggml_exp(c, e.parameter({5, 3}));
     }},
    {"Expm1",
     [](E& e, C* c) {
         return ggml_expm1(c, e.parameter({5, 3}));
     }},
    {"Softplus",
     [](E& e, C* c) {
         return ggml_softplus(c, e.parameter({5, 3}));
     }},
    {"StepIsConstant",
     [](E& e, C* c) {
         T* x = e.parameter({5, 3});
         return ggml_mul(c, x, ggml_step(c, x));
     }},
    {"SignIsConstant",
     [](E& e, C* c) {
         T* x = e.parameter({5, 3});
         return ggml_mul(c, x, ggml_sgn(c, x));
     }},
    {"SwigluSplit",
     [](E& e, C* c) {
         return ggml_swiglu_split(c, e.parameter({5, 3}), e.parameter({5, 3}));
     }},
    {"ManyPathsToOneParameter",
     [](E& e, C* c) {
         T* x = e.parameter({4, 3});
         T* y = ggml_sub(c, ggml_sqr(c, x), ggml_sin(c, x));
         y = ggml_add1(c, y, ggml_sum(c, x));
         return ggml_sub(c, ggml_mul(c, y, x), ggml_scale(c, x, 2));
     }},
};

// ---- along rows --------------------------------------------------------------------------------

T* attention_mask(E& e) { return e.constant({6, 4}, -1, 1); }

const Case kRows[] = {
    {"Sum",
     [](E& e, C* c) {
         return ggml_sum(c, e.parameter({5, 3, 2}));
     }},
    {"SumRows",
     [](E& e, C* c) {
         return ggml_sum_rows(c, e.parameter({5, 3, 2}));
     }},
    {"Mean",
     [](E& e, C* c) {
         return ggml_mean(c, e.parameter({5, 3, 2}));
     }},
    {"MeanAfterAnother",
     [](E& e, C* c) {
         T* x = e.parameter({5, 3});
         return ggml_add(c, x, ggml_mean(c, x));
     }},
    {"RmsNorm",
     [](E& e, C* c) {
         return ggml_rms_norm(c, e.parameter({7, 3, 2}), 1e-3F);
     }},
    {"SoftMax",
     [](E& e, C* c) {
         return ggml_soft_max(c, e.parameter({6, 4, 2}));
     }},
    {"SoftMaxWithMask",
     [](E& e, C* c) {
         return ggml_soft_max_ext(c, e.parameter({6, 4, 2}), attention_mask(e), 0.7F, 0);
     }},
    {"SoftMaxWithSlopes",
     [](E& e, C* c) {
         return ggml_soft_max_ext(c, e.parameter({6, 4, 2}), attention_mask(e), 0.7F, 8);
     }},
    {"SoftMaxWithSinks",
     [](E& e, C* c) {
         T* y = ggml_soft_max_ext(c, e.parameter({6, 4, 2}), attention_mask(e), 0.7F, 0);
         ggml_soft_max_add_sinks(y, e.constant({2}));
         return y;
     }},
    {"DiagMaskInf",
     [](E& e, C* c) {
         return ggml_soft_max(c, ggml_diag_mask_inf(c, e.parameter({6, 4, 2}), 2));
     }},
    {"DiagMaskZero",
     [](E& e, C* c) {
         return ggml_diag_mask_zero(c, e.parameter({6, 4, 2}), 1);
     }},
    {"Rope",
     [](E& e, C* c) {
         return ggml_rope(c, e.parameter({8, 2, 3}), e.integers({0, 3, 5}), 8, 0);
     }},
    {"RopeNeoxPartWithFactors",
     [](E& e, C* c) {
         return ggml_rope_ext(c, e.parameter({8, 2, 3}), e.integers({1, 2, 7}),
                              e.constant({2}, 1, 2), 4, GGML_ROPE_TYPE_NEOX, 64, 10000, 0.5F, 0.3F,
                              1.2F, 32, 1);
     }},
    {"RopeWithOffset",
     [](E& e, C* c) {
         T* y = ggml_rope(c, e.parameter({8, 2, 3}), e.integers({1, 2, 7}), 4, 0);
         ggml_rope_set_offset(y, 2);
         return y;
     }},
    {"RopeMulti",
     [](E& e, C* c) {
         int sections[GGML_MROPE_SECTIONS] = {1, 1, 1, 1};
         return ggml_rope_multi(c, e.parameter({8, 2, 3}),
                                e.integers({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), nullptr, 8,
                                sections, GGML_ROPE_TYPE_MROPE, 0, 10000, 1, 0, 1, 0, 0);
     }},
    {"CrossEntropyLoss",
     [](E& e, C* c) {
         T* labels = ggml_soft_max(c, e.constant({5, 4}));
         return ggml_cross_entropy_loss(c, e.parameter({5, 4}), labels);
     }},
};

// ---- moving ------------------------------------------------------------------------------------

const Case kMovement[] = {
    {"Dup",
     [](E& e, C* c) {
         return ggml_dup(c, e.parameter({5, 3}));
     }},
    {"Cpy",
     [](E& e, C* c) {
         return ggml_cpy(c, e.parameter({6, 4}), e.constant({3, 8}));
     }},
    {"Cast",
     [](E& e, C* c) {
         T* half = ggml_cast(c, e.parameter({5, 3}), GGML_TYPE_F16);
         return ggml_cast(c, half, GGML_TYPE_F32);
     },
     5e-2},  // half floats have 11 bits
    {"Cont",
     [](E& e, C* c) {
         return ggml_cont(c, ggml_transpose(c, e.parameter({5, 3})));
     }},
    {"ContWithOtherExtents",
     [](E& e, C* c) {
         return ggml_cont_2d(c, ggml_permute(c, e.parameter({2, 3, 4}), 0, 2, 1, 3), 6, 4);
     }},
    {"Reshape",
     [](E& e, C* c) {
         return ggml_reshape_2d(c, e.parameter({6, 4}), 3, 8);
     }},
    {"Permute",
     [](E& e, C* c) {
         return ggml_permute(c, e.parameter({2, 3, 4, 5}), 2, 0, 3, 1);
     }},
    {"Transpose",
     [](E& e, C* c) {
         return ggml_transpose(c, e.parameter({5, 3, 2}));
     }},
    {"ViewOfColumns",
     [](E& e, C* c) {
         T* x = e.parameter({6, 4, 2});
         return ggml_view_3d(c, x, 3, 4, 2, x->nb[1], x->nb[2], 2 * sizeof(float));
     }},
    {"ViewOfPlanes",
     [](E& e, C* c) {
         T* x = e.parameter({3, 2, 2, 3});
         return ggml_view_4d(c, x, 3, 1, 2, 2, x->nb[1], x->nb[2], x->nb[3], x->nb[1] + x->nb[3]);
     }},
    {"TwoViewsThatOverlap",
     [](E& e, C* c) {
         T* x = e.parameter({12});
         T* low = ggml_view_1d(c, x, 8, 0);
         T* high = ggml_view_1d(c, x, 8, 4 * sizeof(float));
         return ggml_mul(c, low, high);
     }},
    {"ViewOfHalfFloats",
     [](E& e, C* c) {
         T* x = ggml_cast(c, e.parameter({6, 4}), GGML_TYPE_F16);
         return ggml_cast(c, ggml_view_2d(c, x, 2, 3, x->nb[1], x->nb[1] + 4), GGML_TYPE_F32);
     },
     5e-2},  // half floats have 11 bits
    {"Acc",
     [](E& e, C* c) {
         T* x = e.parameter({6, 4, 2});
         return ggml_acc(c, x, e.parameter({3, 2, 2}), x->nb[1], x->nb[2], x->nb[3], x->nb[1] + 8);
     }},
    {"Set",
     [](E& e, C* c) {
         T* x = e.parameter({6, 4, 2});
         return ggml_set(c, x, e.parameter({3, 2, 2}), x->nb[1], x->nb[2], x->nb[3], x->nb[1] + 8);
     }},
    {"Repeat",
     [](E& e, C* c) {
         return ggml_repeat_4d(c, e.parameter({2, 3}), 4, 6, 2, 1);
     }},
    {"RepeatBack",
     [](E& e, C* c) {
         return ggml_repeat_back(c, e.parameter({4, 6, 2}), e.constant({2, 3}));
     }},
    {"GetRows",
     [](E& e, C* c) {
         return ggml_get_rows(c, e.parameter({5, 4}), e.integers({3, 0, 3, 1, 3}));
     }},
};

// ---- products ----------------------------------------------------------------------------------

const Case kProducts[] = {
    {"MulMat",
     [](E& e, C* c) {
         return ggml_mul_mat(c, e.parameter({5, 3}), e.parameter({5, 4}));
     }},
    {"MulMatOfBatches",
     [](E& e, C* c) {
         return ggml_mul_mat(c, e.parameter({3, 2, 2, 2}), e.parameter({3, 4, 2, 2}));
     }},
    {"MulMatServesGroups",
     [](E& e, C* c) {
         return ggml_mul_mat(c, e.parameter({3, 2, 2}), e.parameter({3, 4, 6}));
     }},
    {"MulMatServesGroupsInBothDimensions",
     [](E& e, C* c) {
         return ggml_mul_mat(c, e.parameter({3, 2, 2, 2}), e.parameter({3, 4, 4, 6}));
     }},
    {"MulMatServesAll",
     [](E& e, C* c) {
         return ggml_mul_mat(c, e.parameter({3, 2}), e.parameter({3, 4, 2, 3}));
     }},
    {"MulMatOfPermuted",
     [](E& e, C* c) {
         T* a = ggml_permute(c, e.parameter({3, 4, 2}), 0, 2, 1, 3);
         T* b = ggml_permute(c, e.parameter({3, 4, 5}), 0, 2, 1, 3);
         return ggml_mul_mat(c, a, b);
     }},
    {"MulMatWithHalfFloatsServesGroups",
     [](E& e, C* c) {
         T* a = ggml_cast(c, e.constant({3, 2, 2}), GGML_TYPE_F16);
         return ggml_mul_mat(c, a, e.parameter({3, 4, 6}));
     },
     5e-2},  // half floats have 11 bits
    {"Im2col",
     [](E& e, C* c) {
         T* kernel = e.constant({3, 2, 2, 1});
         return ggml_im2col(c, kernel, e.parameter({5, 4, 2, 2}), 2, 1, 1, 0, 1, 2, true,
                            GGML_TYPE_F32);
     }},
    {"Im2colOfSignals",
     [](E& e, C* c) {
         return ggml_im2col(c, e.constant({3, 2, 1}), e.parameter({8, 2, 2}), 2, 0, 1, 0, 1, 0,
                            false, GGML_TYPE_F32);
     }},
    {"Conv2d",
     [](E& e, C* c) {
         return ggml_conv_2d(c, e.parameter({3, 2, 2, 3}), e.parameter({5, 4, 2, 2}), 2, 1, 1, 0, 1,
                             2);
     },
     5e-2},  // patches are half floats
    {"Conv2dWithHalfFloatKernel",
     [](E& e, C* c) {
         T* kernel = ggml_cast(c, e.parameter({3, 3, 2, 2}), GGML_TYPE_F16);
         return ggml_conv_2d(c, kernel, e.parameter({5, 4, 2, 2}), 1, 1, 1, 1, 1, 1);
     },
     5e-2},  // half floats have 11 bits
    {"Conv1d",
     [](E& e, C* c) {
         return ggml_conv_1d(c, e.parameter({3, 2, 3}), e.parameter({8, 2}), 1, 1, 1);
     },
     5e-2},  // patches are half floats
    {"MaxPool2d",
     [](E& e, C* c) {
         return ggml_pool_2d(c, e.parameter({6, 4, 2}, -3, 3), GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0);
     }},
    {"MeanPool2dWithPadding",
     [](E& e, C* c) {
         return ggml_pool_2d(c, e.parameter({6, 5, 2}), GGML_OP_POOL_AVG, 3, 2, 2, 1, 1, 1);
     }},
    {"PoolThenPermute",
     [](E& e, C* c) {
         T* y = ggml_pool_2d(c, e.parameter({6, 4, 2}, -3, 3), GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0);
         return ggml_cont(c, ggml_permute(c, y, 1, 2, 0, 3));
     }},
};

class Gradient : public testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        before_ = heddle_get_error_mode();
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    }
    void TearDown() override { heddle_set_error_mode(before_); }

private:
    heddle_error_mode before_{};
};

TEST_P(Gradient, AgreesWithDifferences) {
    Experiment experiment;
    ggml_tensor* y = GetParam().build(experiment, experiment.context());
    experiment.expect_agreement(y, GetParam().tolerance);
}

const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Elementwise, Gradient, testing::ValuesIn(kElementwise), kName);
INSTANTIATE_TEST_SUITE_P(Rows, Gradient, testing::ValuesIn(kRows), kName);
INSTANTIATE_TEST_SUITE_P(Movement, Gradient, testing::ValuesIn(kMovement), kName);
INSTANTIATE_TEST_SUITE_P(Products, Gradient, testing::ValuesIn(kProducts), kName);

}  // namespace
}  // namespace heddle::test
