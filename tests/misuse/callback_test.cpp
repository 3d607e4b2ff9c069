// Functions of the caller that throw, and throw what is no std::exception at that.

#include <cstdio>

#include "ggml-backend-impl.h"
#include "ggml-opt.h"
#include "gguf.h"
#include "tests/misuse/test_support.hpp"

namespace heddle::misuse {
namespace {

using testing::HasSubstr;

constexpr const char* kWords = "an exception that is no std::exception was thrown";

class ThrowingCallback : public Misuse {
protected:
    Stream cpu{ggml_backend_cpu_init()};
};

TEST_F(ThrowingCallback, OfASchedulerEndsTheRunAndTheNextOneWorks) {
    ggml_tensor* x = input();
    ggml_set_input(x);
    ggml_tensor* y = ggml_scale(context.get(), x, 2);
    ggml_set_name(y, "y");
    ggml_set_output(y);
    ggml_cgraph* graph = graph_of(y);
    ggml_backend_t streams[] = {cpu.get()};
    Scheduler scheduler(ggml_backend_sched_new(streams, nullptr, 1, 64, false, false));
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(scheduler.get(), graph));
    for (const bool thrown_when_asked : {true, false}) {
        bool throws_if = thrown_when_asked;
        const auto observer = [](ggml_tensor*, bool ask, void* data) {
            if (ask == *static_cast<bool*>(data)) throw 1;
            return true;
        };
        ggml_backend_sched_set_eval_callback(scheduler.get(), observer, &throws_if);
        EXPECT_EQ(ggml_backend_sched_graph_compute(scheduler.get(), graph), GGML_STATUS_FAILED);
        EXPECT_THAT(heddle_last_error(), HasSubstr(kWords));
        EXPECT_THAT(heddle_last_error(), HasSubstr("'y'"));
    }
    ggml_backend_sched_set_eval_callback(scheduler.get(), nullptr, nullptr);
    std::vector<float> values(64, 3.0F);
    ggml_backend_tensor_set(x, values.data(), 0, 64 * sizeof(float));
    ASSERT_EQ(ggml_backend_sched_graph_compute(scheduler.get(), graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(y, values.data(), 0, 64 * sizeof(float));
    EXPECT_EQ(values, std::vector<float>(64, 6.0F));
}

TEST_F(ThrowingCallback, OfAGgufReaderGivesNoFile) {
    const auto reader = [](void*, void*, std::uint64_t, std::size_t) -> std::size_t { throw 1; };
    EXPECT_EQ(
        gguf_init_from_callback(reader, nullptr, 4096, 1 << 20, {.no_alloc = true, .ctx = nullptr}),
        nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr(kWords));
}

TEST_F(ThrowingCallback, OfACustomOpFailsTheGraphOnAnyThread) {
    const auto throws = [](ggml_tensor*, const ggml_tensor*, int index, int count, void*) {
        if (index == count - 1) throw 1;
    };
    ggml_backend_cpu_set_n_threads(cpu.get(), 4);
    ggml_tensor* x = input();
    for (const int tasks : {1, 4}) {
        ggml_tensor* y = ggml_map_custom1(context.get(), x, throws, tasks, nullptr);
        ggml_cgraph* graph = graph_of(y);
        const Buffer memory = allocate(cpu.get());
        EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), graph), GGML_STATUS_FAILED);
        EXPECT_THAT(heddle_last_error(), HasSubstr(kWords));
        ggml_reset(context.get());
        x = input();
    }
}

TEST_F(ThrowingCallback, ThatDecidesWhetherToGoOnFailsTheGraph) {
    ggml_cgraph* graph = graph_of(ggml_scale(context.get(), input(), 2));
    const Buffer memory = allocate(cpu.get());
    ggml_backend_cpu_set_abort_callback(
        cpu.get(), [](void*) -> bool { throw 1; }, nullptr);
    EXPECT_NE(ggml_backend_graph_compute(cpu.get(), graph), GGML_STATUS_SUCCESS);
    EXPECT_THAT(heddle_last_error(), HasSubstr(kWords));
    ggml_backend_cpu_set_abort_callback(cpu.get(), nullptr, nullptr);
    EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), graph), GGML_STATUS_SUCCESS);
}

TEST_F(ThrowingCallback, OfTheLogLosesTheMessageOnly) {
    ggml_log_set([](ggml_log_level, const char*, void*) { throw 1; }, nullptr);
    EXPECT_EQ(gguf_init_from_file("/no/such/file", {.no_alloc = true, .ctx = nullptr}), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("/no/such/file"));
    ggml_graph_print(graph_of(input()));
}

TEST_F(ThrowingCallback, OfAComparisonEndsIt) {
    ggml_cgraph* graph = graph_of(ggml_scale(context.get(), input(), 2));
    const Buffer memory = allocate(cpu.get());
    const Stream other(ggml_backend_cpu_init());
    const auto throws = [](int, ggml_tensor*, ggml_tensor*, void*) -> bool { throw 1; };
    EXPECT_FALSE(ggml_backend_compare_graph_backend(cpu.get(), other.get(), graph, throws, nullptr,
                                                    nullptr, 0));
    EXPECT_THAT(heddle_last_error(), HasSubstr(kWords));
}

/// A dataset of four points, and the smallest model there is over it.
class ThrowingTrainer : public ThrowingCallback {
protected:
    ThrowingTrainer() {
        ggml_backend_t streams[] = {cpu.get()};
        scheduler.reset(ggml_backend_sched_new(streams, nullptr, 1, 64, false, true));
        weights = ggml_new_tensor_2d(fixed.get(), GGML_TYPE_F32, 2, 1);
        ggml_set_param(weights);
        inputs = ggml_new_tensor_2d(fixed.get(), GGML_TYPE_F32, 2, 2);
        ggml_set_input(inputs);
        memory.reset(ggml_backend_alloc_ctx_tensors(fixed.get(), cpu.get()));
        outputs = ggml_mul_mat(context.get(), weights, inputs);
        ggml_set_output(outputs);
        dataset = ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, 2, 1, 4, 2);
        for (ggml_tensor* filled :
             {weights, ggml_opt_dataset_data(dataset), ggml_opt_dataset_labels(dataset)}) {
            ggml_set_f32(filled, 0.5F);
        }
    }
    ~ThrowingTrainer() override { ggml_opt_dataset_free(dataset); }

    void fit(ggml_opt_get_optimizer_params parameters) {
        ggml_opt_fit(scheduler.get(), context.get(), inputs, outputs, dataset,
                     GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR, GGML_OPT_OPTIMIZER_TYPE_ADAMW,
                     parameters, 1, 2, 0.0F, true);
    }

    Context fixed{ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr, .no_alloc = true})};
    Scheduler scheduler;
    Buffer memory;
    ggml_tensor *weights, *inputs, *outputs;
    ggml_opt_dataset_t dataset;
};

TEST_F(ThrowingTrainer, OfOptimiserParametersEndsTheFit) {
    fit([](void*) -> ggml_opt_optimizer_params { throw 1; });
    EXPECT_THAT(heddle_last_error(), HasSubstr(kWords));
}

TEST_F(ThrowingTrainer, AtTheEndOfABatchEndsTheEpoch) {
    ggml_opt_params params =
        ggml_opt_default_params(scheduler.get(), GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR);
    params.ctx_compute = context.get();
    params.inputs = inputs;
    params.outputs = outputs;
    ggml_opt_context_t training = ggml_opt_init(params);
    ASSERT_NE(training, nullptr) << heddle_last_error();
    ggml_opt_epoch(
        training, dataset, nullptr, nullptr, 4,
        [](bool, ggml_opt_context_t, ggml_opt_dataset_t, ggml_opt_result_t, std::int64_t,
           std::int64_t, std::int64_t) { throw 1; },
        nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr(kWords));
    ggml_opt_free(training);
}

/// Tables of a device all of whose functions throw.
struct ThrowingDevice {
    ThrowingDevice() {
        device.iface.get_name = [](ggml_backend_dev_t) -> const char* { throw 1; };
        device.iface.get_description = [](ggml_backend_dev_t) -> const char* { throw 1; };
        device.iface.get_memory = [](ggml_backend_dev_t, std::size_t*, std::size_t*) { throw 1; };
        device.iface.get_type = [](ggml_backend_dev_t) -> enum ggml_backend_dev_type { throw 1; };
        device.iface.get_props = [](ggml_backend_dev_t, ggml_backend_dev_props*) { throw 1; };
        device.iface.init_backend = [](ggml_backend_dev_t, const char*) -> ggml_backend_t {
            throw 1;
        };
        device.iface.get_buffer_type = [](ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
            throw 1;
        };
        device.iface.supports_op = [](ggml_backend_dev_t, const ggml_tensor*) -> bool { throw 1; };
        device.iface.event_new = [](ggml_backend_dev_t) -> ggml_backend_event_t { throw 1; };
        device.iface.event_free = [](ggml_backend_dev_t, ggml_backend_event_t) { throw 1; };
        stream.device = &device;
        stream.iface.get_name = [](ggml_backend_t) -> const char* { throw 1; };
        stream.iface.free = [](ggml_backend_t) { throw 1; };
        stream.iface.synchronize = [](ggml_backend_t) { throw 1; };
        stream.iface.graph_compute = [](ggml_backend_t, ggml_cgraph*) -> ggml_status { throw 1; };
        type.device = &device;
        type.iface.get_name = [](ggml_backend_buffer_type_t) -> const char* { throw 1; };
        type.iface.get_alignment = [](ggml_backend_buffer_type_t) -> std::size_t { throw 1; };
        event.device = &device;
    }
    ggml_backend_device device{};
    ggml_backend stream{};
    ggml_backend_buffer_type type{};
    ggml_backend_event event{};
};

TEST_F(Misuse, TablesThatThrowAgainstTheirContractAreToldOf) {
    ThrowingDevice thrower;
    const auto told = [](const auto& call) {
        heddle_clear_error();
        call();
        return std::string(heddle_last_error());
    };
    ggml_backend_dev_t device = &thrower.device;
    ggml_backend_t stream = &thrower.stream;
    ggml_tensor* x = input();
    ggml_cgraph* graph = graph_of(ggml_scale(context.get(), x, 2));
    EXPECT_THAT(told([&] { ggml_backend_dev_name(device); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_dev_description(device); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_dev_type(device); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_dev_init(device, nullptr); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_dev_buffer_type(device); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_dev_supports_op(device, x); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_name(stream); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_synchronize(stream); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_graph_compute(stream, graph); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_buft_name(&thrower.type); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_buft_get_alignment(&thrower.type); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_event_new(device); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_event_free(&thrower.event); }), HasSubstr(kWords));
    EXPECT_THAT(told([&] { ggml_backend_free(stream); }), HasSubstr(kWords));
    std::size_t free = 0, total = 0;
    EXPECT_THAT(told([&] { ggml_backend_dev_memory(device, &free, &total); }), HasSubstr(kWords));
    ggml_backend_dev_props props;
    EXPECT_THAT(told([&] { ggml_backend_dev_get_props(device, &props); }), HasSubstr(kWords));
}

TEST_F(Misuse, AMemoryThatThrowsWhenItIsReleasedIsGoneAllTheSame) {
    ggml_backend_buffer_i table{};
    table.free_buffer = [](ggml_backend_buffer_t) { throw 1; };
    ggml_backend_buffer_free(
        ggml_backend_buffer_init(ggml_backend_cpu_buffer_type(), table, nullptr, 64));
    EXPECT_THAT(heddle_last_error(), HasSubstr(kWords));
}

}  // namespace
}  // namespace heddle::misuse
