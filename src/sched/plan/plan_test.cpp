#include "sched/plan/plan.hpp"

#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_nn.h"
#include "sched/plan/test_support.hpp"

namespace heddle::sched {
namespace {

using test::PlanTest;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- order and waits ---------------------------------------------------------------------------

TEST_F(PlanTest, CopiesHaveQueuesOfTheirOwnAndWaitForWhatTheyRead) {
    use("devices=1");
    make(there_and_back());
    EXPECT_EQ(words(),
              "action 0: SIM0 upload: copy 'x' to SIM0, 256 bytes\n"
              "action 1: SIM0: split 0, 2 nodes, waits for 0\n"
              "action 2: SIM0 download: copy 'b' to CPU, 256 bytes, waits for 1\n"
              "action 3: CPU: split 1, 1 nodes, waits for 2\n"
              "action 4: SIM0 upload: copy 'd' to SIM0, 256 bytes, waits for 3\n"
              "action 5: SIM0: split 2, 2 nodes, waits for 4\n");
    EXPECT_THAT(program_.action_of_split, ElementsAre(1, 3, 5));
    EXPECT_THAT(program_.action_of_copy, ElementsAre(0, 2, 4));
    EXPECT_FALSE(program_.wants_threads);
    EXPECT_FALSE(program_.overlaps_runs);
}

TEST_F(PlanTest, OneRunnerHasNothingToWaitFor) {
    use("devices=1", 0);
    make(graph({ggml_silu(context(), ggml_silu(context(), input("x")))}));
    EXPECT_EQ(words(), "action 0: CPU: split 0, 2 nodes\n");
}

TEST_F(PlanTest, WeightsThatDoNotFitAreStreamedThroughFourBuffers) {
    use("devices=1,mem=1M,offload=1", 1, true);
    constants_->set_budgets({{.kind = Budget::Kind::leave, .amount = 1 << 20}});
    make(layers(8));
    const std::size_t weight = 64 * 64 * sizeof(float), values = 3 * weight;
    EXPECT_LE(program_.bytes[0], 4 * weight + values);
    // The copy for each layer but the first ones begins when the one before the last three is done,
    // and so runs beside those.
    const auto& actions = program_.actions;
    for (std::size_t i = 4; i < 8; ++i) {
        std::int32_t copy = -1;
        for (std::size_t k = 0; k < splits_.copies.size(); ++k) {
            const Copy& each = splits_.copies[k];
            if (each.kind == Copy::Kind::constant && each.split == std::int32_t(i)) {
                copy = program_.action_of_copy[k];
            }
        }
        ASSERT_GE(copy, 0);
        const Action& action = actions[std::size_t(copy)];
        EXPECT_EQ(action.queue, Queue::upload);
        ASSERT_EQ(action.last_wait, action.first_wait + 1);
        EXPECT_EQ(program_.waits[action.first_wait], program_.action_of_split[i - 4]);
        EXPECT_LT(copy, program_.action_of_split[i - 3]);
    }
}

TEST_F(PlanTest, WhereMemoryIsShortTwoBuffersHaveToDo) {
    use("devices=1,mem=1M,offload=1", 1, true);
    const std::size_t weight = 64 * 64 * sizeof(float), allowed = 5 * weight;
    constants_->set_budgets({{.kind = Budget::Kind::bytes, .amount = allowed}});
    make(layers(8));
    EXPECT_LE(program_.bytes[0] + constants_->bytes_on(0), allowed);
}

TEST_F(PlanTest, WritesOfGivenMemoryWaitForItsReaders) {
    use("devices=1");
    Tensor* cache = bench_.place(floats({16, 4}, "cache"), host());
    Tensor* wg = weight("wg", on(0));
    Tensor* read = mul_mat(wg, cache, "read");
    Tensor* store = named(ggml_cpy(context(), input("x"), cache), "store");
    Tensor* again = mul_mat(wg, store, "again");
    make(graph({read, store, again}));
    // The cache is copied before and after it is written.
    EXPECT_EQ(splits_.copies.size(), 2u) << words();
    const auto before = program_.action_of_copy[0], after = program_.action_of_copy[1];
    EXPECT_LT(before, after);
    EXPECT_THAT(words(), HasSubstr("CPU: split 1, 1 nodes, waits for " + std::to_string(before)));
}

TEST_F(PlanTest, IndependentBranchesWantAThread) {
    use("devices=1");
    Tensor* x = input("x");
    Tensor* near = mul_mat(weight("wc", host()), x, "near");
    Tensor* far = mul_mat(weight("wg", on(0)), x, "far");
    make(graph({near, far}));
    EXPECT_TRUE(program_.wants_threads) << words();
}

// ---- memory ------------------------------------------------------------------------------------

TEST_F(PlanTest, GraphsWithoutNodesGiveInputsMemoryOnTheHost) {
    use("devices=1");
    Graph& empty = graph({});
    Tensor* mel = input("mel");
    ggml_build_forward_expand(&empty, mel);
    ASSERT_EQ(empty.n_nodes, 0);
    make(empty);
    ASSERT_NE(mel->data, nullptr);
    EXPECT_EQ(mel->buffer->buft, host());
}

TEST_F(PlanTest, EmptyTensorsHaveAPlaceToo) {
    use("devices=1");
    Tensor* x = input("x", 0);
    Tensor* y = mul_mat(weight("wg", on(0)), x, "y");
    make(graph({y}));
    EXPECT_NE(y->data, nullptr);
}

TEST_F(PlanTest, MemoryThatIsOnlyImaginedCanBeMeasuredAndReserved) {
    use("devices=1");
    Tensor* w = floats({16, 16}, "w");
    const OwnedBuffer dummy = *allocate(*on(0), 0);
    w->buffer = dummy.get();
    set_usage(*dummy, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    Graph& g = graph({mul_mat(w, input("x"), "y")});
    cut(g);
    const auto sizes = measure(index_, placement_, splits_, *team_, *memory_, *constants_);
    ASSERT_TRUE(sizes) << sizes.error().message;
    ASSERT_TRUE(try_plan(g, 1, false));
    EXPECT_EQ(program_.bytes, *sizes);
    EXPECT_EQ(w->data, nullptr);
    EXPECT_EQ(nodes_of(g)[0]->buffer, nullptr) << "reserving places nothing";
}

TEST_F(PlanTest, MeasuresWhatItReserves) {
    use("devices=1,offload=1", 1, true);
    Graph& g = layers(4);
    cut(g);
    const auto sizes = measure(index_, placement_, splits_, *team_, *memory_, *constants_);
    ASSERT_TRUE(sizes) << sizes.error().message;
    EXPECT_EQ(constants_->bytes_on(0), 0u);
    make(g);
    EXPECT_EQ(program_.bytes, *sizes);
}

TEST_F(PlanTest, ConstantsStayOnTheDeviceWhereThereIsRoom) {
    use("devices=1,offload=1", 1, true);
    make(layers(4));
    EXPECT_EQ(constants_->bytes_on(0), 4 * 64 * 64 * sizeof(float));
    for (std::size_t i = 0; i < splits_.copies.size(); ++i) {
        const Copy& copy = splits_.copies[i];
        EXPECT_EQ(program_.cached[i] != nullptr, copy.kind == Copy::Kind::constant);
        if (program_.cached[i] == nullptr) continue;
        EXPECT_EQ(splits_.stand_in(copy, 0).buffer, program_.cached[i]->buffer.get());
    }
}

TEST_F(PlanTest, ConstantsMakeRoomForResults) {
    // Four weights of 16 KiB fit, and results of 192 KiB fit, but not both.
    use("devices=1,mem=256K,offload=1", 1, true);
    make(layers(4));
    EXPECT_EQ(constants_->bytes_on(0), 4 * 64 * 64 * sizeof(float));
    Tensor* big = floats({64, 384}, "big");
    ggml_set_input(big);
    make(graph({mul_mat(weight("w", on(0), {64, 64}), big, "y")}));
    EXPECT_EQ(constants_->bytes_on(0), 0u) << words();
}

TEST_F(PlanTest, TensorsAreAsTheyWereIfThereIsNoMemory) {
    use("devices=1,mem=64K");
    Tensor* x = floats({64, 4096}, "x");
    ggml_set_input(x);
    Tensor* y = mul_mat(weight("w", on(0), {64, 64}), x, "y");
    const auto planned = try_plan(graph({y}));
    ASSERT_FALSE(planned);
    EXPECT_EQ(planned.error().code, Errc::out_of_memory);
    EXPECT_EQ(x->data, nullptr);
    EXPECT_EQ(y->buffer, nullptr);
    EXPECT_EQ(y->src[1], x);
    make(there_and_back());
}

TEST_F(PlanTest, GraphsThatHaveMemoryOfAnEarlierPlanArePlacedAnew) {
    use("devices=1");
    Graph& g = there_and_back();
    make(g);
    const Unplaced unplaced(g, *memory_);
    for (const Tensor* node : nodes_of(g)) EXPECT_EQ(node->data, nullptr);
}

TEST_F(PlanTest, BudgetsInBytesHoldForResultsAndConstantsTogether) {
    use("devices=1,offload=1", 1, true);
    constants_->set_budgets({{.kind = Budget::Kind::bytes, .amount = 112 * 1024}});
    Graph& g = layers(8);  // 128 KiB of weights
    make(g);
    EXPECT_GT(constants_->bytes_on(0), 0u);
    EXPECT_LE(constants_->bytes_on(0) + program_.bytes[0], 112u * 1024);

    constants_->set_budgets({{.kind = Budget::Kind::bytes, .amount = 1024}});
    const auto planned = try_plan(layers(2));
    ASSERT_FALSE(planned);
    EXPECT_EQ(planned.error().code, Errc::out_of_memory);
    EXPECT_THAT(planned.error().message, HasSubstr("but only 1024 are allowed"));
}

TEST_F(PlanTest, DetoursAreComputedElsewhereAndWrittenBack) {
    use("devices=1,ops=all,-SOFT_MAX");
    Tensor* there = bench_.place(floats({16, 4}, "there"), on(0));
    Tensor* y = named(ggml_soft_max(context(), input("x")), "y");
    Tensor* z = mul_mat(weight("wg", on(0)), y, "z");
    bench_.place(y, on(0));
    make(graph({z, ggml_silu(context(), there)}));
    ASSERT_EQ(splits_.detours.size(), 1u);
    EXPECT_THAT(words(), HasSubstr("SIM0 upload: write back 'y'"));
}

// ---- again -------------------------------------------------------------------------------------

TEST_F(PlanTest, TheSameGraphElsewhereGetsTheSamePlaces) {
    use("devices=1");
    Tensor* cache = bench_.place(floats({16, 4}, "cache"), on(0));
    Tensor* wg = weight("wg", on(0));
    const auto build = [&]() -> Graph& {
        Tensor* y = mul_mat(wg, input("x"), "y");
        Tensor* row = ggml_view_1d(context(), cache, 16, 64);
        return graph({ggml_add(context(), y, row)});
    };
    Graph &first = build(), &second = build();
    make(first);
    index_.rebind(second);
    rebind(splits_, index_);
    const auto placed = place_again(program_, index_);
    ASSERT_TRUE(placed) << placed.error().message;
    ASSERT_EQ(first.n_nodes, second.n_nodes);
    for (int i = 0; i < first.n_nodes; ++i) {
        EXPECT_EQ(first.nodes[i]->data, second.nodes[i]->data);
        EXPECT_EQ(first.nodes[i]->buffer, second.nodes[i]->buffer);
        EXPECT_NE(second.nodes[i]->data, nullptr);
    }
    for (int i = 0; i < first.n_leafs; ++i) {
        EXPECT_EQ(first.leafs[i]->data, second.leafs[i]->data);
    }
}

/// What tensors of a graph say of their memory.
std::vector<std::pair<Buffer*, void*>> places_of(const Graph& graph) {
    std::vector<std::pair<Buffer*, void*>> places;
    for (const auto list : {nodes_of(graph), leafs_of(graph)}) {
        for (const Tensor* tensor : list) places.emplace_back(tensor->buffer, tensor->data);
    }
    return places;
}

TEST_F(PlanTest, TensorsGetBackWhatTheyHadUnlessTheGraphIsTheSame) {
    use("devices=1");
    Tensor* cache = bench_.place(floats({16, 4}, "cache"), on(0));
    Tensor* wg = weight("wg", on(0));
    const auto build = [&]() -> Graph& {
        Tensor* y = mul_mat(wg, input("x"), "y");
        return graph({ggml_add(context(), y, ggml_view_1d(context(), cache, 16, 64)),
                      ggml_view_1d(context(), y, 4, 0)});
    };
    Graph &first = build(), &second = build();
    make(first);
    index_.rebind(second);
    float elsewhere = 0;
    second.nodes[1]->data = &elsewhere;  // may have been anything
    const auto before = places_of(second);
    {
        PlacedAgain placed(program_);
        placed.place(0, nodes_of(second));
        EXPECT_NE(places_of(second), before);
    }
    EXPECT_EQ(places_of(second), before);
    {
        // A list that names a tensor twice, as one that turns out to be of another graph may.
        std::vector<Tensor*> nodes(nodes_of(second).begin(), nodes_of(second).end());
        nodes.back() = nodes.front();
        PlacedAgain placed(program_);
        placed.place(0, nodes);
    }
    EXPECT_EQ(places_of(second), before);
    {
        PlacedAgain placed(program_);
        placed.place(0, nodes_of(second));
        const auto done = placed.finish(index_);
        ASSERT_TRUE(done) << done.error().message;
    }
    EXPECT_EQ(places_of(second), places_of(first));
    {
        PlacedAgain placed(program_);  // they have it already
        placed.place(0, nodes_of(second));
    }
    EXPECT_EQ(places_of(second), places_of(first));
}

int tensors_until_failure = 0;  ///< of the next test's buffers

TEST_F(PlanTest, TensorsAreAsTheyWereIfABackendRefusesOne) {
    use("devices=1");
    Tensor* wg = weight("wg", on(0));
    const auto build = [&]() -> Graph& {
        return graph({ggml_silu(context(), mul_mat(wg, input("x"), "y"))});
    };
    Graph &first = build(), &second = build();
    make(first);
    for (const OwnedBuffer& chunk : memory_->chunks(0)) {
        chunk->iface.init_tensor = [](Buffer*, Tensor*) {
            return tensors_until_failure-- > 0 ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED;
        };
    }
    tensors_until_failure = 100;
    make(first);
    ASSERT_TRUE(program_.prepares);
    index_.rebind(second);
    const auto before = places_of(second);
    tensors_until_failure = 1;
    EXPECT_FALSE(place_again(program_, index_));
    EXPECT_EQ(places_of(second), before);
    tensors_until_failure = 100;
    const auto placed = place_again(program_, index_);
    ASSERT_TRUE(placed) << placed.error().message;
    EXPECT_LT(tensors_until_failure, 100);
    EXPECT_EQ(places_of(second), places_of(first));
}

// ---- several runs at a time --------------------------------------------------------------------

TEST_F(PlanTest, RunsOverlapWithAStandInForEachSlot) {
    use("devices=2", 2);
    Tensor* y = mul_mat(weight("w0", on(0)), input("x"), "y");
    make(graph({mul_mat(weight("w1", on(1)), y, "z")}), 4);
    EXPECT_TRUE(program_.overlaps_runs);
    for (const Copy& copy : splits_.copies) {
        std::vector<void*> places;
        for (int slot = 0; slot < 4; ++slot) places.push_back(splits_.stand_in(copy, slot).data);
        std::ranges::sort(places);
        EXPECT_EQ(std::ranges::adjacent_find(places), places.end());
    }
}

TEST_F(PlanTest, RunsDoNotOverlapWhereMemoryIsSharedAcrossThem) {
    use("devices=2", 2);
    Tensor* cache = bench_.place(floats({16, 4}, "cache"), on(0));
    Tensor* old = mul_mat(weight("w1", on(1)), cache, "old");
    Tensor* store = ggml_cpy(context(), mul_mat(weight("w0", on(0)), input("x"), "new"), cache);
    make(graph({old, store}), 4);
    EXPECT_FALSE(program_.overlaps_runs) << "the copy reads what the last run wrote";
}

}  // namespace
}  // namespace heddle::sched
