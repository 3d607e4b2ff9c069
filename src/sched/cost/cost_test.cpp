#include "sched/cost/cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "backends/sim/test_support.hpp"
#include "ggml-cpu.h"
#include "ggml/ops.h"
#include "sched/cost/graph.hpp"

namespace heddle::sched {
namespace {

using testing::HasSubstr;

/// Streams of simulated devices and, last, of the CPU; tensors and a graph.
class Workshop {
public:
    explicit Workshop(const std::string& parameters) {
        EXPECT_TRUE(sim::configure(parameters)) << heddle_last_error();
        const std::size_t devices = ggml_backend_reg_dev_count(ggml_backend_sim_reg());
        for (std::size_t i = 0; i < devices; ++i) {
            streams_.emplace_back(ggml_backend_dev_init(sim::device(i), nullptr));
        }
        streams_.emplace_back(ggml_backend_cpu_init());
        std::vector<Stream*> borrowed;
        for (const sim::Stream& stream : streams_) borrowed.push_back(stream.get());
        team_.emplace(*Team::make(borrowed, {}, false));
        graph_ = ggml_new_graph_custom(context(), 40'000, false);
    }

    ggml_context* context() { return context_.get(); }
    Team& team() { return *team_; }
    Graph& graph() { return *graph_; }
    Tensor* tensor(std::int64_t n, std::int64_t rows) {
        return ggml_new_tensor_2d(context(), GGML_TYPE_F32, n, rows);
    }
    Tensor* input(std::int64_t n, std::int64_t rows) {
        Tensor* made = tensor(n, rows);
        ggml_set_input(made);
        return made;
    }
    /// With memory of that runner.
    Tensor* weight(RunnerId runner, std::int64_t n, std::int64_t rows) {
        Tensor* made = given(runner, n, rows);
        ggml_backend_buffer_set_usage(made->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        return made;
    }
    Tensor* given(RunnerId runner, std::int64_t n, std::int64_t rows) {
        return bench_.place(tensor(n, rows), (*team_)[runner].type);
    }
    void add(Tensor* node) { ggml_build_forward_expand(graph_, node); }

    /// After the graph is complete.
    Abilities& abilities() {
        EXPECT_TRUE(index_.read(*graph_));
        return abilities_.emplace(index_, *team_);
    }
    const GraphIndex& index() const { return index_; }

private:
    std::vector<sim::Stream> streams_;
    std::optional<Team> team_;
    sim::ContextOwner context_{
        ggml_init({.mem_size = 64 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    sim::Bench bench_;
    Graph* graph_ = nullptr;
    GraphIndex index_;
    std::optional<Abilities> abilities_;
};

/// Every node takes a second on every runner, every copy one more than its megabytes.
CostModel simple_model(const Team& team) {
    CostModel model(team);
    for (std::size_t i = 0; i < team.size(); ++i) {
        model.set_speed(static_cast<RunnerId>(i), {1e30, 1e30, 1});
        for (std::size_t j = 0; j < team.size(); ++j) {
            model.set_link(static_cast<RunnerId>(i), static_cast<RunnerId>(j), {1 << 20, 1});
        }
    }
    return model;
}

/// Puts each node where `runners` says, and leafs with their first reader.
Placement placed(Abilities& abilities, const std::vector<RunnerId>& runners) {
    Placement made = *place(abilities, {});
    const GraphIndex& index = abilities.index();
    std::size_t next = 0;
    for (const TensorId node : index.nodes()) {
        if (index.is_view(node)) continue;
        made[node].runner = runners[next++];
        made[node].rule = Rule::cost;
    }
    return made;
}

// ---- the model ---------------------------------------------------------------------------------

TEST(CostModel, ANodeTakesItsOverheadAndTheLongerOfArithmeticAndMemory) {
    Workshop shop("devices=1");
    CostModel model(shop.team());
    model.set_speed(0, {.flops = 1e9, .bandwidth = 1e6, .overhead = 0.5});
    Tensor* sum = ggml_add(shop.context(), shop.tensor(1000, 1), shop.tensor(1000, 1));
    // 12,000 bytes at a megabyte a second; a thousand operations are nothing beside it.
    EXPECT_NEAR(model.node_seconds(*sum, 0), 0.5 + 0.012, 1e-9);
    Tensor* product =
        ggml_mul_mat(shop.context(), shop.tensor(1000, 1000), shop.tensor(1000, 1000));
    model.set_speed(0, {.flops = 1e9, .bandwidth = 1e18, .overhead = 0.5});
    EXPECT_NEAR(model.node_seconds(*product, 0), 0.5 + 2, 0.01);
    EXPECT_EQ(model.node_seconds(*ggml_transpose(shop.context(), product), 0), 0);
}

TEST(CostModel, ProductsGoByTheClassOfTheirWeightsWhereThatWasMeasured) {
    Workshop shop("devices=1");
    CostModel model(shop.team());
    model.set_speed(0, {.flops = 1e9, .bandwidth = 1e18, .overhead = 0});
    model.set_product_flops(0, TypeClass::half, 4e9);
    Tensor* half = ggml_new_tensor_2d(shop.context(), GGML_TYPE_F16, 1000, 1000);
    Tensor* x = shop.tensor(1000, 1000);
    EXPECT_NEAR(model.node_seconds(*ggml_mul_mat(shop.context(), half, x), 0), 0.5, 0.01);
    EXPECT_NEAR(model.node_seconds(*ggml_mul_mat(shop.context(), x, x), 0), 2, 0.01);
}

TEST(CostModel, ACopyTakesLatencyAndItsBytesOverTheLink) {
    Workshop shop("devices=2");
    CostModel model(shop.team());
    model.set_link(0, 1, {.bandwidth = 1e6, .latency = 0.25});
    EXPECT_DOUBLE_EQ(model.copy_seconds(1'000'000, 0, 1), 1.25);
    EXPECT_LT(model.copy_seconds(1'000'000, 1, 0), 0.1);
    model.set_link(2, 1, {.bandwidth = 1e6, .latency = 0.75});
    EXPECT_DOUBLE_EQ(model.copy_seconds(1'000'000, kNoRunner, 1), 1.75);
}

// ---- predictions -------------------------------------------------------------------------------

TEST(Predict, RunnersWorkSideBySideAndCopiesAreMadeOnce) {
    Workshop shop("devices=2");
    Tensor* x = shop.input(512, 512);  // a megabyte, and so is all else
    Tensor* a = ggml_silu(shop.context(), x);
    Tensor* b = ggml_neg(shop.context(), x);
    Tensor* c = ggml_add(shop.context(), a, b);
    Tensor* d = ggml_mul(shop.context(), c, a);
    shop.add(d);
    Abilities& abilities = shop.abilities();
    const CostModel model = simple_model(shop.team());
    const Prediction made = predict(abilities, placed(abilities, {0, 1, 1, 1}), model);
    // x takes 2 s to both devices at once, a and b a second, a 2 s to the other device.
    EXPECT_THAT(made.start, testing::ElementsAre(2, 2, 5, 6));
    EXPECT_THAT(made.end, testing::ElementsAre(3, 3, 6, 7));
    EXPECT_EQ(made.seconds, 7);
    EXPECT_THAT(made.busy, testing::ElementsAre(1, 3, 0));
    // On the second device: b, the copies of x and a, c, d; x and b are not needed any more for d.
    constexpr std::size_t mega = 1 << 20;
    EXPECT_THAT(made.resident, testing::ElementsAre(2 * mega, 3 * mega, mega));
}

TEST(Predict, CopiesOverOneLinkGoOneAfterTheOther) {
    Workshop shop("devices=1");
    Tensor* sum = ggml_add(shop.context(), shop.input(512, 512), shop.input(512, 512));
    shop.add(sum);
    Abilities& abilities = shop.abilities();
    EXPECT_EQ(predict(abilities, placed(abilities, {0}), simple_model(shop.team())).seconds, 5);
    EXPECT_EQ(predict(abilities, placed(abilities, {1}), simple_model(shop.team())).seconds, 1);
}

TEST(Predict, WeightsAreCopiedForEachRunUnlessTheyAreKept) {
    Workshop shop("devices=1");
    Tensor* product =
        ggml_mul_mat(shop.context(), shop.weight(1, 512, 512), shop.weight(0, 512, 4));
    shop.add(product);
    Abilities& abilities = shop.abilities();
    CostModel model = simple_model(shop.team());
    EXPECT_EQ(predict(abilities, placed(abilities, {0}), model).seconds, 3);
    model.set_kept_constants(0, 1 << 20);
    const Prediction kept = predict(abilities, placed(abilities, {0}), model);
    EXPECT_EQ(kept.seconds, 1);
    EXPECT_EQ(kept.resident[0], (1 << 20) + 4 * 512 * sizeof(float));
}

TEST(Predict, WhatWasWrittenInBetweenIsCopiedAgain) {
    Workshop shop("devices=1");
    Tensor* state = shop.given(1, 512, 512);
    Tensor* first = ggml_silu(shop.context(), state);
    shop.add(first);
    Tensor* written = ggml_cpy(shop.context(), shop.given(1, 512, 512), state);
    shop.add(written);
    Tensor* second = ggml_silu(shop.context(), state);
    Tensor* third = ggml_neg(shop.context(), state);
    shop.add(second);
    shop.add(third);
    Abilities& abilities = shop.abilities();
    const Prediction made =
        predict(abilities, placed(abilities, {0, 1, 0, 0}), simple_model(shop.team()));
    // Copied by 2, read by 3; written by 1 already, copied again by 4.
    EXPECT_THAT(made.end, testing::ElementsAre(3, 1, 5, 6));
}

TEST(Predict, AnEmptyGraphTakesNoTime) {
    Workshop shop("devices=1");
    Abilities& abilities = shop.abilities();
    EXPECT_EQ(predict(abilities, *place(abilities, {}), simple_model(shop.team())).seconds, 0);
    EXPECT_TRUE(place_by_cost(abilities, {}, simple_model(shop.team()), {}));
}

// ---- placement ---------------------------------------------------------------------------------

/// All assignments of a CostGraph, without any cleverness.
class Everything {
public:
    Everything(const CostGraph& graph, const CostModel& model, std::vector<double> limits)
        : graph_(graph), model_(model), limits_(std::move(limits)), clock_(graph, model) {}

    /// Seconds of the best; infinity if none fits the limits.
    double best(Assignment assignment) {
        go(0, assignment);
        return best_;
    }

private:
    void go(UnitId unit, Assignment& assignment) {
        if (unit == graph_.unit_count()) {
            if (clock_.now() < best_ && fits(assignment)) best_ = clock_.now();
            return;
        }
        Clock::Mark mark;
        clock_.save(mark);
        const RunnerId given = assignment[unit];
        for (std::size_t i = 0; i < graph_.runner_count(); ++i) {
            const auto runner = static_cast<RunnerId>(i);
            const bool can =
                graph_.can_lead(unit, given) ? graph_.can_lead(unit, runner) : runner == given;
            if (!can) continue;
            assignment.set(unit, runner);
            clock_.run(unit, assignment);
            go(unit + 1, assignment);
            clock_.restore(mark);
        }
        assignment.set(unit, given);
    }

    bool fits(const Assignment& assignment) const {
        if (limits_.empty()) return true;
        const Peaks peaks = find_peaks(graph_, model_, assignment);
        for (std::size_t i = 0; i < limits_.size(); ++i) {
            if (static_cast<double>(peaks.bytes[i]) > limits_[i]) return false;
        }
        return true;
    }

    const CostGraph& graph_;
    const CostModel& model_;
    std::vector<double> limits_;
    Clock clock_;
    double best_ = std::numeric_limits<double>::infinity();
};

class RandomCase {
public:
    RandomCase(unsigned seed, std::size_t nodes) : random_(seed) {
        const std::int64_t n = 64 << below(4);
        std::vector<Tensor*> made{shop.input(n, n)};
        if (below(2) == 0) made.push_back(shop.input(n, n));
        while (unit_count() < nodes) {
            Tensor* a = made[made.size() - 1 - below(std::min<std::size_t>(made.size(), 4))];
            Tensor* b = made[made.size() - 1 - below(std::min<std::size_t>(made.size(), 4))];
            made.push_back(node(a, b, n));
            shop.add(made.back());
        }
        for (RunnerId i = 0; i < 3; ++i) {
            model.set_speed(i, {spread(1e9, 1e13), spread(1e9, 1e12), spread(1e-7, 1e-5)});
            for (RunnerId j = 0; j < 3; ++j) {
                model.set_link(i, j, {spread(1e8, 1e11), spread(1e-7, 1e-4)});
            }
        }
    }

    /// Nodes that take time.
    std::size_t unit_count() {
        const auto all = nodes_of(shop.graph());
        return static_cast<std::size_t>(std::count_if(
            all.begin(), all.end(), [](const Tensor* t) { return t->op != GGML_OP_TRANSPOSE; }));
    }
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

    Workshop shop{"devices=2,mem=1G"};
    CostModel model{shop.team()};

private:
    Tensor* node(Tensor* a, Tensor* b, std::int64_t n) {
        switch (below(5)) {
            case 0:
                return ggml_silu(shop.context(), a);
            case 1:
                return ggml_add(shop.context(), a, b);
            case 2:
                return ggml_mul_mat(shop.context(), a, b);
            case 3:
                return ggml_mul_mat(shop.context(),
                                    shop.weight(static_cast<RunnerId>(below(3)), n, n), a);
            default:
                return ggml_add(shop.context(),
                                ggml_cont(shop.context(), ggml_transpose(shop.context(), a)), b);
        }
    }
    double spread(double least, double most) {
        return least * std::pow(most / least, static_cast<double>(random_() % 1000) / 1000);
    }

    std::mt19937 random_;
};

TEST(PlaceByCost, ComesCloseToTheBestOfAllPlacementsAndIsNeverWorseThanTheRules) {
    int close = 0, best = 0;
    constexpr int cases = 100;
    for (unsigned seed = 0; seed < cases; ++seed) {
        RandomCase random(seed, 4 + seed % 8);  // up to 12, as some steps add two
        Abilities& abilities = random.shop.abilities();
        const Placement rules = *place(abilities, {});
        const double by_rules = predict(abilities, rules, random.model).seconds;
        const auto placement = place_by_cost(abilities, {}, random.model, {});
        ASSERT_TRUE(placement) << placement.error().message;
        const double by_cost = predict(abilities, *placement, random.model).seconds;
        EXPECT_LE(by_cost, by_rules * (1 + 1e-9)) << "seed " << seed;
        CostGraph graph(abilities, rules, random.model);
        graph.ask_abilities(abilities);
        const double least = Everything(graph, random.model, {}).best(Assignment(graph, rules));
        if (by_cost <= 1.1 * least) ++close;
        if (by_cost <= least * (1 + 1e-9)) ++best;
        EXPECT_GE(by_cost, least * (1 - 1e-9)) << "seed " << seed;
    }
    EXPECT_GE(close, 95);
    EXPECT_GE(best, 90);
}

TEST(PlaceByCost, BudgetsHoldAndWhatFitsIsFound) {
    int possible = 0, found = 0;
    for (unsigned seed = 0; seed < 100; ++seed) {
        RandomCase random(seed, 4 + seed % 5);
        Abilities& abilities = random.shop.abilities();
        const Placement rules = *place(abilities, {});
        const Prediction by_rules = predict(abilities, rules, random.model);
        Budgets budgets(3);
        std::vector<double> limits(3, std::numeric_limits<double>::infinity());
        for (std::size_t i = 0; i < 2 + seed % 2; ++i) {
            const std::size_t share = 20 + random.below(80);
            const std::size_t bytes =
                *std::max_element(by_rules.resident.begin(), by_rules.resident.end()) * share / 100;
            budgets[i] = {Budget::Kind::bytes, bytes};
            limits[i] = static_cast<double>(bytes);
        }
        CostGraph graph(abilities, rules, random.model);
        graph.ask_abilities(abilities);
        const double least = Everything(graph, random.model, limits).best(Assignment(graph, rules));
        possible += std::isfinite(least) ? 1 : 0;
        const auto placement = place_by_cost(abilities, {}, random.model, budgets);
        if (!placement) {
            EXPECT_EQ(placement.error().code, Errc::out_of_memory);
            EXPECT_THAT(placement.error().message, HasSubstr("whose budget is"));
            continue;
        }
        ++found;
        const Prediction made = predict(abilities, *placement, random.model);
        for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_LE(static_cast<double>(made.resident[i]), limits[i]) << "seed " << seed;
        }
    }
    EXPECT_EQ(found, possible);
    EXPECT_GT(found, 30);
}

TEST(PlaceByCost, SpreadsIndependentBranchesOverEqualDevices) {
    Workshop shop("devices=2");
    CostModel model = simple_model(shop.team());
    model.set_speed(2, {1e30, 1e30, 1000});  // nothing is to run on the host
    Tensor* x = shop.tensor(512, 512);
    Tensor *left = x, *right = x;
    for (int i = 0; i < 20; ++i) left = ggml_silu(shop.context(), left);
    for (int i = 0; i < 20; ++i) right = ggml_neg(shop.context(), right);
    shop.add(ggml_add(shop.context(), left, right));
    Abilities& abilities = shop.abilities();
    const Placement placement = *place_by_cost(abilities, {}, model, {});
    // One after the other they take 41; side by side 20, and a copy each way that may overlap.
    EXPECT_LE(predict(abilities, placement, model).seconds, 25);
}

TEST(PlaceByCost, PinsAndGivenMemoryStay) {
    Workshop shop("devices=2");
    CostModel model = simple_model(shop.team());
    model.set_speed(1, {1e30, 1e30, 1e-6});  // by far the fastest
    Tensor* a = ggml_silu(shop.context(), shop.given(0, 8, 8));
    Tensor* b = ggml_neg(shop.context(), a);
    Tensor* stored = ggml_cpy(shop.context(), b, shop.given(0, 8, 8));
    Tensor* c = ggml_sqr(shop.context(), stored);
    for (int i = 0; i < 5; ++i) c = ggml_sqr(shop.context(), c);
    shop.add(c);
    Abilities& abilities = shop.abilities();
    const Pins pins{{a, 2}};
    const Placement placement = *place_by_cost(abilities, pins, model, {});
    const auto choice = [&](const Tensor* tensor) { return placement[shop.index().find(tensor)]; };
    EXPECT_EQ(choice(a).runner, 2);
    EXPECT_EQ(choice(a).rule, Rule::pinned);
    EXPECT_EQ(choice(stored).runner, 0);
    EXPECT_EQ(choice(c).runner, 1);
    EXPECT_EQ(choice(c).rule, Rule::cost);
    EXPECT_EQ(choice(c).because, kNoTensor);
}

TEST(PlaceByCost, NodesThatWorkInPlaceStayWithTheirMemory) {
    Workshop shop("devices=2");
    CostModel model = simple_model(shop.team());
    model.set_speed(1, {1e30, 1e30, 1e-6});
    Tensor* a = ggml_silu(shop.context(), shop.input(8, 8));
    Tensor* b = ggml_sqr_inplace(shop.context(), ggml_neg_inplace(shop.context(), a));
    shop.add(ggml_add(shop.context(), b, b));
    Abilities& abilities = shop.abilities();
    const Placement placement = *place_by_cost(abilities, {}, model, {});
    EXPECT_EQ(placement[shop.index().find(a)].runner, placement[shop.index().find(b)].runner);
}

TEST(PlaceByCost, CastsThatNameThemselvesAsASourceCountOnce) {
    Workshop shop("devices=1");
    Tensor* cast = ggml_cast(shop.context(), shop.input(512, 512), GGML_TYPE_F16);
    shop.add(cast);
    Abilities& abilities = shop.abilities();
    const CostModel model = simple_model(shop.team());
    const Placement placement = *place_by_cost(abilities, {}, model, {});
    const Prediction made = predict(abilities, placement, model);
    EXPECT_EQ(made.seconds, 1);
    EXPECT_EQ(made.resident[1], (1 << 20) + (1 << 19));
}

TEST(PlaceByCost, NeverChoosesADeviceThatCannotRunTheNode) {
    Workshop shop("devices=2,ops=all,-SILU");
    CostModel model = simple_model(shop.team());
    model.set_speed(0, {1e30, 1e30, 1e-6});
    model.set_speed(1, {1e30, 1e30, 1e-6});
    Tensor* x = shop.input(8, 8);
    for (int i = 0; i < 10; ++i) {
        x = i % 2 == 0 ? ggml_silu(shop.context(), x) : ggml_neg(shop.context(), x);
    }
    shop.add(x);
    Abilities& abilities = shop.abilities();
    const Placement placement = *place_by_cost(abilities, {}, model, {});
    for (const TensorId node : shop.index().nodes()) {
        EXPECT_TRUE(abilities.can_run(placement[node].runner, node));
    }
}

TEST(PlaceByCost, LargeGraphsTakeTimeInProportion) {
    for (const int layers : {200, 3000}) {
        Workshop shop("devices=2,mem=1G");
        CostModel model(shop.team());
        for (RunnerId i = 0; i < 2; ++i) model.set_speed(i, {1e13, 1e12, 1e-6});
        Tensor* x = shop.input(64, 64);
        for (int i = 0; i < layers; ++i) {
            Tensor* y = ggml_mul_mat(shop.context(), x, ggml_rms_norm(shop.context(), x, 1e-5f));
            x = ggml_add(shop.context(), x, ggml_silu(shop.context(), y));
        }
        shop.add(x);
        Abilities& abilities = shop.abilities();
        const double by_rules = predict(abilities, *place(abilities, {}), model).seconds;
        const auto start = std::chrono::steady_clock::now();
        const Placement placement = *place_by_cost(abilities, {}, model, {});
        const std::chrono::duration<double, std::milli> took =
            std::chrono::steady_clock::now() - start;
        EXPECT_LT(predict(abilities, placement, model).seconds, by_rules / 2);
        // It takes 0.01; the rest is for sanitizers and machines that are busy with other things.
        EXPECT_LT(took.count() / shop.graph().n_nodes, 0.5) << "milliseconds for each node";
    }
}

// ---- measuring ---------------------------------------------------------------------------------

/// A file in a directory of the test's own.
class CostsOfATest : public testing::Test {
protected:
    ~CostsOfATest() override { std::filesystem::remove_all(directory_); }

    std::string text() const {
        std::ifstream in(path_);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void set_text(const std::string& text) const { std::ofstream(path_) << text; }

    const std::filesystem::path directory_ =
        std::filesystem::path(testing::TempDir()) /
        ("heddle_costs_" + std::to_string(std::random_device{}()));
    const std::string path_ = directory_ / "deep" / "costs.tsv";
};

TEST_F(CostsOfATest, DevicesWithAClockOfTheirOwnAreMeasuredByIt) {
    Workshop shop("devices=2,flops=20T,membw=400G,link=10G,latency=5us");
    const auto model = measure_costs(shop.team(), "");
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->origin, "measured");
    for (RunnerId i = 0; i < 2; ++i) {
        EXPECT_NEAR(model->speed(i).overhead, 5e-6, 1e-7);
        EXPECT_NEAR(model->speed(i).flops, 20e12, 1e12);
        EXPECT_NEAR(model->speed(i).bandwidth, 400e9, 20e9);
        for (const auto& [from, to] : {std::pair{i, RunnerId{2}}, {RunnerId{2}, i}}) {
            EXPECT_NEAR(model->link(from, to).bandwidth, 10e9, 1e9) << from << " to " << to;
            EXPECT_NEAR(model->link(from, to).latency, 5e-6, 1e-6) << from << " to " << to;
        }
    }
    EXPECT_NEAR(model->link(0, 1).bandwidth, 10e9, 1e9);
    // The CPU is a real one: anything but nonsense.
    EXPECT_GT(model->speed(2).flops, 1e7);
    EXPECT_GT(model->speed(2).bandwidth, 1e7);
    EXPECT_LT(model->speed(2).overhead, 1e-2);
}

TEST_F(CostsOfATest, WhatWasMeasuredIsReadTheNextTime) {
    Workshop shop("devices=1");
    const auto measured = measure_costs(shop.team(), path_);
    ASSERT_TRUE(measured) << measured.error().message;
    EXPECT_EQ(measured->origin, "measured");
    EXPECT_THAT(text(), testing::StartsWith("heddle costs 1\ndevice\tCPU | "));
    const auto read = measure_costs(shop.team(), path_);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->origin, "cached");
    for (RunnerId i = 0; i < 2; ++i) {
        EXPECT_NEAR(read->speed(i).flops / measured->speed(i).flops, 1, 1e-6);
        EXPECT_NEAR(read->speed(i).overhead / measured->speed(i).overhead, 1, 1e-6);
    }
    EXPECT_NEAR(read->link(0, 1).bandwidth / measured->link(0, 1).bandwidth, 1, 1e-6);
}

TEST_F(CostsOfATest, OtherDevicesStayInTheFile) {
    Workshop small("devices=1,flops=1T");
    ASSERT_TRUE(measure_costs(small.team(), path_));
    Workshop large("devices=1,flops=2T");
    const auto second = measure_costs(large.team(), path_);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->origin, "measured");
    Workshop again("devices=1,flops=1T");
    const auto third = measure_costs(again.team(), path_);
    ASSERT_TRUE(third);
    EXPECT_EQ(third->origin, "cached");
    EXPECT_NEAR(third->speed(0).flops, 1e12, 1e11);
}

TEST_F(CostsOfATest, BrokenFilesAreMeasuredAndWrittenAnew) {
    Workshop shop("devices=1");
    ASSERT_TRUE(measure_costs(shop.team(), path_));
    const std::string good = text();
    const std::string broken[] = {"",
                                  "something else\n" + good,
                                  good.substr(0, good.size() - 5) + "x\n",
                                  good + "device\ta\t1\n",
                                  good + "link\ta\tb\t0\t1\n",
                                  good + "link\ta\tb\tnan\t1\n",
                                  good + "\n"};
    for (const std::string& each : broken) {
        set_text(each);
        const auto model = measure_costs(shop.team(), path_);
        ASSERT_TRUE(model) << model.error().message;
        EXPECT_EQ(model->origin, "measured") << each;
        EXPECT_EQ(measure_costs(shop.team(), path_)->origin, "cached") << each;
    }
}

TEST_F(CostsOfATest, AFileThatCannotBeWrittenIsNoFailure) {
    Workshop shop("devices=1");
    std::filesystem::create_directories(path_);  // a directory where the file should be
    const auto model = measure_costs(shop.team(), path_);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->origin, "measured");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_ / "deep"), {}), 1)
        << "nothing is left behind";
}

TEST_F(CostsOfATest, ADeviceThatFailsMeanwhileIsNamed) {
    Workshop shop("devices=1");
    ASSERT_TRUE(sim::set_faults(sim::device(), "node=3"));
    const auto model = measure_costs(shop.team(), path_);
    ASSERT_FALSE(model);
    EXPECT_THAT(model.error().message, HasSubstr("measuring SIM0"));
}

}  // namespace
}  // namespace heddle::sched
