// A graph stays as it was given: the scheduler with a device whose streams read nodes late, on
// threads of their own. Also under TSan.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "ggml-backend-impl.h"
#include "ggml-cpp.h"
#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "heddle/backend/nodes.hpp"
#include "heddle/heddle.h"
#include "heddle/sched.h"
#include "tests/conformance/late_device.hpp"

namespace heddle::conformance {
namespace {

// ---- a processor that computes within the call -------------------------------------------------

class HostStream {
public:
    static inline ggml_guid guid = {0x17, 0xd4, 0x6b, 0x88, 0xfe, 0x30, 0x4a, 0x51,
                                    0x92, 0xc7, 0x0b, 0x2e, 0x65, 0xdf, 0x8a, 0x13};
    void compute_node(ggml_tensor& node) { LateStream::compute_node(node); }
};

class HostDevice : public plugin::Device<HostDevice> {
public:
    HostDevice() : Device(plugin::registration<LateRegistration>()) {}

    const char* name() { return "HOST"; }
    const char* description() { return "a processor"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_CPU; }
    ggml_backend_buffer_type_t buffer_type() { return ggml_backend_cpu_buffer_type(); }
    std::string_view objection(const ggml_tensor& node) { return late_objection(node); }
    std::unique_ptr<HostStream> start(const char* /*params*/) {
        return std::make_unique<HostStream>();
    }
};

// ---- a graph of several splits -----------------------------------------------------------------

using Values = std::vector<float>;

constexpr std::int64_t kWidth = 16;

/// y = 2 (2 (x + w) w + w) w ..., in turns: sums and products on the device, where the weight is,
/// doubling on the processor. Built in memory that the test gives.
struct Turns {
    static constexpr int kRounds = 4;

    Turns(std::vector<char>& memory, ggml_tensor* weight, std::int64_t columns)
        : context(ggml_init(
              {.mem_size = memory.size(), .mem_buffer = memory.data(), .no_alloc = true})),
          graph(ggml_new_graph_custom(context.get(), 64, false)) {
        ggml_context* const c = context.get();
        x = ggml_new_tensor_2d(c, GGML_TYPE_F32, kWidth, columns);
        ggml_set_input(x);
        ggml_tensor* const w = ggml_view_2d(c, weight, kWidth, columns, weight->nb[1], 0);
        y = x;
        for (int round = 0; round < kRounds; ++round) {
            y = ggml_mul(c, ggml_add(c, y, w), w);
            y = ggml_scale(c, y, 2);
            doubled.push_back(y);
        }
        y = ggml_add(c, y, w);
        ggml_set_output(y);
        ggml_build_forward_expand(graph, y);
    }

    static Values result(const Values& x, const Values& w) {
        Values y = x;
        for (std::size_t i = 0; i < y.size(); ++i) {
            for (int round = 0; round < kRounds; ++round) y[i] = (y[i] + w[i]) * w[i] * 2;
            y[i] += w[i];
        }
        return y;
    }

    ggml_context_ptr context;
    ggml_cgraph* graph;
    ggml_tensor *x, *y;
    std::vector<ggml_tensor*> doubled;
};

/// With or without several runs at a time; the device's threads as late as they may, or at once.
class LateReader : public testing::TestWithParam<std::tuple<bool, bool>> {
protected:
    static constexpr std::int64_t kMostColumns = 48;

    void SetUp() override {
        LateQueue::waits_to_be_asked = std::get<1>(GetParam());
        ggml_backend_t streams[] = {device_.get(), host_.get()};
        sched_.reset(
            ggml_backend_sched_new(streams, nullptr, 2, 64, std::get<0>(GetParam()), false));
        ASSERT_NE(sched_, nullptr) << heddle_last_error();
        heddle_sched_set_hazard_check(sched_.get(), true);
        weight_ = ggml_new_tensor_2d(weights_.get(), GGML_TYPE_F32, kWidth, kMostColumns);
        ggml_set_name(weight_, "w");
        buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(
            weights_.get(), ggml_backend_dev_buffer_type(late_device())));
        ggml_backend_buffer_set_usage(buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        weight_values_ = numbers(kMostColumns, 1);
        ggml_backend_tensor_set(weight_, weight_values_.data(), 0, ggml_nbytes(weight_));
    }
    void TearDown() override {
        sched_.reset();
        LateQueue::waits_to_be_asked = true;
    }

    /// Small whole numbers, so that sums and products are exact.
    static Values numbers(std::int64_t columns, int seed) {
        Values values(static_cast<std::size_t>(kWidth * columns));
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed) * 5) % 3);
        }
        return values;
    }
    Values expected(std::int64_t columns, int seed) const {
        return Turns::result(numbers(columns, seed), weight_values_);
    }

    void allocate(Turns& turns) {
        for (int i = 0; i < ggml_graph_n_nodes(turns.graph); ++i) {
            ggml_tensor* const node = ggml_graph_node(turns.graph, i);
            if (node->op == GGML_OP_VIEW) continue;
            ggml_backend_sched_set_tensor_backend(
                sched_.get(), node, node->op == GGML_OP_SCALE ? host_.get() : device_.get());
        }
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched_.get(), turns.graph))
            << heddle_last_error();
        ASSERT_GE(ggml_backend_sched_get_n_splits(sched_.get()), 2 * Turns::kRounds);
    }
    /// Begins a run, and reads its result behind it. Waits for nothing.
    void begin(Turns& turns, int seed, Values& result) {
        const Values values = numbers(turns.x->ne[1], seed);
        ggml_backend_tensor_set(turns.x, values.data(), 0, ggml_nbytes(turns.x));
        ASSERT_EQ(ggml_backend_sched_graph_compute_async(sched_.get(), turns.graph),
                  GGML_STATUS_SUCCESS)
            << heddle_last_error();
        result.resize(values.size());
        ggml_backend_tensor_get_async(device_.get(), turns.y, result.data(), 0,
                                      ggml_nbytes(turns.y));
    }
    void wait() { ggml_backend_sched_synchronize(sched_.get()); }

    ggml_backend_ptr device_{ggml_backend_dev_init(late_device(), nullptr)};
    HostDevice host_device_;
    ggml_backend_ptr host_{ggml_backend_dev_init(host_device_.handle(), nullptr)};
    ggml_context_ptr weights_{ggml_init(
        {.mem_size = 4 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true})};
    ggml_backend_buffer_ptr buffer_;
    ggml_tensor* weight_ = nullptr;
    Values weight_values_;
    ggml_backend_sched_ptr sched_;
    std::vector<char> memory_ = std::vector<char>(std::size_t{1} << 16);
};

TEST_P(LateReader, RunsOfOneGraphFollowEachOtherWithoutWaiting) {
    Turns turns(memory_, weight_, 3);
    allocate(turns);
    std::vector<Values> results(9);
    for (int i = 0; i < 9; ++i) begin(turns, i, results[static_cast<std::size_t>(i)]);
    wait();
    for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(results[static_cast<std::size_t>(i)], expected(3, i)) << "run " << i;
    }
}

TEST_P(LateReader, TheNextGraphMayBeBuiltInTheSamePlaceWhileTheLastOneIsRead) {
    std::vector<Values> results(9);
    for (int i = 0; i < 9; ++i) {
        ggml_backend_sched_reset(sched_.get());
        std::memset(memory_.data(), 0xee, memory_.size());
        Turns turns(memory_, weight_, 3);
        allocate(turns);
        begin(turns, i, results[static_cast<std::size_t>(i)]);
    }
    wait();
    for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(results[static_cast<std::size_t>(i)], expected(3, i)) << "run " << i;
    }
}

/// More of them than the scheduler keeps.
TEST_P(LateReader, AnotherGraphMayBeAllocatedWhileTheLastOneIsRead) {
    constexpr int kGraphs = 40;
    std::vector<Values> results(kGraphs);
    for (int i = 0; i < kGraphs; ++i) {
        ggml_backend_sched_reset(sched_.get());
        std::memset(memory_.data(), 0xee, memory_.size());
        Turns turns(memory_, weight_, kMostColumns - i);
        allocate(turns);
        begin(turns, i, results[static_cast<std::size_t>(i)]);
    }
    wait();
    for (int i = 0; i < kGraphs; ++i) {
        EXPECT_EQ(results[static_cast<std::size_t>(i)], expected(kMostColumns - i, i))
            << "graph " << i;
    }
}

TEST_P(LateReader, AnObserverSeesTheCallersNodesWithTheSourcesTheyWereComputedFrom) {
    Turns turns(memory_, weight_, 3);
    allocate(turns);
    using Sources = std::map<ggml_tensor*, std::string>;
    Sources sources;
    ggml_backend_sched_set_eval_callback(
        sched_.get(),
        [](ggml_tensor* node, bool ask, void* data) {
            if (!ask) (*static_cast<Sources*>(data))[node] = node->src[0]->name;
            return node->op == GGML_OP_SCALE;
        },
        &sources);
    Values result;
    begin(turns, 2, result);
    wait();
    EXPECT_EQ(result, expected(3, 2));
    ASSERT_EQ(sources.size(), turns.doubled.size());
    for (ggml_tensor* node : turns.doubled) {
        EXPECT_EQ(sources[node], "HOST#" + std::string(node->src[0]->name) + "#0");
        EXPECT_EQ(node->src[0]->op, GGML_OP_MUL);
    }
}

// ---- what backends are given -------------------------------------------------------------------

/// Remembers the graphs that the device's stream is given.
class GivenGraphs : public LateReader {
protected:
    struct Node {
        const ggml_tensor* node;
        std::string name;
        int uses, flags;
        bool operator==(const Node&) const = default;
    };
    struct Given {
        std::uint64_t uid;
        std::vector<Node> nodes;
        bool operator==(const Given&) const = default;
    };

    void SetUp() override {
        LateReader::SetUp();
        given.clear();
        original = device_->iface.graph_compute;
        device_->iface.graph_compute = [](ggml_backend_t stream, ggml_cgraph* graph) {
            Given& now = given.emplace_back(Given{graph->uid, {}});
            for (int i = 0; i < graph->n_nodes; ++i) {
                const ggml_tensor* const node = graph->nodes[i];
                now.nodes.push_back(
                    {node, node->name, ggml_node_get_use_count(graph, i), node->flags});
            }
            return original(stream, graph);
        };
    }
    void run(std::int64_t columns = 3) {
        ggml_backend_sched_reset(sched_.get());
        Turns turns(memory_, weight_, columns);
        allocate(turns);
        Values result;
        begin(turns, 1, result);
        wait();
        EXPECT_EQ(result, expected(columns, 1));
    }
    std::vector<Given> taken() { return std::exchange(given, {}); }

    static inline std::vector<Given> given;
    static inline ggml_status (*original)(ggml_backend_t, ggml_cgraph*);
};

TEST_P(GivenGraphs, UseCountsAndFlagsOfSlicesAreThoseOfTheWholeGraph) {
    Turns turns(memory_, weight_, 3);
    allocate(turns);
    Values result;
    begin(turns, 1, result);
    wait();
    std::map<std::string, std::pair<int, int>> whole;
    for (int i = 0; i < turns.graph->n_nodes; ++i) {
        const ggml_tensor* const node = turns.graph->nodes[i];
        whole[node->name] = {ggml_node_get_use_count(turns.graph, i), node->flags};
    }
    std::size_t computed = 0;
    for (const Given& each : taken()) {
        for (const Node& node : each.nodes) {
            EXPECT_EQ(std::pair(node.uses, node.flags), whole[node.name]) << node.name;
            computed += node.name != "view" ? 1 : 0;
        }
    }
    EXPECT_GE(computed, 2u * Turns::kRounds + 1);
    EXPECT_EQ(whole[turns.y->name].first, 0);
    EXPECT_EQ(whole[turns.doubled[0]->name].first, 1);
}

TEST_P(GivenGraphs, AGraphBuiltAgainIsGivenAsTheSameNodesWithTheSameUid) {
    run();
    const std::vector<Given> first = taken();
    ASSERT_GE(first.size(), 2u);
    for (const Given& each : first) EXPECT_NE(each.uid, 0u);
    run();
    EXPECT_EQ(taken(), first);
}

TEST_P(GivenGraphs, AnotherGraphHasAnotherUid) {
    run();
    const std::uint64_t first = taken().front().uid;
    run(5);
    EXPECT_NE(taken().front().uid, first);
}

TEST_P(GivenGraphs, AnotherNameOrAnotherPlaceOfAWeightIsAnotherGraph) {
    run();
    const std::uint64_t first = taken().front().uid;
    ggml_backend_sched_reset(sched_.get());
    Turns renamed(memory_, weight_, 3);
    ggml_set_name(renamed.doubled[0], "another name");
    allocate(renamed);
    Values result;
    begin(renamed, 1, result);
    wait();
    EXPECT_EQ(result, expected(3, 1));
    const std::uint64_t second = taken().front().uid;
    EXPECT_NE(second, first);

    // The weight's bytes are somewhere else: views that were placed before would miss them.
    ggml_backend_buffer_ptr elsewhere(ggml_backend_buft_alloc_buffer(
        ggml_backend_dev_buffer_type(late_device()), ggml_nbytes(weight_)));
    ggml_backend_buffer_set_usage(elsewhere.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    weight_->buffer = nullptr;
    weight_->data = nullptr;
    ASSERT_EQ(ggml_backend_tensor_alloc(elsewhere.get(), weight_,
                                        ggml_backend_buffer_get_base(elsewhere.get())),
              GGML_STATUS_SUCCESS);
    std::ranges::reverse(weight_values_);
    ggml_backend_tensor_set(weight_, weight_values_.data(), 0, ggml_nbytes(weight_));
    Turns moved(memory_, weight_, 3);
    ggml_set_name(moved.doubled[0], "another name");
    ggml_backend_sched_reset(sched_.get());
    allocate(moved);
    begin(moved, 1, result);
    wait();
    EXPECT_EQ(result, expected(3, 1));
    EXPECT_NE(taken().front().uid, second);
    sched_.reset();
}

constexpr auto kEveryWay = [](const testing::TestParamInfo<std::tuple<bool, bool>>& info) {
    return std::string(std::get<0>(info.param) ? "SeveralRuns" : "OneRun") +
           (std::get<1>(info.param) ? "WhenAsked" : "AtOnce");
};
INSTANTIATE_TEST_SUITE_P(, LateReader, testing::Combine(testing::Bool(), testing::Bool()),
                         kEveryWay);
INSTANTIATE_TEST_SUITE_P(, GivenGraphs,
                         testing::Values(std::tuple(false, true), std::tuple(true, true)),
                         kEveryWay);

}  // namespace
}  // namespace heddle::conformance
