#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "ggml/ops_reduce.h"
#include "sched/submit/submit.hpp"
#include "sched/test_support.hpp"

/// What tests of the submitter share.
namespace heddle::sched {

/// All stages over simulated devices and the CPU, one by one.
class SubmitTest : public testing::Test {
protected:
    void start(const std::string& parameters, bool offload = false, int slots = 1) {
        ASSERT_TRUE(sim::configure(parameters));
        offloads = offload;
        slot_count = slots;
        const std::size_t count = ggml_backend_reg_dev_count(ggml_backend_sim_reg());
        for (std::size_t i = 0; i < count; ++i) {
            streams.emplace_back(ggml_backend_dev_init(sim::device(i), nullptr));
        }
        streams.emplace_back(ggml_backend_cpu_init());
        ggml_backend_cpu_set_n_threads(streams.back().get(), 1);
        std::vector<Stream*> all;
        for (const sim::Stream& each : streams) all.push_back(each.get());
        team = std::make_unique<Team>(*Team::make(all, {}, offload));
        std::vector<BufferType*> types;
        for (const Runner& runner : team->runners()) types.push_back(runner.type);
        memory = *GraphAllocator::make(types);
        constants = std::make_unique<ConstantCache>(*team);
        submitter = std::make_unique<Submitter>(*team);
    }

    void load(const Graph* graph) {
        ASSERT_TRUE(index.read(*graph));
        abilities = std::make_unique<Abilities>(index, *team);
        auto placed = place(*abilities, {});
        ASSERT_TRUE(placed) << placed.error().message;
        placement = *std::move(placed);
        auto cut = split(*abilities, placement, slot_count);
        ASSERT_TRUE(cut) << cut.error().message;
        splits = *std::move(cut);
        auto planned = plan(index, placement, splits, *team, *memory, *constants,
                            PlanRequest{.slots = slot_count, .place = true});
        ASSERT_TRUE(planned) << planned.error().message;
        program = *std::move(planned);
    }

    Result<> run(const RunOptions& options = {}) {
        return submitter->run(index, splits, program, options);
    }
    /// Runs and waits.
    Result<> compute(const RunOptions& options = {}) {
        HEDDLE_TRY(run(options));
        return submitter->synchronize();
    }

    ggml_backend_buffer_type_t memory_of(std::size_t i) {
        return ggml_backend_get_default_buffer_type(streams[i].get());
    }

    /// Virtual seconds that `body` takes, up to when all devices are done.
    template <class Body>
    double seconds(Body&& body) {
        const double began = clock_of_all();
        body();
        EXPECT_TRUE(submitter->synchronize());
        return clock_of_all() - began;
    }
    double clock_of_all() {
        double latest = sim::clock_of(nullptr);
        for (std::size_t i = 0; i + 1 < streams.size(); ++i) {
            latest = std::max(latest, sim::clock_of(sim::device(i)));
        }
        return latest;
    }

    std::vector<sim::Stream> streams;
    bool offloads = false;
    int slot_count = 1;
    std::unique_ptr<Team> team;
    std::unique_ptr<GraphAllocator> memory;
    std::unique_ptr<ConstantCache> constants;
    GraphIndex index;
    std::unique_ptr<Abilities> abilities;
    Placement placement;
    Splits splits;
    Program program;
    std::unique_ptr<Submitter> submitter;
    Weights weights;
};

/// A chain of matrix products, wide enough that times are those of bytes and operations.
struct Chain : Sketch {
    static constexpr std::int64_t width = 64;
    std::vector<Tensor*> factors;
    std::vector<Values> values;
    Tensor *x, *y;
    sim::Bench bench;

    Chain(const std::vector<ggml_backend_buffer_type_t>& types, std::int64_t columns) {
        x = ggml_new_tensor_2d(context(), GGML_TYPE_F32, width, columns);
        ggml_set_input(ggml_set_name(x, "x"));
        y = x;
        for (std::size_t i = 0; i < types.size(); ++i) {
            Tensor* const factor = bench.matrix(width, width, types[i]);
            ggml_format_name(factor, "w%zu", i);
            ggml_backend_buffer_set_usage(factor->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            values.push_back(sim::numbers(width * width, static_cast<unsigned>(i + 1)));
            for (float& value : values.back()) value *= 0.2F;
            sim::write(factor, values.back());
            factors.push_back(factor);
            y = add(("y" + std::to_string(i)).c_str(), ggml_mul_mat(context(), factor, y));
        }
    }

    Values numbers(unsigned seed) const {
        return sim::numbers(static_cast<std::size_t>(ggml_nelements(x)), seed);
    }
    Values result(Values in) const {
        Values out(in.size());
        for (const Values& w : values) {
            for (std::size_t c = 0; c < in.size() / width; ++c) {
                for (std::size_t r = 0; r < width; ++r) {
                    out[c * width + r] = std::inner_product(
                        w.data() + r * width, w.data() + (r + 1) * width, &in[c * width], 0.0F);
                }
            }
            in = out;
        }
        return in;
    }
};

}  // namespace heddle::sched
