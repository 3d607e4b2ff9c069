#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "sched/plan/hazard.hpp"
#include "sched/plan/plan.hpp"
#include "sched/stage_test_support.hpp"

/// For tests: graphs brought up to a program.
namespace heddle::sched::test {

class PlanTest : public StageTest {
protected:
    /// The CPU's results are in memory that the devices can read, if they have some.
    void use(const std::string& parameters, int devices = 1, bool offload = false) {
        const std::vector<Stream*> streams = start_streams(parameters, devices);
        std::vector<BufferType*> types;
        for (Stream* stream : streams)
            types.push_back(ggml_backend_get_default_buffer_type(stream));
        if (BufferType* type = ggml_backend_dev_host_buffer_type(sim::device(0))) {
            types.back() = type;
        }
        use(streams, types, offload);
    }
    void use(const std::vector<Stream*>& streams, const std::vector<BufferType*>& types,
             bool offload) {
        make_team(streams, types, offload);
        if (HasFatalFailure()) return;
        memory_ = *GraphAllocator::make(types);
        constants_.emplace(*team_);
    }

    Tensor* named(Tensor* tensor, const char* name) { return ggml_set_name(tensor, name); }
    Tensor* mul_mat(Tensor* w, Tensor* x, const char* name) {
        return named(ggml_mul_mat(context(), w, x), name);
    }

    void cut(Graph& graph, int slots = 1) { cut_graph(graph, slots, pins_); }

    Result<> try_plan(Graph& graph, int slots = 1, bool place = true) {
        cut(graph, slots);
        if (HasFatalFailure()) return invalid("the graph could not be cut");
        HEDDLE_TRY_ASSIGN(program_, plan(index_, placement_, splits_, *team_, *memory_, *constants_,
                                         {.slots = slots, .place = place}));
        return ok();
    }

    /// A program for the graph, without hazards.
    void make(Graph& graph, int slots = 1) {
        const auto sources = sources_of(graph);
        const auto planned = try_plan(graph, slots);
        ASSERT_TRUE(planned) << planned.error().message;
        EXPECT_EQ(sources_of(graph), sources) << "the graph was changed";
        for (const Hazard& hazard : hazards(slots)) ADD_FAILURE() << hazard.text << '\n' << words();
    }
    std::vector<Hazard> hazards(int slots = 1) {
        return find_hazards(index_, placement_, splits_, program_, *team_, slots);
    }
    std::string words() { return to_text(program_, splits_, index_, *team_); }

    static std::vector<Tensor*> sources_of(const Graph& graph) {
        std::vector<Tensor*> sources;
        for (Tensor* node : nodes_of(graph)) {
            sources.insert(sources.end(), std::begin(node->src), std::end(node->src));
        }
        return sources;
    }

    /// [a b] SIM0, [d] CPU, [e f] SIM0.
    Graph& there_and_back() {
        Tensor* wg = weight("wg", on(0));
        Tensor* wc = weight("wc", host());
        Tensor* b = named(ggml_silu(context(), mul_mat(wg, input("x"), "a")), "b");
        Tensor* e = named(ggml_silu(context(), mul_mat(wc, b, "d")), "e");
        return graph({mul_mat(wg, e, "f")});
    }

    /// Layers on SIM0 whose weights are on the host.
    Graph& layers(int count, std::int64_t width = 64) {
        Tensor* x = floats({width, 64}, "x");
        ggml_set_input(x);
        for (int i = 0; i < count; ++i) {
            Tensor* w = weight(("w" + std::to_string(i)).c_str(), host(), {width, width});
            x = mul_mat(w, x, ("y" + std::to_string(i)).c_str());
        }
        return graph({x});
    }

    std::unique_ptr<GraphAllocator> memory_;
    std::optional<ConstantCache> constants_;
    Pins pins_;
    Program program_;
};

}  // namespace heddle::sched::test
