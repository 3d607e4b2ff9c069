#include "ggml/ops_math.h"
#include "ops/fusion_test_support.hpp"
#include "runtime/alloc/blocked_groups.hpp"
#include "sched/plan/test_support.hpp"

namespace heddle::sched::test {
namespace {

using heddle::test::check_groups;
using heddle::test::FusionLayers;

class FusionPlanTest : public PlanTest {
protected:
    /// A layer whose weights are on the device.
    Graph& layer(const FusionLayers::Sample& sample, std::int64_t tokens) {
        Graph* const made = ggml_new_graph_custom(context(), 256, false);
        FusionLayers layers(
            context(), made, tokens, [this](ggml_type type, std::vector<std::int64_t> ne) {
                Tensor* const w = bench_.place(
                    ggml_new_tensor(context(), type, static_cast<int>(ne.size()), ne.data()),
                    on(0));
                ggml_backend_buffer_set_usage(w->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
                return w;
            });
        layers.build(sample);
        return *made;
    }
};

TEST_F(FusionPlanTest, NoPatternOnADeviceIsBlockedInWhatWasReservedForManyTokens) {
    int found = 0;
    for (const FusionLayers::Sample& sample : FusionLayers::samples()) {
        use("devices=1");
        ASSERT_TRUE(try_plan(layer(sample, 512), 1, false)) << sample.pattern;
        Graph& one = layer(sample, 1);
        make(one);
        for (const auto rows : {FusionSearch::Rows::of_peers, FusionSearch::Rows::all}) {
            const auto check = check_groups(one, {.rows = rows});
            EXPECT_THAT(check.blocked, testing::IsEmpty()) << sample.pattern;
            found += check.groups;
        }
    }
    EXPECT_GE(found, 2 * static_cast<int>(FusionLayers::samples().size()));
}

TEST_F(FusionPlanTest, ABudgetOfBytesIsNotSpentOnGroups) {
    const auto gate = [&]() -> Graph& {
        Tensor* y = mul_mat(weight("w", on(0)), input("x", 1), "y");
        Tensor* a = mul_mat(weight("wa", on(0), {16, 256}), y, "a");
        Tensor* b = mul_mat(weight("wb", on(0), {16, 256}), y, "b");
        return graph({ggml_swiglu_split(context(), a, b)});
    };
    use("devices=1");
    ASSERT_TRUE(try_plan(gate()));
    const std::size_t with_groups = program_.bytes[0];
    use("devices=1");
    constants_->set_budgets({{.kind = Budget::Kind::bytes, .amount = with_groups - 1}});
    const auto planned = try_plan(gate());
    ASSERT_TRUE(planned) << planned.error().message;
    EXPECT_LT(program_.bytes[0], with_groups);
}

}  // namespace
}  // namespace heddle::sched::test
