#include "ops/fusion_patterns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/graph.hpp"
#include "ggml/ops.h"
#include "ops/fusion_match.hpp"
#include "ops/fusion_test_support.hpp"

namespace heddle {
namespace {

using test::FusionLayers;
using Rows = FusionSearch::Rows;

/// A graph that is only looked at.
class Sketch {
public:
    explicit Sketch(std::int64_t tokens = 1)
        : context_(ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})),
          graph_(ggml_new_graph_custom(context_, 256, false)),
          layers(context_, graph_, tokens, [this](ggml_type type, std::vector<std::int64_t> ne) {
              return ggml_new_tensor(context_, type, static_cast<int>(ne.size()), ne.data());
          }) {}
    ~Sketch() { ggml_free(context_); }
    Sketch(const Sketch&) = delete;
    Sketch& operator=(const Sketch&) = delete;

    ggml_context* context() { return context_; }
    Graph& graph() { return *graph_; }
    Tensor* x(std::int64_t tokens = 1) { return layers.input({FusionLayers::kWidth, tokens}); }
    void expand(Tensor* y) { ggml_build_forward_expand(graph_, y); }

    std::vector<FusionGroup> groups(Rows rows = Rows::all, bool any_tokens = false) const {
        std::vector<FusionGroup> found;
        find_fusion_groups(nodes_of(*graph_), GraphUses(*graph_), {rows, any_tokens}, found);
        return found;
    }
    /// Their names and places.
    std::vector<std::string> words(Rows rows = Rows::all, bool any_tokens = false) const {
        std::vector<std::string> all;
        for (const FusionGroup& group : groups(rows, any_tokens)) all.push_back(to_text(group));
        return all;
    }
    bool finds(std::string_view pattern, Rows rows = Rows::all, bool any_tokens = false) const {
        return std::ranges::any_of(groups(rows, any_tokens), [&](const FusionGroup& group) {
            return group.pattern->name == pattern;
        });
    }

private:
    ggml_context* context_;
    Graph* graph_;

public:
    FusionLayers layers;
};

using Words = std::vector<std::string>;

// ---- the table ---------------------------------------------------------------------------------

TEST(FusionPatterns, HaveNamesOfTheirOwnAndASampleEach) {
    std::set<std::string_view> names, sampled;
    std::set<int> peers;
    for (const auto& sample : FusionLayers::samples()) sampled.insert(sample.pattern);
    for (const FusionPattern& pattern : fusion_patterns()) {
        EXPECT_TRUE(names.insert(pattern.name).second) << pattern.name;
        EXPECT_EQ(find_fusion_pattern(pattern.name), &pattern);
        peers.insert(pattern.peer);
        EXPECT_TRUE(pattern.peer == 0 || sampled.contains(pattern.name)) << pattern.name;
    }
    EXPECT_EQ(peers.size(), 19u);  // 1 to 18, and ours
    EXPECT_EQ(find_fusion_pattern("no_such_pattern"), nullptr);
}

TEST(FusionPatterns, MembersReadMembersBeforeThem) {
    for (const FusionPattern& pattern : fusion_patterns()) {
        for (std::size_t i = 0; i < pattern.members.size(); ++i) {
            for (const std::int8_t read : pattern.members[i].reads) {
                EXPECT_LT(read, static_cast<int>(i) + (i == 0)) << pattern.name << ' ' << i;
            }
        }
    }
}

// ---- what matches ------------------------------------------------------------------------------

TEST(FusionMatch, EveryPatternIsFoundInItsLayer) {
    for (const auto& sample : FusionLayers::samples()) {
        Sketch one(1), many(32);
        one.layers.build(sample);
        many.layers.build(sample);
        EXPECT_TRUE(one.finds(sample.pattern, Rows::of_peers))
            << sample.pattern << ", found: " << testing::PrintToString(one.words());
        // The same nodes are groups whatever the number of tokens, if it is not looked at.
        EXPECT_EQ(one.words(Rows::all, true), many.words(Rows::all, true)) << sample.pattern;
        EXPECT_EQ(one.words(Rows::of_peers, true), many.words(Rows::of_peers, true));
    }
}

TEST(FusionMatch, GivesMembersAndOutputs) {
    Sketch s;
    s.layers.finish(s.layers.gate_sigmoid(s.x()));
    const auto groups = s.groups(Rows::of_peers);
    const auto found = std::ranges::find(
        groups, "moe_gate_sigmoid", [](const FusionGroup& group) { return group.pattern->name; });
    ASSERT_NE(found, groups.end());
    ASSERT_EQ(found->count, 12);
    for (std::size_t i = 0; i < found->count; ++i) {
        EXPECT_TRUE(found->has(i));
        EXPECT_EQ(found->is_output(i), i == 4 || i == 11) << i;
        EXPECT_EQ(nodes_of(s.graph())[found->node(i)]->op, found->pattern->members[i].op);
    }
}

TEST(FusionMatch, AbsentOptionsAreSkippedAndWhatTheyReadIsReadInstead) {
    Sketch s;
    s.layers.finish(s.layers.gate_soft_max(s.x()));
    const auto groups = s.groups(Rows::of_peers);
    const FusionGroup& group = groups.at(0);
    EXPECT_EQ(group.pattern->name, "moe_gate_soft_max");
    EXPECT_FALSE(group.has(2));  // the bias
    EXPECT_EQ(group.last - group.first, 10);
}

TEST(FusionMatch, TakesTheLongestPatternFirst) {
    Sketch s;
    Tensor* x = s.x();
    s.expand(ggml_add(s.context(), s.layers.normed(x), s.layers.factors(FusionLayers::kWidth)));
    EXPECT_EQ(s.words(), Words{"rms_norm_mul_add: 0 to 2"});
    Sketch shorter;
    shorter.expand(ggml_sin(shorter.context(), shorter.layers.normed(shorter.x())));
    EXPECT_EQ(shorter.words(), Words{"rms_norm_mul: 0 to 1"});
}

TEST(FusionMatch, RunsEndAfterEight) {
    Sketch s;
    Tensor* x = s.x();
    for (int i = 0; i < 11; ++i)
        x = ggml_add(s.context(), x, s.layers.factors(FusionLayers::kWidth));
    s.expand(x);
    EXPECT_EQ(s.words(), (Words{"add_run: 0 to 7", "add_run: 8 to 10"}));
}

TEST(FusionMatch, PatternsOfOurOwnAreFoundToo) {
    using L = FusionLayers;
    {
        Sketch s(4);
        ggml_context* c = s.context();
        Tensor* sum = ggml_add(c, s.x(4), s.x(4));
        s.expand(ggml_add(c, ggml_sin(c, s.layers.normed(sum)), sum));
        EXPECT_TRUE(s.finds("add_rms_norm_mul"));
        EXPECT_FALSE(s.finds("add_rms_norm_mul", Rows::of_peers));
    }
    {
        Sketch s(4);
        ggml_context* c = s.context();
        Tensor* y = ggml_mul(c, ggml_norm(c, s.x(4), 1e-5f), s.layers.factors(L::kWidth));
        s.expand(ggml_add(c, y, s.layers.factors(L::kWidth)));
        EXPECT_EQ(s.words(), Words{"norm_mul_add: 0 to 2"});
    }
    {
        Sketch s(4);
        ggml_context* c = s.context();
        const auto channels = [&] { return ggml_reshape_3d(c, s.layers.factors(8), 1, 1, 8); };
        Tensor* y = ggml_group_norm(c, s.layers.input({4, 4, 8}), 2, 1e-5f);
        s.expand(ggml_add(c, ggml_mul(c, y, channels()), channels()));
        EXPECT_EQ(s.words(), Words{"group_norm_mul_add: 0 to 4"});
    }
    {
        Sketch s(4);
        Tensor* y = s.layers.normed(s.x(4));
        for (int i = 0; i < 3; ++i) s.expand(s.layers.product(y, L::kWidth));
        EXPECT_EQ(s.words(), Words{"rms_norm_mul_products: 0 to 4"});
    }
    {
        Sketch s(4);
        s.expand(s.layers.plain_gate(s.x(4)));
        EXPECT_EQ(s.words(), Words{"gate_up_glu_tokens: 0 to 2"});
        EXPECT_EQ(s.words(Rows::of_peers, true), Words{"gate_up_glu: 0 to 2"});
    }
    {
        Sketch s(4);
        s.expand(s.layers.plain_gate(s.layers.normed(s.x(4))));
        EXPECT_EQ(s.words(), Words{"rms_norm_mul_gate_up_glu: 0 to 4"});
    }
    {
        Sketch s(4);
        s.expand(ggml_add(s.context(), s.layers.product(s.x(4), L::kWidth), s.x(4)));
        EXPECT_EQ(s.words(), Words{"mul_mat_add: 0 to 1"});
    }
}

// ---- what resembles it -------------------------------------------------------------------------

TEST(FusionMatch, ResultsThatOthersReadAreNotHidden) {
    Sketch s;
    Tensor* n = s.layers.norm(s.x());
    Tensor* y = ggml_mul(s.context(), n, s.layers.factors(FusionLayers::kWidth));
    s.expand(ggml_concat(s.context(), y, n, 0));
    EXPECT_TRUE(s.words().empty());
}

TEST(FusionMatch, ResultsThatTheCallerWantsAreNotHidden) {
    Sketch s;
    Tensor* n = s.layers.norm(s.x());
    ggml_set_output(n);
    s.expand(ggml_mul(s.context(), n, s.layers.factors(FusionLayers::kWidth)));
    EXPECT_TRUE(s.words().empty());
}

TEST(FusionMatch, NodesThatAreNotToBeComputedAreNoMembers) {
    Sketch s;
    s.expand(s.layers.normed(s.x()));
    nodes_of(s.graph())[1]->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
    EXPECT_TRUE(s.words().empty());
}

TEST(FusionMatch, NodesBetweenMembersEndAGroup) {
    Sketch s;
    ggml_context* c = s.context();
    Tensor *n = s.layers.norm(s.x()), *other = ggml_sin(c, s.x());
    s.expand(n);
    s.expand(other);
    s.expand(ggml_mul(c, n, s.layers.factors(FusionLayers::kWidth)));
    EXPECT_TRUE(s.words().empty());
}

TEST(FusionMatch, ASliceCountsReadersOutsideOfIt) {
    Sketch s;
    Tensor* n = s.layers.norm(s.x());
    s.expand(ggml_mul(s.context(), n, s.layers.factors(FusionLayers::kWidth)));
    s.expand(ggml_sin(s.context(), n));
    const Graph part = slice(s.graph(), 0, 2);
    EXPECT_FALSE(match_fusion(nodes_of(part), 0, GraphUses(part)));
}

TEST(FusionMatch, NodesThatTheGraphHasNotCountedMayBeReadByAnybody) {
    Sketch s;
    Tensor* n = s.layers.norm(s.x());
    Tensor* y = ggml_mul(s.context(), n, s.layers.factors(FusionLayers::kWidth));
    for (Tensor* node : {n, y}) {
        node->flags |= GGML_TENSOR_FLAG_COMPUTE;
        ASSERT_TRUE(append_node(s.graph(), *node));
    }
    EXPECT_TRUE(s.words().empty());
}

TEST(FusionMatch, GateAndUpMustReadTheSameActivations) {
    Sketch s;
    Tensor* a = s.layers.in_order(s.layers.product(s.x(), FusionLayers::kHidden));
    Tensor* b = s.layers.product(s.x(), FusionLayers::kHidden);
    s.expand(ggml_swiglu_split(s.context(), a, b));
    EXPECT_TRUE(s.words().empty());
}

TEST(FusionMatch, GatesOfOtherFunctionsAndOtherWeightsAreLeftAlone) {
    using L = FusionLayers;
    for (const bool erf : {false, true}) {
        Sketch s;
        Tensor* x = s.x();
        Tensor* a = s.layers.in_order(s.layers.product(x, L::kHidden));
        const auto type = erf ? GGML_TYPE_F32 : GGML_TYPE_F16;
        const std::int64_t ne[] = {L::kWidth, L::kHidden};
        Tensor* b = ggml_mul_mat(s.context(), ggml_new_tensor(s.context(), type, 2, ne), x);
        s.expand(
            ggml_glu_split(s.context(), a, b, erf ? GGML_GLU_OP_GEGLU_ERF : GGML_GLU_OP_SWIGLU));
        EXPECT_TRUE(s.words().empty());
    }
}

TEST(FusionMatch, PatternsForOneTokenDeclineMore) {
    Sketch s(2);
    s.expand(s.layers.plain_gate(s.x(2)));
    EXPECT_TRUE(s.words(Rows::of_peers).empty());
}

TEST(FusionMatch, SoftMaxWithAMaskChoosesNoExperts) {
    Sketch s;
    Tensor* logits = s.layers.product(s.x(), FusionLayers::kExperts);
    Tensor* mask = s.layers.input({FusionLayers::kExperts, 1});
    s.expand(s.layers.gate(s.x(), ggml_soft_max_ext(s.context(), logits, mask, 1, 0), false));
    EXPECT_FALSE(s.finds("moe_gate_soft_max"));
}

TEST(FusionMatch, RotationsOfOtherModesAndOddRowsAreLeftAlone) {
    Sketch s;
    ggml_context* c = s.context();
    Tensor* x = ggml_reshape_3d(c, s.x(), 16, 4, 1);
    Tensor* y = ggml_rope(c, s.layers.normed(x), s.layers.input({1}, GGML_TYPE_I32), 16,
                          GGML_ROPE_TYPE_NEOX);
    s.expand(y);
    EXPECT_TRUE(s.finds("rms_norm_mul_rope"));
    y->op_params[2] = GGML_ROPE_TYPE_VISION;
    EXPECT_FALSE(s.finds("rms_norm_mul_rope"));
    EXPECT_TRUE(s.finds("rms_norm_mul"));
}

TEST(FusionMatch, ScalesWithABiasCapNothing) {
    Sketch s;
    ggml_context* c = s.context();
    s.expand(ggml_scale_bias(c, ggml_tanh(c, ggml_scale(c, s.x(), 0.1f)), 10, 1));
    EXPECT_TRUE(s.words().empty());
}

TEST(FusionMatch, ASnakeNeedsTheSameXAtItsEnd) {
    Sketch s;
    ggml_context* c = s.context();
    const auto one = [&] { return s.layers.factors(1); };
    Tensor* wave = ggml_sqr(c, ggml_sin(c, ggml_mul(c, s.x(), one())));
    s.expand(ggml_add(c, s.x(), ggml_mul(c, wave, one())));
    EXPECT_FALSE(s.finds("snake"));
}

TEST(FusionMatch, OpsOfNumbersThatDoNotExistMatchNothing) {
    Sketch s;
    s.expand(s.layers.normed(s.x()));
    nodes_of(s.graph())[0]->op = static_cast<ggml_op>(GGML_OP_COUNT + 7);
    EXPECT_TRUE(s.words().empty());
}

TEST(FusionMatch, NodesWithoutTheirOperandsMatchNothing) {
    for (const int slot : {0, 1}) {
        Sketch s;
        s.expand(s.layers.plain_gate(s.x()));
        nodes_of(s.graph())[1]->src[slot] = nullptr;
        EXPECT_TRUE(s.words().empty());
    }
}

}  // namespace
}  // namespace heddle
