#include "sched/plan/hazard.hpp"

#include <random>

#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "runtime/device.hpp"
#include "sched/plan/test_support.hpp"

namespace heddle::sched {
namespace {

using test::PlanTest;
using testing::HasSubstr;

class HazardTest : public PlanTest {
protected:
    /// How many of the program's waits are missed when they are taken out, one at a time.
    std::size_t missed_waits(int slots = 1) {
        std::size_t missed = 0;
        for (Action& action : program_.actions) {
            for (std::uint32_t i = action.first_wait; i < action.last_wait; ++i) {
                std::swap(program_.waits[i], program_.waits[action.first_wait]);
                ++action.first_wait;
                if (!hazards(slots).empty()) ++missed;
                --action.first_wait;
                std::swap(program_.waits[i], program_.waits[action.first_wait]);
            }
        }
        return missed;
    }
};

TEST_F(HazardTest, EveryWaitOfAChainIsNeeded) {
    use("devices=1");
    make(there_and_back());
    EXPECT_EQ(program_.waits.size(), 5u);
    EXPECT_EQ(missed_waits(), 5u);
}

TEST_F(HazardTest, SaysWhoTouchesWhat) {
    use("devices=1");
    make(there_and_back());
    program_.actions[1].first_wait = program_.actions[1].last_wait;
    const auto found = hazards();
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].first, 0);
    EXPECT_EQ(found[0].second, 1);
    EXPECT_STREQ(index_[found[0].tensor].name, "x");
    EXPECT_EQ(found[0].text,
              "action 1 on SIM0 in run 0 touches 'x' f32[16,4,1,1] beside its writer "
              "action 0 on SIM0 upload of run 0");
}

TEST_F(HazardTest, MemoryThatIsUsedAgainHasToBeWaitedFor) {
    use("devices=1,mem=1M,offload=1", 1, true);
    constants_->set_budgets({{.kind = Budget::Kind::leave, .amount = 1 << 20}});
    make(layers(8));
    EXPECT_GT(missed_waits(), program_.waits.size() / 2);
    for (const Copy& copy : splits_.copies) {
        if (copy.split < 5) continue;  // four are under way at a time
        const auto number =
            std::size_t(program_.action_of_copy[std::size_t(&copy - &splits_.copies[0])]);
        Action& action = program_.actions[number];
        const auto kept = std::exchange(action.last_wait, action.first_wait);
        EXPECT_FALSE(hazards().empty()) << "copy for split " << copy.split;
        action.last_wait = kept;
    }
}

TEST_F(HazardTest, FindsReadsOfWhatIsNotThere) {
    use("devices=1");
    make(there_and_back());
    program_.actions.erase(program_.actions.begin());  // nothing copies x
    for (auto& wait : program_.waits) --wait;
    for (auto& action : program_.actions) {
        if (action.first_wait == 0) action.last_wait = 0;
    }
    const auto found = hazards();
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].first, Hazard::kNoAction);
    EXPECT_THAT(found[0].text, HasSubstr("nothing wrote it"));
}

TEST_F(HazardTest, FindsTensorsThatArePlacedOverOthers) {
    use("devices=1");
    Tensor* a = mul_mat(weight("w", on(0)), input("x"), "a");
    Tensor* b = named(ggml_silu(context(), a), "b");
    make(graph({named(ggml_add(context(), a, b), "c")}));
    b->data = a->data;
    const auto found = hazards();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].text,
              "action 1 on SIM0 in run 0 touches 'a' f32[16,4,1,1] which is not there: "
              "nothing wrote it, or something else is in its memory");
}

TEST_F(HazardTest, RunsThatOverlapAreLookedAtTogether) {
    use("devices=2", 2);
    Tensor* y = mul_mat(weight("w0", on(0)), input("x"), "y");
    make(graph({mul_mat(weight("w1", on(1)), y, "z")}), 2);
    ASSERT_TRUE(program_.overlaps_runs);
    EXPECT_EQ(missed_waits(2), program_.waits.size());
    // With one stand-in for both slots a run writes what the last one still reads.
    for (const Copy& copy : splits_.copies) {
        splits_.stand_in(copy, 1).data = splits_.stand_in(copy, 0).data;
    }
    EXPECT_FALSE(hazards(2).empty());
}

/// Random graphs, in which everything that makes waits occurs: branches, branches that meet,
/// results changed in place, memory of the caller read and written, weights everywhere.
class RandomHazardTest : public HazardTest, public testing::WithParamInterface<unsigned> {
protected:
    void SetUp() override { random_.seed(GetParam()); }

    int any(int below) { return int(random_() % unsigned(below)); }
    Tensor* any_of(const std::vector<Tensor*>& tensors) {
        // Mostly the latest.
        const std::size_t back = any(3) == 0 ? random_() % tensors.size() : random_() % 3;
        return tensors[tensors.size() - 1 - std::min(back, tensors.size() - 1)];
    }

    Graph& any_graph(int nodes) {
        std::vector<Tensor*> values{input("x"), input("y"), floats({16, 4}, "leaf")};
        std::vector<Tensor*> given;
        for (RunnerId i = 0; i <= team_->last(); ++i) {
            given.push_back(bench_.place(floats({16, 4}, "given"), on(i)));
        }
        Graph& made = graph({});
        for (int i = 0; i < nodes; ++i) {
            Tensor* next = any_node(values, given);
            ggml_set_name(next, ("n" + std::to_string(i)).c_str());
            const auto runner = RunnerId(any(int(team_->size())));
            if (any(4) == 0 && supports_op(*(*team_)[runner].device, *next)) pins_[next] = runner;
            if (any(20) == 0) ggml_set_output(next);
            ggml_build_forward_expand(&made, next);
            values.push_back(next);
        }
        return made;
    }

    Tensor* any_node(const std::vector<Tensor*>& values, const std::vector<Tensor*>& given) {
        Tensor* a = any_of(values);
        switch (any(8)) {
            case 0:
                return ggml_silu(context(), a);
            case 1:
                return ggml_mul_mat(context(), weight("w", on(RunnerId(any(int(team_->size()))))),
                                    a);
            case 2:
                return ggml_scale_inplace(context(), a, 2);
            case 3:
                return ggml_cpy(context(), a, any_of(given));
            case 4:
                return ggml_add(context(), a, any_of(given));
            case 5:
                return ggml_reshape_2d(context(), a, 16, 4);
            default:
                return ggml_add(context(), a, any_of(values));
        }
    }

    std::mt19937 random_;
};

TEST_P(RandomHazardTest, ProgramsHaveNone) {
    const int devices = 1 + any(3), slots = any(2) == 0 ? 1 : 2 + any(3);
    const std::string pinned = any(2) == 0 ? "pinned=1," : "";
    use(pinned + "offload=1,devices=" + std::to_string(devices), devices, any(2) == 0);
    if (any(2) == 0) {
        constants_->set_budgets(
            Budgets(team_->size(), {.kind = Budget::Kind::leave, .amount = SIZE_MAX}));
    }
    make(any_graph(4 + any(40)), slots);
    if (HasFailure()) ADD_FAILURE() << to_text(placement_, index_, *team_);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomHazardTest, testing::Range(0u, 400u));

}  // namespace
}  // namespace heddle::sched
