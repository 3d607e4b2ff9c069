// Gradients of every op that has a rule, through views: permuted, sliced and repeated operands, and
// a result that is looked at through a view.
#include <gtest/gtest.h>

#include <cmath>

#include "differences.hpp"
#include "heddle/heddle.h"

namespace heddle::test {
namespace {

using E = Experiment;
using C = ggml_context;
using T = ggml_tensor;

// ---- ways to an operand ------------------------------------------------------------------------

/// Every way gives an f32 tensor of the extents asked for that is a view, or was made from one.
struct Way {
    const char* name;
    T* (*view)(E&, C*, std::int64_t n0, std::int64_t n1, std::int64_t n2, float low, float high);
    bool densely = false;  ///< as a copy without gaps

    T* operand(E& e, C* c, std::int64_t n0, std::int64_t n1, std::int64_t n2, float low,
               float high) const {
        T* made = view(e, c, n0, n1, n2, low, high);
        return densely && !ggml_is_contiguous(made) ? ggml_cont(c, made) : made;
    }
};

const Way kWays[] = {
    {"Whole",
     [](E& e, C*, std::int64_t n0, std::int64_t n1, std::int64_t n2, float low, float high) {
         return e.parameter({n0, n1, n2}, low, high);
     }},
    {"Sliced",
     [](E& e, C* c, std::int64_t n0, std::int64_t n1, std::int64_t n2, float low, float high) {
         T* all = e.parameter({n0 + 2, n1 + 1, n2 + 1}, low, high);
         const std::size_t offset = all->nb[2] + all->nb[1] + all->nb[0];
         return ggml_view_3d(c, all, n0, n1, n2, all->nb[1], all->nb[2], offset);
     }},
    {"Permuted",  // rows stay dense
     [](E& e, C* c, std::int64_t n0, std::int64_t n1, std::int64_t n2, float low, float high) {
         return ggml_permute(c, e.parameter({n0, n2, n1}, low, high), 0, 2, 1, 3);
     }},
    {"Turned",
     [](E& e, C* c, std::int64_t n0, std::int64_t n1, std::int64_t n2, float low, float high) {
         return ggml_cont(c, ggml_transpose(c, e.parameter({n1, n0, n2}, low, high)));
     }},
    {"Repeated",
     [](E& e, C* c, std::int64_t n0, std::int64_t n1, std::int64_t n2, float low, float high) {
         return ggml_repeat_4d(c, e.parameter({n0, 1, n2}, low, high), n0, n1, n2, 1);
     }},
    {"SlicedAndReshaped",
     [](E& e, C* c, std::int64_t n0, std::int64_t n1, std::int64_t n2, float low, float high) {
         T* all = e.parameter({n0 * n1 * n2 + 3}, low, high);
         return ggml_reshape_3d(c, ggml_view_1d(c, all, n0 * n1 * n2, 2 * sizeof(float)), n0, n1,
                                n2);
     }},
};

// ---- what is done with it ----------------------------------------------------------------------

/// An op over operands that come in one of those ways.
struct Use {
    const char* name;
    T* (*build)(E&, C*, const Way&);
    bool needs_dense = false;  ///< refuses operands with gaps: they are copied first
    double tolerance = 3e-4;   ///< of the largest gradient
};

T* plain(E& e, C* c, const Way& way, float low = -1.5F, float high = 1.5F) {
    return way.operand(e, c, 6, 4, 2, low, high);
}

template <T* (*Op)(C*, T*)>
T* unary(E& e, C* c, const Way& way) {
    return Op(c, plain(e, c, way));
}

template <T* (*Op)(C*, T*)>
T* of_positive(E& e, C* c, const Way& way) {
    return Op(c, plain(e, c, way, 0.5F, 2));
}

template <T* (*Op)(C*, T*, T*)>
T* binary(E& e, C* c, const Way& way) {
    T* a = plain(e, c, way);
    return Op(c, a, plain(e, c, way, 0.5F, 2));
}

/// The second operand is repeated to the extents of the first.
template <T* (*Op)(C*, T*, T*)>
T* repeating(E& e, C* c, const Way& way) {
    T* a = plain(e, c, way);
    return Op(c, a, way.operand(e, c, 6, 1, 1, 0.5F, 2));
}

const Use kUses[] = {
    {"Add", binary<ggml_add>},
    {"Sub", binary<ggml_sub>},
    {"Mul", binary<ggml_mul>},
    {"Div", binary<ggml_div>},
    {"AddRepeating", repeating<ggml_add>},
    {"SubRepeating", repeating<ggml_sub>},
    {"MulRepeating", repeating<ggml_mul>},
    {"DivRepeating", repeating<ggml_div>},
    {"Sqr", unary<ggml_sqr>},
    {"Sqrt", of_positive<ggml_sqrt>},
    {"Log", of_positive<ggml_log>},
    {"Sin", unary<ggml_sin>},
    {"Cos", unary<ggml_cos>},
    {"Neg", unary<ggml_neg>},
    {"Abs", of_positive<ggml_abs>},
    {"Relu", of_positive<ggml_relu>},
    {"Silu", unary<ggml_silu>},
    {"Exp", unary<ggml_exp>},
    {"Expm1", unary<ggml_expm1>},
    {"Softplus", unary<ggml_softplus>},
    {"SumRows", unary<ggml_sum_rows>},
    {"Mean", unary<ggml_mean>},
    {"Cont", unary<ggml_cont>},
    {"Dup", unary<ggml_dup>},
    {"SoftMax", unary<ggml_soft_max>, true},
    {"Scale", [](E& e, C* c, const Way& way) { return ggml_scale(c, plain(e, c, way), 0.7F); },
     true},
    {"RmsNorm",
     [](E& e, C* c, const Way& way) { return ggml_rms_norm(c, plain(e, c, way), 1e-3F); }},
    {"Swiglu",
     [](E& e, C* c, const Way& way) {
         return ggml_swiglu_split(c, plain(e, c, way), plain(e, c, way));
     },
     true},
    {"Repeat",
     [](E& e, C* c, const Way& way) { return ggml_repeat_4d(c, plain(e, c, way), 12, 4, 4, 1); }},
    {"Rope",
     [](E& e, C* c, const Way& way) {
         return ggml_rope(c, plain(e, c, way), e.integers({1, 5}), 6, GGML_ROPE_TYPE_NEOX);
     }},
    {"MulMat",
     [](E& e, C* c, const Way& way) {
         return ggml_mul_mat(c, plain(e, c, way), way.operand(e, c, 6, 3, 2, -1, 1));
     }},
    {"MulMatServesGroups",
     [](E& e, C* c, const Way& way) {
         return ggml_mul_mat(c, plain(e, c, way), way.operand(e, c, 6, 3, 4, -1, 1));
     }},
    {"CrossEntropy",
     [](E& e, C* c, const Way& way) {
         T* logits = way.operand(e, c, 6, 4, 1, -1.5F, 1.5F);
         T* labels = ggml_soft_max(c, e.constant({6, 4}));  // rows that add up to 1
         return ggml_cross_entropy_loss(c, logits, labels);
     },
     true},
    {"GetRows",
     [](E& e, C* c, const Way& way) {
         return ggml_get_rows(c, way.operand(e, c, 6, 4, 1, -1, 1), e.integers({3, 0, 3}));
     }},
    {"ViewOfAView",
     [](E& e, C* c, const Way& way) {
         T* x = ggml_cont(c, plain(e, c, way));
         T* part = ggml_view_3d(c, x, 4, 3, 2, x->nb[1], x->nb[2], x->nb[1] + sizeof(float));
         return ggml_view_2d(c, ggml_cont(c, part), 2, 3, 4 * sizeof(float), sizeof(float));
     }},
    {"PermutedResult",
     [](E& e, C* c, const Way& way) {
         return ggml_permute(c, ggml_sqr(c, plain(e, c, way)), 2, 0, 1, 3);
     }},
    {"Set",
     [](E& e, C* c, const Way& way) {
         T* x = ggml_cont(c, plain(e, c, way));
         T* part = ggml_cont(c, way.operand(e, c, 3, 2, 2, -1, 1));
         return ggml_set(c, x, part, x->nb[1], x->nb[2], x->nb[3], x->nb[1]);
     }},
    {"Pool",
     [](E& e, C* c, const Way& way) {
         return ggml_pool_2d(c, plain(e, c, way), GGML_OP_POOL_AVG, 2, 2, 2, 2, 0, 0);
     },
     true},
};

struct ViewCase {
    Use use;
    Way way;
    friend void PrintTo(const ViewCase& self, std::ostream* out) {
        *out << self.use.name << " of " << self.way.name;
    }
};

std::vector<ViewCase> all_cases() {
    std::vector<ViewCase> all;
    for (const Use& use : kUses) {
        for (Way way : kWays) {
            way.densely = use.needs_dense;
            all.push_back({use, way});
        }
    }
    return all;
}

class GradientOfViews : public testing::TestWithParam<ViewCase> {
protected:
    void SetUp() override { before_ = heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN); }
    void TearDown() override { heddle_set_thread_error_mode(before_); }

private:
    heddle_error_mode before_{};
};

TEST_P(GradientOfViews, AgreesWithDifferences) {
    const auto& [use, way] = GetParam();
    Experiment experiment;
    ggml_tensor* y = use.build(experiment, experiment.context(), way);
    experiment.expect_agreement(y, use.tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, GradientOfViews, testing::ValuesIn(all_cases()),
                         [](const auto& info) {
                             return std::string(info.param.use.name) + "_" + info.param.way.name;
                         });

}  // namespace
}  // namespace heddle::test
