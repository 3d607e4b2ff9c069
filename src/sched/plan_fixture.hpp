#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "backends/sim/test_support.hpp"
#include "ggml-cpu.h"
#include "sched/hazard.hpp"
#include "sched/plan.hpp"

/// For tests: graphs over simulated devices and the processor, brought up to a program.
namespace heddle::sched::test {

class PlanTest : public testing::Test {
protected:
    /// So many simulated devices, then the processor. Its results are in memory that the devices
    /// can read, if they have some.
    void use(const std::string& parameters, int devices = 1, bool offload = false) {
        ASSERT_TRUE(sim::configure(parameters)) << heddle_last_error();
        std::vector<Stream*> streams;
        for (int i = 0; i < devices; ++i) {
            owned_.emplace_back(ggml_backend_dev_init(sim::device(std::size_t(i)), nullptr));
            streams.push_back(owned_.back().get());
        }
        owned_.emplace_back(ggml_backend_cpu_init());
        streams.push_back(owned_.back().get());
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
        auto made = Team::make(streams, types, offload);
        ASSERT_TRUE(made) << made.error().message;
        team_.emplace(*std::move(made));
        memory_ = *GraphAllocator::make(types);
        constants_.emplace(*team_);
    }

    ggml_context* context() { return bench_.context(); }
    BufferType* on(RunnerId runner) { return (*team_)[runner].type; }
    BufferType* host() { return on(team_->last()); }

    Tensor* floats(std::initializer_list<std::int64_t> extents, const char* name) {
        std::vector<std::int64_t> ne(extents);
        return ggml_set_name(
            ggml_new_tensor(context(), GGML_TYPE_F32, static_cast<int>(ne.size()), ne.data()),
            name);
    }
    Tensor* input(const char* name, std::int64_t rows = 4) {
        Tensor* x = floats({16, rows}, name);
        ggml_set_input(x);
        return x;
    }
    Tensor* weight(const char* name, BufferType* type,
                   std::initializer_list<std::int64_t> extents = {16, 16}) {
        Tensor* w = bench_.place(floats(extents, name), type);
        ggml_backend_buffer_set_usage(w->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        return w;
    }
    Tensor* named(Tensor* tensor, const char* name) { return ggml_set_name(tensor, name); }
    Tensor* mul_mat(Tensor* w, Tensor* x, const char* name) {
        return named(ggml_mul_mat(context(), w, x), name);
    }

    Graph& graph(std::initializer_list<Tensor*> results) {
        Graph* made = ggml_new_graph_custom(context(), 1024, false);
        for (Tensor* result : results) ggml_build_forward_expand(made, result);
        return *made;
    }

    /// Places and cuts.
    void cut(Graph& graph, int slots = 1) {
        const auto read = index_.read(graph);
        ASSERT_TRUE(read) << read.error().message;
        Abilities abilities(index_, *team_);
        auto placed = place(abilities, pins_);
        ASSERT_TRUE(placed) << placed.error().message;
        placement_ = *std::move(placed);
        auto made = split(abilities, placement_, slots);
        ASSERT_TRUE(made) << made.error().message;
        splits_ = *std::move(made);
    }

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

    sim::Bench bench_;
    std::vector<sim::Stream> owned_;
    std::optional<Team> team_;
    std::unique_ptr<GraphAllocator> memory_;
    std::optional<ConstantCache> constants_;
    Pins pins_;
    GraphIndex index_;
    Placement placement_;
    Splits splits_;
    Program program_;
};

}  // namespace heddle::sched::test
