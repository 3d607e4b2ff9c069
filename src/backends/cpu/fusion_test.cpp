#include "backends/cpu/fusion.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "backends/cpu/execute.hpp"
#include "backends/cpu/topology.hpp"
#include "core/test_support.hpp"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml/ops.h"
#include "heddle/cpu.h"
#include "heddle/heddle.h"

namespace heddle::cpu {
namespace {

using Bytes = std::vector<std::byte>;

/// A graph in memory that each test lays out as it likes, computed with and without fusion.
class FusionTest : public testing::Test {
protected:
    FusionTest() : memory_(std::size_t{40} << 20) {}

    Context* context() { return &static_cast<Context&>(context_); }

    Tensor* leaf(std::initializer_list<std::int64_t> extents, Type type = GGML_TYPE_F32) {
        Tensor* made = context_.tensor(type, extents);
        place(made);
        leafs_.push_back(made);
        return made;
    }

    /// Memory that nothing else has.
    void place(Tensor* tensor) { put(tensor, take(byte_size(*tensor))); }
    const Tensor* place_of(Tensor* node) {
        place(node);
        return node;
    }
    void put(Tensor* tensor, void* data) { tensor->data = data; }
    void put_over(Tensor* tensor, const Tensor* other, std::size_t offset = 0) {
        put(tensor, static_cast<std::byte*>(other->data) + offset);
    }

    /// What the graph computes in the end. Nodes that have no memory yet get some of their own.
    void expand(Tensor* result) {
        ggml_build_forward_expand(graph_, result);
        for (Tensor* node : nodes_of(*graph_)) {
            if (node->data != nullptr) continue;
            if (node->view_src != nullptr) {
                put_over(node, node->view_src, node->view_offs);
            } else {
                place(node);
            }
        }
    }

    Result<> plan(int threads, Fusion fusion = Fusion::always) {
        return make_plan(*graph_, threads, Memory::checked, plan_, fusion);
    }

    /// How the step of `node` goes with the one before it.
    Bond bond_of(const Tensor* node) {
        for (const Step& step : plan_.steps) {
            if (step.node == node) return step.bond;
        }
        ADD_FAILURE() << describe(*node) << " is not computed";
        return Bond::none;
    }

    Result<> compute(int threads, Fusion fusion) {
        fill_leafs();
        HEDDLE_TRY(plan(threads, fusion));
        return execute(plan_, {.scratch = scratch()});
    }

    std::byte* scratch() { return *scratch_.reserve(plan_.scratch); }

    /// All memory is the same afterwards, to the bit, as it is without fusion.
    void expect_same() {
        for (const int threads : {1, 2, 5}) {
            Bytes results[2];
            for (const Fusion fusion : {Fusion::off, Fusion::always}) {
                std::fill_n(memory_.begin(), used_, std::byte{0});
                const auto computed = compute(threads, fusion);
                ASSERT_TRUE(computed) << computed.error().message;
                results[fusion == Fusion::always] = {memory_.data(), memory_.data() + used_};
            }
            EXPECT_TRUE(results[0] == results[1]) << threads << " threads";
        }
        ASSERT_TRUE(plan(2));
    }

    std::byte* take(std::size_t size) {
        std::byte* const place = memory_.data() + used_;
        used_ += (size + 63) / 64 * 64;
        EXPECT_LE(used_, memory_.size());
        return place;
    }

    std::function<void()> fill_more_ = [] {};  ///< what leafs of other types hold
    Graph* graph() { return graph_; }
    Plan plan_;

private:
    void fill_leafs() {
        std::mt19937 random(1);
        std::uniform_real_distribution<float> uniform(-1, 1);
        for (Tensor* tensor : leafs_) {
            if (tensor->type != GGML_TYPE_F32) continue;
            auto* data = static_cast<float*>(tensor->data);
            for (std::int64_t i = 0; i < element_count(*tensor); ++i) data[i] = uniform(random);
        }
        fill_more_();
    }

    TestContext context_{std::size_t{1} << 20};
    Bytes memory_;
    std::size_t used_ = 0;
    std::vector<Tensor*> leafs_;
    Graph* graph_ = *new_graph(context_, 64, false);
    Scratch scratch_;
};

// ---- rows --------------------------------------------------------------------------------------

/// x, its norm, weights: 100 rows of 512, more than go through at a time.
class FusedRows : public FusionTest {
protected:
    Tensor* norm() { return ggml_rms_norm(context(), x, 1e-6f); }
    Tensor* weighed(Tensor* even) { return ggml_mul(context(), even, weights); }

    Tensor* x = leaf({512, 100});
    Tensor* weights = leaf({512});
    Tensor* bias = leaf({512});
};

TEST_F(FusedRows, ANormGoesWithItsWeightsAndBias) {
    for (const bool centred : {false, true}) {
        Tensor* even = centred ? ggml_norm(context(), x, 1e-5f) : norm();
        Tensor* product = weighed(even);
        Tensor* sum = ggml_add(context(), product, bias);
        expand(sum);
        expect_same();
        EXPECT_EQ(bond_of(even), Bond::none);
        EXPECT_EQ(bond_of(product), Bond::rows);
        EXPECT_EQ(bond_of(sum), Bond::rows);
    }
}

TEST_F(FusedRows, ASumGoesWithItsNormAndIsThereForOthers) {
    Tensor* y = leaf({512, 100});
    Tensor* sum = ggml_add(context(), x, y);
    Tensor* product = weighed(ggml_rms_norm(context(), sum, 1e-6f));
    expand(ggml_sub(context(), product, sum));
    expect_same();
    EXPECT_EQ(bond_of(product), Bond::rows);
}

TEST_F(FusedRows, ResultsMayLieOverEachOther) {
    Tensor* even = norm();
    Tensor* product = weighed(even);
    Tensor* active = ggml_silu(context(), product);
    for (Tensor* node : {even, product, active}) put_over(node, x);
    expand(active);
    expect_same();
    EXPECT_EQ(bond_of(product), Bond::rows);
    EXPECT_EQ(bond_of(active), Bond::rows);
}

TEST_F(FusedRows, ManyDimensionsAreRowsToo) {
    Tensor* deep = leaf({64, 10, 20, 7});
    Tensor* few = leaf({64});
    Tensor* scaled = ggml_scale(context(), deep, 0.5f);
    Tensor* product = ggml_mul(context(), scaled, few);
    Tensor* whole = ggml_add(context(), product, deep);
    expand(whole);
    expect_same();
    EXPECT_EQ(bond_of(product), Bond::rows);
    EXPECT_EQ(bond_of(whole), Bond::rows);
}

TEST_F(FusedRows, AGatedActivationGoesWithWhatFollows) {
    Tensor* wide = leaf({1024, 100});
    Tensor* hidden = ggml_swiglu(context(), wide);
    Tensor* product = ggml_mul(context(), hidden, x);
    expand(product);
    expect_same();
    EXPECT_EQ(bond_of(product), Bond::rows);
}

TEST_F(FusedRows, AResultOverRowsThatAreStillToBeReadIsNotFused) {
    const std::size_t row = 512 * sizeof(float);
    take(4 * row);  // behind x there is room
    for (const std::size_t offset : {std::size_t{4}, row, 2 * row}) {
        Tensor* shifted = weighed(norm());
        put_over(shifted, x, offset);
        expand(shifted);
        ASSERT_TRUE(plan(2));
        EXPECT_EQ(bond_of(shifted), Bond::none) << offset;
    }
}

TEST_F(FusedRows, AResultOverRowsOfAnotherPitchIsNotFused) {
    Tensor* wide = leaf({1024, 100});
    Tensor* hidden = ggml_swiglu(context(), wide);
    Tensor* active = ggml_silu(context(), hidden);
    put_over(active, wide);
    expand(active);
    expect_same();
    EXPECT_EQ(bond_of(active), Bond::none);
}

TEST_F(FusedRows, AResultOverTheWeightsIsNotFused) {
    Tensor* product = weighed(norm());
    Tensor* active = ggml_silu(context(), product);
    put_over(weights, x, 0);  // read for every row, written for the first
    put(x, take(byte_size(*x)));
    put(active, weights->data);
    take(byte_size(*active));
    expand(active);
    ASSERT_TRUE(plan(2));
    EXPECT_EQ(bond_of(product), Bond::rows);
    EXPECT_EQ(bond_of(active), Bond::none);
}

TEST_F(FusedRows, WeightsThatAreBeingComputedAreNotFused) {
    Tensor* even = norm();
    Tensor* last_row = ggml_view_1d(context(), even, 512, 99 * even->nb[1]);
    Tensor* product = ggml_mul(context(), even, last_row);
    expand(product);
    expect_same();
    EXPECT_EQ(bond_of(product), Bond::none);
}

TEST_F(FusedRows, OtherRowsThanThoseOfTheResultAreNotFused) {
    Tensor* deep = leaf({16, 4, 3});
    Tensor* planes = leaf({16, 4, 1});  // repeated over dimension 2
    Tensor* even = ggml_rms_norm(context(), deep, 1e-6f);
    Tensor* product = ggml_mul(context(), even, planes);
    expand(product);
    expect_same();
    EXPECT_EQ(bond_of(product), Bond::none);
}

TEST_F(FusedRows, FewLongRowsStayWithKernelsThatCutThem) {
    if (usable_cpus() < 2) GTEST_SKIP() << "one CPU";
    Tensor* row = leaf({1 << 18});
    Tensor* active = ggml_silu(context(), ggml_scale(context(), row, 2));
    expand(active);
    expect_same();
    EXPECT_EQ(bond_of(active), Bond::none);
    EXPECT_GT(plan_.tasks, 1);
}

TEST_F(FusedRows, OnlyResultsLargerThanCachesAreFused) {
    Tensor* small = weighed(norm());
    Tensor* large = weighed(ggml_rms_norm(context(), leaf({512, 4096}), 1e-6f));
    for (Tensor* each : {small, large}) expand(each);
    ASSERT_TRUE(plan(2, Fusion::on));
    EXPECT_EQ(bond_of(small), Bond::none);
    EXPECT_EQ(bond_of(large), Bond::rows);
}

TEST_F(FusedRows, NothingIsFusedWhereThatIsNotWanted) {
    expand(ggml_add(context(), weighed(norm()), bias));
    ASSERT_TRUE(plan(2, Fusion::off));
    for (const Step& step : plan_.steps) EXPECT_EQ(step.bond, Bond::none);
}

TEST_F(FusedRows, NodesThatRepeatAreComputedAsOften) {
    Tensor* even = norm();
    Tensor* product = weighed(even);
    expand(product);
    for (int i = 0; i < 3; ++i) {
        ggml_graph_add_node(graph(), even);
        ggml_graph_add_node(graph(), product);
        ggml_graph_add_node(graph(), product);
    }
    expect_same();
    EXPECT_EQ(plan_.steps.size(), 11u);
}

TEST_F(FusedRows, TheCallerIsAskedAfterEachNode) {
    expand(ggml_add(context(), weighed(norm()), bias));
    ASSERT_TRUE(compute(2, Fusion::always));
    int asked = 0;
    const auto count = [](void* asked) { return ++*static_cast<int*>(asked) < 0; };
    ASSERT_TRUE(execute(plan_, {.scratch = scratch(), .abort = {count, &asked}}));
    EXPECT_EQ(asked, 3);
    const auto stop = [](void*) { return true; };
    const auto stopped = execute(plan_, {.scratch = scratch(), .abort = {stop, nullptr}});
    EXPECT_EQ(stopped.error().code, Errc::aborted);
}

// ---- rope and set_rows -------------------------------------------------------------------------

class FusedStore : public FusionTest {
protected:
    FusedStore() {
        fill_more_ = [this] {
            for (int i = 0; i < kTokens; ++i) {
                static_cast<std::int32_t*>(positions->data)[i] = 7 + i;
                static_cast<std::int64_t*>(rows->data)[i] = (i * 37 + 11) % 80;
            }
            static_cast<std::int64_t*>(rows->data)[kTokens - 1] = last_row;
        };
        stored = ggml_set_rows(context(), cache,
                               ggml_reshape_2d(context(), turned, 64 * 8, kTokens), rows);
    }

    static constexpr int kTokens = 70;
    std::int64_t last_row = 95;
    Tensor* x = leaf({64, 8, kTokens});
    Tensor* positions = leaf({kTokens}, GGML_TYPE_I32);
    Tensor* rows = leaf({kTokens}, GGML_TYPE_I64);
    Tensor* cache = leaf({64 * 8, 100}, GGML_TYPE_F16);
    Tensor* turned = ggml_rope(context(), x, positions, 64, GGML_ROPE_TYPE_NEOX);
    Tensor* stored = nullptr;
};

TEST_F(FusedStore, RopeGoesWithTheStoreOfItsResult) {
    expand(stored);
    expect_same();
    EXPECT_EQ(bond_of(stored), Bond::rows);
}

TEST_F(FusedStore, AStoreOverWhatIsTurnedIsNotFused) {
    put_over(stored, x);
    expand(stored);
    ASSERT_TRUE(plan(2));
    EXPECT_EQ(bond_of(stored), Bond::none);
}

TEST_F(FusedStore, PositionsThatLieApartAreNotFused) {
    int sections[4] = {16, 16, 0, 0};
    Tensor* four = leaf({4 * kTokens}, GGML_TYPE_I32);
    Tensor* other = ggml_rope_multi(context(), x, four, nullptr, 64, sections, GGML_ROPE_TYPE_MROPE,
                                    0, 10000, 1, 0, 1, 32, 1);
    Tensor* into =
        ggml_set_rows(context(), cache, ggml_reshape_2d(context(), other, 64 * 8, kTokens), rows);
    expand(into);
    ASSERT_TRUE(plan(2));
    EXPECT_EQ(bond_of(into), Bond::none);
}

TEST_F(FusedStore, AFailureIsThatOfItsNode) {
    last_row = 100;
    expand(stored);
    for (const int threads : {1, 2}) {
        const auto computed = compute(threads, Fusion::always);
        ASSERT_FALSE(computed);
        const std::string& message = computed.error().message;
        EXPECT_TRUE(message.starts_with("node " + describe(*stored) + ", SET_ROWS: entry "))
            << message;
        EXPECT_NE(message.find(" is 100, but "), std::string::npos) << message;
    }
}

// ---- products ----------------------------------------------------------------------------------

class FusedProducts : public FusionTest {
protected:
    void SetUp() override {
        if (usable_cpus() < 2) GTEST_SKIP() << "one CPU: no barriers";
    }

    Tensor* product(Tensor* weights) { return ggml_mul_mat(context(), weights, x); }

    Tensor* x = leaf({256, 3});
    Tensor* q_weights = leaf({256, 320});
    Tensor* k_weights = leaf({256, 192});
    Tensor* v_weights = leaf({256, 192});
    Tensor* q = product(q_weights);
    Tensor* k = product(k_weights);
    Tensor* v = product(v_weights);
    Tensor* turned = ggml_silu(context(), q);
};

TEST_F(FusedProducts, ThoseOfTheSameActivationsShareARegion) {
    put_over(turned, place_of(q));
    for (Tensor* each : {turned, k, v}) expand(each);
    expect_same();
    EXPECT_EQ(bond_of(k), Bond::beside);
    EXPECT_EQ(bond_of(v), Bond::beside);
    EXPECT_EQ(bond_of(turned), Bond::none);
    EXPECT_EQ(region_size(plan_.steps), 3u);
}

TEST_F(FusedProducts, OneThreadRunsWithoutBarriers) {
    for (Tensor* each : {turned, k, v}) expand(each);
    ASSERT_TRUE(plan(1, Fusion::on));
    for (const Step& step : plan_.steps) EXPECT_NE(step.bond, Bond::beside);
}

TEST_F(FusedProducts, AResultOverWhatIsStillReadBetweenThemStaysInItsPlace) {
    for (Tensor* each : {turned, k, v}) expand(each);
    put_over(k, q);  // free as soon as q was turned
    expect_same();
    EXPECT_EQ(bond_of(k), Bond::none);
    EXPECT_EQ(bond_of(v), Bond::beside) << "nothing is in its way";
}

TEST_F(FusedProducts, AResultOverWhatIsWrittenBetweenThemStaysInItsPlace) {
    for (Tensor* each : {turned, k}) expand(each);
    put_over(k, turned);
    ASSERT_TRUE(plan(2));
    EXPECT_EQ(bond_of(k), Bond::none);
}

TEST_F(FusedProducts, ResultsOverEachOtherAreNotComputedAtTheSameTime) {
    put_over(k, place_of(q), 64);
    for (Tensor* each : {q, k}) expand(each);
    ASSERT_TRUE(plan(2));
    EXPECT_EQ(bond_of(k), Bond::none);
}

TEST_F(FusedProducts, ActivationsThatChangeInBetweenAreReadInTime) {
    Tensor* changed = ggml_scale_inplace(context(), x, 2);
    for (Tensor* each : {q, changed, k}) expand(each);
    expect_same();
    EXPECT_EQ(bond_of(k), Bond::none);
}

TEST_F(FusedProducts, NothingPassesAFunctionOfTheCallers) {
    Tensor* called = ggml_map_custom1(
        context(), q,
        [](Tensor* to, const Tensor* from, int index, int, void*) {
            if (index == 0) std::memcpy(to->data, from->data, byte_size(*to));
        },
        1, nullptr);
    for (Tensor* each : {called, k}) expand(each);
    expect_same();
    EXPECT_EQ(bond_of(k), Bond::none);
}

// ---- the C functions ---------------------------------------------------------------------------

template <class Function>
Function procedure(const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), name));
}

TEST_F(FusedRows, TheStreamSaysWhatItComputesTogetherAndCanBeToldNotTo) {
    const auto set_fusion = procedure<heddle_cpu_set_fusion_t>("heddle_cpu_set_fusion");
    const auto fused_with = procedure<heddle_fused_with_t>("heddle_fused_with");
    ASSERT_TRUE(set_fusion != nullptr && fused_with != nullptr);
    Tensor* sum = ggml_add(context(), x, x);
    expand(ggml_soft_max(context(), weighed(ggml_rms_norm(context(), sum, 1e-6f))));
    ggml_backend_t stream = ggml_backend_cpu_init();
    const std::vector<int> together{0, 0, 0, 3}, alone{0, 1, 2, 3};
    std::vector<int> with(4, -1);
    ASSERT_TRUE(fused_with(stream, graph(), with.data()));
    EXPECT_EQ(with, alone) << "nothing is gained";
    ASSERT_TRUE(set_fusion(stream, HEDDLE_CPU_FUSION_ALWAYS));
    ASSERT_TRUE(fused_with(stream, graph(), with.data()));
    EXPECT_EQ(with, together);
    for (Tensor* node : nodes_of(*graph())) node->data = nullptr;
    ASSERT_TRUE(fused_with(stream, graph(), with.data())) << "before there is memory";
    EXPECT_EQ(with, together);
    ASSERT_TRUE(set_fusion(stream, HEDDLE_CPU_FUSION_OFF));
    ASSERT_TRUE(fused_with(stream, graph(), with.data()));
    EXPECT_EQ(with, alone);
    ASSERT_TRUE(set_fusion(stream, HEDDLE_CPU_FUSION_ALWAYS));
    ggml_backend_cpu_set_use_ref(stream, true);
    ASSERT_TRUE(fused_with(stream, graph(), with.data()));
    EXPECT_EQ(with, alone) << "reference mode";
    EXPECT_FALSE(set_fusion(stream, static_cast<heddle_cpu_fusion>(3)));
    EXPECT_STREQ(heddle_last_error(), "heddle_cpu_set_fusion: there is no fusion 3");
    ggml_backend_free(stream);
    EXPECT_FALSE(set_fusion(nullptr, HEDDLE_CPU_FUSION_ON));
    EXPECT_STREQ(heddle_last_error(), "heddle_cpu_set_fusion: this is not a CPU stream");
    EXPECT_FALSE(fused_with(nullptr, graph(), with.data()));
}

}  // namespace
}  // namespace heddle::cpu
