#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "backends/sim/test_support.hpp"
#include "ggml-cpu.h"
#include "sched/split.hpp"

/// For tests of single stages: simulated devices and the CPU, and graphs over them.
namespace heddle::sched::test {

class StageTest : public testing::Test {
protected:
    /// Streams of so many simulated devices, then one of the CPU.
    std::vector<Stream*> start_streams(const std::string& parameters, int devices) {
        EXPECT_TRUE(sim::configure(parameters)) << heddle_last_error();
        std::vector<Stream*> streams;
        for (int i = 0; i < devices; ++i) {
            owned_.emplace_back(ggml_backend_dev_init(sim::device(std::size_t(i)), nullptr));
            streams.push_back(owned_.back().get());
        }
        owned_.emplace_back(ggml_backend_cpu_init());
        streams.push_back(owned_.back().get());
        return streams;
    }
    /// `types` is empty for everyone's default.
    void make_team(const std::vector<Stream*>& streams, const std::vector<BufferType*>& types,
                   bool offload) {
        auto made = Team::make(streams, types, offload);
        ASSERT_TRUE(made) << made.error().message;
        team_.emplace(*std::move(made));
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
    Graph& graph(std::initializer_list<Tensor*> results) {
        Graph* made = ggml_new_graph_custom(context(), 4096, false);
        for (Tensor* result : results) ggml_build_forward_expand(made, result);
        return *made;
    }

    /// Places and cuts.
    void cut_graph(Graph& graph, int slots, const Pins& pins) {
        const auto read = index_.read(graph);
        ASSERT_TRUE(read) << read.error().message;
        Abilities abilities(index_, *team_);
        auto placed = place(abilities, pins);
        ASSERT_TRUE(placed) << placed.error().message;
        placement_ = *std::move(placed);
        auto made = split(abilities, placement_, slots);
        ASSERT_TRUE(made) << made.error().message;
        splits_ = *std::move(made);
    }

    sim::Bench bench_;
    std::vector<sim::Stream> owned_;
    std::optional<Team> team_;
    GraphIndex index_;
    Placement placement_;
    Splits splits_;
};

}  // namespace heddle::sched::test
