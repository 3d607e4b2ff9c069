#include "ops/custom.hpp"

#include <algorithm>
#include <mutex>

#include "backends/cpu/kernels/test_support.hpp"
#include "ggml/ops_train.h"

namespace heddle::cpu {
namespace {

/// What a callback saw, over all threads.
class Calls {
public:
    void add(int index, int count) {
        const std::lock_guard guard(lock_);
        indices_.push_back(index);
        counts_.push_back(count);
    }

    /// Whether each index below `count` was called with once, and told of `count`.
    bool are_each_once(int count) {
        std::sort(indices_.begin(), indices_.end());
        bool right = indices_.size() == static_cast<std::size_t>(count);
        for (std::size_t i = 0; right && i < indices_.size(); ++i) {
            right = indices_[i] == static_cast<int>(i) && counts_[i] == count;
        }
        return right;
    }

    std::size_t size() const { return indices_.size(); }

private:
    std::mutex lock_;
    std::vector<int> indices_, counts_;
};

void count_call(Tensor*, const Tensor*, int index, int count, void* data) {
    static_cast<Calls*>(data)->add(index, count);
}

TEST(Custom, IsCalledOnceForEachTaskThatWasAskedFor) {
    Workbench bench;
    Tensor* a = bench.random(GGML_TYPE_F32, {10, 2, 1, 1});
    struct Case {
        int tasks, threads, calls;
    };
    for (const auto& [tasks, threads, calls] :
         {Case{2, 4, 2}, Case{GGML_N_TASKS_MAX, 4, 4}, Case{1, 4, 1}, Case{8, 3, 3},
          Case{GGML_N_TASKS_MAX, 1, 1}}) {
        Calls seen;
        Tensor* node = bench.node<ops::MapCustom1>({count_call, tasks, 0, &seen}, {a});
        ASSERT_TRUE(run_demanded(*node, threads));
        EXPECT_TRUE(seen.are_each_once(calls))
            << tasks << " tasks, " << threads << " threads, " << seen.size() << " calls";
    }
}

void add_shares(Tensor* y, const Tensor* a, const Tensor* b, const Tensor* c, int index, int count,
                void* data) {
    const float offset = *static_cast<const float*>(data);
    for (std::int64_t i = index; i < element_count(*y); i += count) {
        static_cast<float*>(y->data)[i] =
            static_cast<const float*>(a->data)[i] +
            (b == nullptr ? 0 : static_cast<const float*>(b->data)[i]) +
            (c == nullptr ? 0 : static_cast<const float*>(c->data)[i]) + offset;
    }
}

void add_one(Tensor* y, const Tensor* a, int index, int count, void* data) {
    add_shares(y, a, nullptr, nullptr, index, count, data);
}

void add_two(Tensor* y, const Tensor* a, const Tensor* b, int index, int count, void* data) {
    add_shares(y, a, b, nullptr, index, count, data);
}

/// The sum of all operands, cut off.
void add_operands(Tensor* y, int index, int count, void*) {
    for (std::int64_t i = index; i < element_count(*y); i += count) {
        float sum = 0;
        for (const Tensor* x : y->src) {
            if (x != nullptr) sum += static_cast<const float*>(x->data)[i];
        }
        static_cast<std::int32_t*>(y->data)[i] = static_cast<std::int32_t>(sum);
    }
}

TEST(Custom, HandsOverItsOperands) {
    Workbench bench;
    const Extents extent{10, 2, 1, 1};
    Tensor* x[5];
    std::vector<double> sums[6] = {std::vector<double>(20)};
    for (std::size_t i = 0; i < 5; ++i) {
        x[i] = bench.random(GGML_TYPE_F32, extent, -50, 50);
        sums[i + 1] = values_of(*x[i]);
        for (std::size_t j = 0; j < 20; ++j) sums[i + 1][j] += sums[i][j];
    }
    float zero = 0;
    Tensor* one = bench.node<ops::MapCustom1>({add_one, 5, 0, &zero}, {x[0]});
    Tensor* two = bench.node<ops::MapCustom2>({add_two, 5, 0, &zero}, {x[0], x[1]});
    Tensor* three = bench.node<ops::MapCustom3>({add_shares, 5, 0, &zero}, {x[0], x[1], x[2]});
    expect_result(bench, *one, sums[1], 0, 0);
    expect_result(bench, *two, sums[2], 0, 1e-4);
    expect_result(bench, *three, sums[3], 0, 1e-4);
    Tensor* five = bench.node<ops::Custom>({{add_operands, 5, 0, nullptr}, GGML_TYPE_I32, extent},
                                           {x[0], x[1], x[2], x[3], x[4]});
    for (double& sum : sums[5]) sum = std::trunc(sum);
    expect_result(bench, *five, sums[5], 0, 0);
}

TEST(Custom, WritesOverItsOperandInPlace) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {9, 1, 1, 1});
    std::vector<double> expected = values_of(*x);
    for (double& value : expected) value += 2;
    float two = 2;
    Tensor* node = bench.node_in_place<ops::MapCustom1>({add_one, 3, 0, &two}, {x});
    ASSERT_TRUE(run_demanded(*node, 4));
    expect_close(*x, expected, 1e-6);
}

TEST(Custom, DeclinesToCallNothing) {
    Workbench bench;
    float zero = 0;
    Tensor* x = bench.tensor(GGML_TYPE_F32, {4, 1, 1, 1});
    Tensor* node = bench.node<ops::MapCustom1>({add_one, 1, 0, &zero}, {x});
    auto params = unpack<ops::MapCustom1::Params>(*node);
    params.function = nullptr;
    set_params(*node, &params, sizeof params);
    EXPECT_EQ(objection_to(*node), "the function is null");
}

}  // namespace
}  // namespace heddle::cpu
