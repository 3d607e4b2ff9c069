#include "ops/catalogue.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "heddle/backend/stream.hpp"
#include "ops/all.hpp"
#include "ops/build.hpp"

namespace heddle {
namespace {

/// An op that does not exist: all that adding one takes is this descriptor and a line in a list.
struct Triple {
    static constexpr Op id = static_cast<Op>(1);
    static constexpr std::string_view name = "TRIPLE";
    static constexpr std::string_view symbol = "3x";
    static constexpr std::string_view summary = "y = factor * x.";
    static constexpr std::array sources{"x", "bias?"};
    struct Params {
        float factor;
        std::int32_t times;
    };
    static constexpr std::array fields{ParamField{"factor", 0, ParamField::Kind::f32},
                                       ParamField{"times", 1}};
    static constexpr bool can_run_in_place = true;

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        if (params.times != 3) return invalid("times ", params.times, ", only 3");
        return TensorSpec::like(src[0]);
    }
    static Cost cost(const Params&, Sources, const Tensor& out) {
        return {.flops = static_cast<double>(element_count(out)), .bytes = 8};
    }
};

constexpr auto kTinyCatalogue = OpList<ops::None, Triple>::infos();

class MadeUpOp : public testing::Test {
protected:
    OwnedContext context = *make_context(1 << 16, nullptr, true);
    Tensor* x = *new_tensor(*context, GGML_TYPE_F32, std::array<std::int64_t, 2>{4, 3});
};

TEST_F(MadeUpOp, IsBuiltStoredAndPriced) {
    Tensor* y = *build<Triple>(*context, {.factor = 1.5f, .times = 3}, {x});
    EXPECT_EQ(y->op, Triple::id);
    EXPECT_EQ(y->src[0], x);
    EXPECT_EQ(unpack<Triple::Params>(*y).factor, 1.5f);
    EXPECT_EQ(y->op_params[1], 3);
    EXPECT_EQ(kTinyCatalogue[1].cost(*y).flops, 12);
    EXPECT_EQ(kTinyCatalogue[1].fields[1].name, "times");
}

TEST_F(MadeUpOp, RunsInPlaceInTheMemoryOfItsOperand) {
    Tensor* y = *build_in_place<Triple>(*context, {.factor = 1, .times = 3}, {x});
    EXPECT_EQ(y->view_src, x);
    EXPECT_EQ(name_of(*y), " (view)");
}

TEST_F(MadeUpOp, RefusesInWordsAndLeavesTheContextAlone) {
    const std::size_t used = used_bytes(*context);
    auto y = build<Triple>(*context, {.factor = 1, .times = 4}, {x});
    ASSERT_FALSE(y);
    EXPECT_EQ(y.error().message, "triple: times 4, only 3");
    auto missing = build<Triple>(*context, {.factor = 1, .times = 3}, {nullptr});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().message, "triple: operand x is missing");
    EXPECT_EQ(used_bytes(*context), used);
}

TEST(Catalogue, HasEveryOpUnderItsOwnNumber) {
    ASSERT_EQ(all_ops().size(), static_cast<std::size_t>(GGML_OP_COUNT));
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < all_ops().size(); ++i) {
        const OpInfo& op = all_ops()[i];
        EXPECT_EQ(static_cast<std::size_t>(op.id), i);
        EXPECT_TRUE(names.insert(op.name).second) << op.name << " stands twice";
        EXPECT_FALSE(op.symbol.empty()) << op.name;
        EXPECT_FALSE(op.summary.empty()) << op.name;
        EXPECT_EQ(op.fields.empty(), op.param_bytes == 0)
            << op.name << ": parameters without names";
    }
}

TEST(Catalogue, ReusesSourcesOnlyWhereKernelsAreMadeForIt) {
    std::string reusing;
    for (const OpInfo& op : all_ops()) {
        if (op.may_reuse_source) reusing += std::string(op.name) + ' ';
    }
    EXPECT_EQ(reusing,
              "ADD ADD_ID ADD1 SUB MUL DIV SQR SQRT LOG SILU_BACK RMS_NORM RMS_NORM_BACK SCALE "
              "DIAG_MASK_INF DIAG_MASK_ZERO SOFT_MAX SOFT_MAX_BACK ROPE ROPE_BACK FILL UNARY ");
}

TEST(Catalogue, AgreesWithThePluginHeadersOnOpsThatComputeNothing) {
    for (const OpInfo& op : all_ops()) {
        EXPECT_EQ(op.is_view, ggml_op_is_empty(op.id)) << op.name;
    }
}

TEST(Catalogue, KnowsNoOpBeyondItsEnd) {
    EXPECT_EQ(find_op(GGML_OP_COUNT), nullptr);
    EXPECT_EQ(find_op(static_cast<Op>(-1)), nullptr);
}

}  // namespace
}  // namespace heddle
