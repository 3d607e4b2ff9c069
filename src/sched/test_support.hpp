#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backends/sim/test_support.hpp"
#include "ggml-cpu.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "heddle/sched.h"

/// What tests of the whole scheduler share: simulated devices before the CPU, weights on
/// them, and a graph whose result is known.
namespace heddle::sched {

using OwnedSched =
    std::unique_ptr<ggml_backend_sched, sim::Release<ggml_backend_sched, ggml_backend_sched_free>>;

/// Streams of all simulated devices, then one of the CPU; and a scheduler over them.
class Rig {
public:
    explicit Rig(const std::string& parameters = "devices=1", bool parallel = false,
                 bool offload = false) {
        EXPECT_TRUE(sim::configure(parameters));
        const std::size_t count = ggml_backend_reg_dev_count(ggml_backend_sim_reg());
        for (std::size_t i = 0; i < count; ++i) {
            devices_.push_back(sim::device(i));
            streams_.emplace_back(ggml_backend_dev_init(devices_.back(), nullptr));
        }
        streams_.emplace_back(ggml_backend_cpu_init());
        ggml_backend_cpu_set_n_threads(cpu(), 1);
        renew(parallel, offload);
    }

    void renew(bool parallel, bool offload = false) {
        std::vector<ggml_backend_t> all;
        for (const sim::Stream& each : streams_) all.push_back(each.get());
        sched_.reset();
        sched_.reset(ggml_backend_sched_new(all.data(), nullptr, static_cast<int>(all.size()), 64,
                                            parallel, offload));
        EXPECT_NE(sched_, nullptr) << heddle_last_error();
        if (sched_ != nullptr) heddle_sched_set_hazard_check(sched(), true);
    }

    ggml_backend_sched_t sched() { return sched_.get(); }
    ggml_backend_t stream(std::size_t i) { return streams_[i].get(); }
    ggml_backend_t cpu() { return streams_.back().get(); }
    ggml_backend_dev_t device(std::size_t i) { return devices_[i]; }
    std::size_t device_count() const { return devices_.size(); }
    ggml_backend_buffer_type_t memory(std::size_t i) {
        return ggml_backend_get_default_buffer_type(stream(i));
    }
    heddle_sched_counts counts() {
        heddle_sched_counts counts{};
        EXPECT_TRUE(heddle_sched_get_counts(sched(), &counts, sizeof counts));
        return counts;
    }
    void release_sched() { sched_.reset(); }

private:
    std::vector<ggml_backend_dev_t> devices_;
    std::vector<sim::Stream> streams_;
    OwnedSched sched_;
};

constexpr int kWidth = 8, kColumns = 3;
using Values = std::vector<float>;

/// Square matrices as the graphs of these tests use them: y = W x, with W as mul_mat reads it.
inline Values product(const Values& w, const Values& x) {
    Values y(x.size());
    for (std::size_t c = 0; c < x.size() / kWidth; ++c) {
        for (std::size_t r = 0; r < kWidth; ++r) {
            double sum = 0;
            for (std::size_t k = 0; k < kWidth; ++k) {
                sum += double(w[r * kWidth + k]) * double(x[c * kWidth + k]);
            }
            y[c * kWidth + r] = static_cast<float>(sum);
        }
    }
    return y;
}
inline Values silu(Values x) {
    for (float& value : x) value = value / (1 + std::exp(-value));
    return x;
}

inline void expect_near(const Values& got, const Values& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << "element " << i;
    }
}

/// Weights in memory of some device, for graphs that come and go.
class Weights {
public:
    Tensor* add(const char* name, ggml_backend_buffer_type_t type, const Values& values) {
        Tensor* const weight = bench_.matrix(kWidth, kWidth, type);
        ggml_set_name(weight, name);
        ggml_backend_buffer_set_usage(weight->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        sim::write(weight, values);
        return weight;
    }
    sim::Bench& bench() { return bench_; }

private:
    sim::Bench bench_;
};

/// A graph in a context of its own, or in memory that the test gives: then the next graph is built
/// at the same addresses.
class Sketch {
public:
    explicit Sketch(void* memory = nullptr, std::size_t size = std::size_t{1} << 18,
                    std::size_t nodes = 256)
        : context_(ggml_init({.mem_size = size, .mem_buffer = memory, .no_alloc = true})),
          graph_(ggml_new_graph_custom(context_.get(), nodes, false)) {}

    ggml_context* context() { return context_.get(); }
    ggml_cgraph* graph() { return graph_; }

    Tensor* input(const char* name = "x", int columns = kColumns) {
        Tensor* const x = ggml_new_tensor_2d(context(), GGML_TYPE_F32, kWidth, columns);
        ggml_set_input(ggml_set_name(x, name));
        return x;
    }
    Tensor* add(const char* name, Tensor* node) {
        ggml_build_forward_expand(graph_, ggml_set_name(node, name));
        return node;
    }

private:
    sim::ContextOwner context_;
    ggml_cgraph* graph_;
};

/// a = W1 x, b = silu(a), d = W2 b, e = silu(d), f = W1 e.
struct Sandwich : Sketch {
    Tensor *x, *a, *b, *d, *e, *f;

    Sandwich(Tensor* w1, Tensor* w2, void* memory = nullptr, int columns = kColumns)
        : Sketch(memory), x(input("x", columns)) {
        a = add("a", ggml_mul_mat(context(), w1, x));
        b = add("b", ggml_silu(context(), a));
        d = add("d", ggml_mul_mat(context(), w2, b));
        e = add("e", ggml_silu(context(), d));
        f = add("f", ggml_mul_mat(context(), w1, e));
    }

    static Values result(const Values& w1, const Values& w2, const Values& x) {
        return product(w1, silu(product(w2, silu(product(w1, x)))));
    }
};

/// One device before the CPU; a weight on each.
class RigTest : public testing::Test {
protected:
    void start(const std::string& parameters = "devices=1", bool parallel = false) {
        rig = std::make_unique<Rig>(parameters, parallel);
        w1 = weights.add("w1", rig->memory(0), values1);
        w2 = weights.add("w2", ggml_backend_cpu_buffer_type(), values2);
    }
    void SetUp() override { start(); }

    ggml_backend_sched_t sched() { return rig->sched(); }
    Values expected(const Values& x) { return Sandwich::result(values1, values2, x); }

    std::unique_ptr<Rig> rig;
    Weights weights;
    Tensor *w1 = nullptr, *w2 = nullptr;
    const Values values1 = sim::numbers(kWidth * kWidth, 11);
    const Values values2 = sim::numbers(kWidth * kWidth, 12);
};

}  // namespace heddle::sched
