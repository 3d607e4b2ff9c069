#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "core/graph.hpp"
#include "core/test_support.hpp"
#include "ggml-cpu.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_train.h"
#include "heddle/heddle.h"

namespace heddle {
namespace {

/// Lets functions that cannot report return instead of ending the program.
class ReturnOnError {
public:
    ReturnOnError() { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }
    ~ReturnOnError() { heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT); }
};

class CpuApi : public testing::Test {
protected:
    TestContext context_{std::size_t{16} << 20, false};
    Context* context = &static_cast<Context&>(context_);
};

// ---- elements ----------------------------------------------------------------------------------

TEST_F(CpuApi, ElementsConvertAsInC) {
    for (const Type type : {GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_F16,
                            GGML_TYPE_BF16, GGML_TYPE_F32}) {
        SCOPED_TRACE(name_of(type));
        Tensor* t = context_.tensor(type, {3, 2});
        EXPECT_EQ(ggml_set_i32(t, -5), t);
        EXPECT_EQ(ggml_get_f32_1d(t, 5), -5);
        EXPECT_EQ(ggml_set_f32(t, 2.75f), t);
        EXPECT_EQ(ggml_get_i32_1d(t, 0), 2) << "cut off";
        ggml_set_i32_1d(t, 4, 9);
        EXPECT_EQ(ggml_get_i32_nd(t, 1, 1, 0, 0), 9);
        ggml_set_f32_nd(t, 2, 0, 0, 0, -1.5f);
        EXPECT_EQ(ggml_get_f32_1d(t, 2),
                  type <= GGML_TYPE_F16 || type == GGML_TYPE_BF16 ? -1.5f : -1);
    }
}

TEST_F(CpuApi, FlatIndicesFollowTheLogicalOrderOfViews) {
    Tensor* t = context_.f32({2, 3});
    for (int i = 0; i < 6; ++i) ggml_set_f32_1d(t, i, static_cast<float>(i));
    Tensor* transposed = ggml_transpose(context, t);
    EXPECT_EQ(ggml_get_f32_1d(transposed, 1), 2);
    EXPECT_EQ(ggml_get_f32_1d(transposed, 3), 1);
    ggml_set_f32(transposed, 8);
    EXPECT_EQ(ggml_get_f32_1d(t, 5), 8);
}

TEST_F(CpuApi, NewScalarsHoldTheirValue) {
    EXPECT_EQ(ggml_get_i32_1d(ggml_new_i32(context, -7), 0), -7);
    EXPECT_EQ(ggml_get_f32_1d(ggml_new_f32(context, 0.5f), 0), 0.5f);
}

TEST_F(CpuApi, ElementsOfBlocksAndOfTensorsWithoutMemoryAreRefused) {
    const ReturnOnError mode;
    Tensor* blocks = context_.tensor(GGML_TYPE_Q8_0, {32});
    EXPECT_EQ(ggml_get_f32_1d(blocks, 0), 0);
    EXPECT_STREQ(heddle_last_error(), "single elements of type q8_0 cannot be read");
    EXPECT_EQ(ggml_set_f32(blocks, 1), nullptr);
    TestContext no_data;
    EXPECT_EQ(ggml_new_f32(&static_cast<Context&>(no_data), 1), nullptr);
    EXPECT_STREQ(heddle_last_error(), "a context without data cannot hold a value");
    Tensor* bare = no_data.f32({4}, "bare");
    ggml_set_f32_1d(bare, 0, 1);
    EXPECT_STREQ(heddle_last_error(), "tensor 'bare' f32[4,1,1,1] has no memory");
}

// ---- types -------------------------------------------------------------------------------------

TEST_F(CpuApi, TraitsExistForEveryNumber) {
    for (int type = -1; type < GGML_TYPE_COUNT + 2; ++type) {
        EXPECT_NE(ggml_get_type_traits_cpu(static_cast<Type>(type)), nullptr);
    }
    EXPECT_EQ(ggml_get_type_traits_cpu(GGML_TYPE_Q4_0)->vec_dot_type, GGML_TYPE_Q8_0);
    EXPECT_EQ(ggml_get_type_traits_cpu(GGML_TYPE_Q4_K)->vec_dot_type, GGML_TYPE_Q8_K);
}

TEST_F(CpuApi, RowsConvert) {
    const std::vector<float> x{0, 1.5f, -2.75f, 65504, 1e-7f, 100.9f, -0.0f, 3};
    const auto n = static_cast<std::int64_t>(x.size());
    std::vector<float> y(x.size());
    std::vector<std::int32_t> whole(x.size());
    std::vector<ggml_fp16_t> half(x.size());
    std::vector<ggml_bf16_t> brain(x.size());
    ggml_cpu_fp32_to_fp32(x.data(), y.data(), n);
    EXPECT_EQ(y, x);
    ggml_cpu_fp32_to_i32(x.data(), whole.data(), n);
    EXPECT_EQ(whole, (std::vector<std::int32_t>{0, 1, -2, 65504, 0, 100, 0, 3}));
    ggml_cpu_fp32_to_fp16(x.data(), half.data(), n);
    ggml_cpu_fp16_to_fp32(half.data(), y.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(y[i], ggml_fp16_to_fp32(ggml_fp32_to_fp16(x[i])));
    }
    ggml_cpu_fp32_to_bf16(x.data(), brain.data(), n);
    ggml_cpu_bf16_to_fp32(brain.data(), y.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(y[i], ggml_bf16_to_fp32(ggml_fp32_to_bf16(x[i])));
    }
}

// ---- plan and compute --------------------------------------------------------------------------

TEST_F(CpuApi, PlansAndComputesWithoutAStream) {
    Tensor* x = ggml_set_f32(context_.f32({64, 64}), 3);
    Tensor* y = ggml_add(context, x, x);
    Graph* graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, y);
    ggml_cplan plan = ggml_graph_plan(graph, 0, nullptr);
    EXPECT_GE(plan.n_threads, 1);
    EXPECT_LE(plan.n_threads, GGML_DEFAULT_N_THREADS);
    EXPECT_EQ(plan.work_data, nullptr);
    std::vector<std::uint8_t> work(plan.work_size);
    plan.work_data = work.data();
    EXPECT_EQ(ggml_graph_compute(graph, &plan), GGML_STATUS_SUCCESS);
    EXPECT_EQ(ggml_get_f32_1d(y, 4095), 6);
    ggml_set_f32(y, 0);
    EXPECT_EQ(ggml_graph_compute_with_ctx(context, graph, 3), GGML_STATUS_SUCCESS);
    EXPECT_EQ(ggml_get_f32_1d(y, 4095), 6);
}

TEST_F(CpuApi, AbortsWithTheCallbackOfThePlan) {
    Tensor* x = ggml_set_f32(context_.f32({4}), 3);
    Graph* graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_add(context, x, x));
    ggml_cplan plan = ggml_graph_plan(graph, 1, nullptr);
    int asked = 0;
    plan.abort_callback = [](void* asked) { return ++*static_cast<int*>(asked) == 1; };
    plan.abort_callback_data = &asked;
    EXPECT_EQ(ggml_graph_compute(graph, &plan), GGML_STATUS_ABORTED) << "also after the last node";
    EXPECT_EQ(asked, 1);
}

TEST_F(CpuApi, RefusesPlansThatCannotBe) {
    Graph* graph = ggml_new_graph(context);
    EXPECT_EQ(ggml_graph_compute(graph, nullptr), GGML_STATUS_FAILED);
    EXPECT_STREQ(heddle_last_error(), "ggml_graph_compute: the plan is NULL");
    ggml_cplan plan{};
    EXPECT_EQ(ggml_graph_compute(graph, &plan), GGML_STATUS_FAILED);
    EXPECT_STREQ(heddle_last_error(), "a plan for 0 threads");
}

TEST_F(CpuApi, UsesNoMoreThreadsThanThePoolHas) {
    Tensor* x = ggml_set_f32(context_.f32({512, 512}), 1);
    Tensor* y = ggml_add(context, x, x);
    Graph* graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, y);
    ggml_threadpool_params params = ggml_threadpool_params_default(2);
    ggml_threadpool* pool = ggml_threadpool_new(&params);
    EXPECT_EQ(ggml_threadpool_get_n_threads(pool), 2);
    for (const int threads : {1, 8, 1, 2, 7}) {
        ggml_cplan plan = ggml_graph_plan(graph, threads, pool);
        plan.n_threads = threads;
        EXPECT_EQ(ggml_graph_compute(graph, &plan), GGML_STATUS_SUCCESS);
        EXPECT_EQ(ggml_get_f32_1d(y, 512 * 512 - 1), 2);
    }
    ggml_threadpool_free(pool);
    ggml_threadpool_free(nullptr);
}

// ---- functions of the caller's -----------------------------------------------------------------

struct Calls {
    std::atomic<int> count{0};
    std::atomic<int> highest{-1};
    std::atomic<int> tasks{0};
};

void note_call(ggml_tensor*, const ggml_tensor*, int index, int tasks, void* data) {
    auto& calls = *static_cast<Calls*>(data);
    ++calls.count;
    int highest = calls.highest.load();
    while (highest < index && !calls.highest.compare_exchange_weak(highest, index)) {
    }
    calls.tasks = tasks;
}

TEST_F(CpuApi, CallersFunctionsAreCalledOncePerTask) {
    Tensor* x = ggml_set_f32(context_.f32({2}), 1);
    for (const auto& [asked, expected] :
         {std::pair{1, 1}, {2, 2}, {4, 4}, {9, 4}, {GGML_N_TASKS_MAX, 4}}) {
        Calls calls;
        Graph* graph = ggml_new_graph(context);
        ggml_build_forward_expand(graph, ggml_map_custom1(context, x, note_call, asked, &calls));
        EXPECT_EQ(ggml_graph_compute_with_ctx(context, graph, 4), GGML_STATUS_SUCCESS);
        EXPECT_EQ(calls.count.load(), expected) << asked << " tasks";
        EXPECT_EQ(calls.highest.load(), expected - 1);
        EXPECT_EQ(calls.tasks.load(), expected);
    }
}

}  // namespace
}  // namespace heddle
