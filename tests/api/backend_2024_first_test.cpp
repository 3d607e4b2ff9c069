// The first of the earlier generations: a buffer belongs to a stream.

#include <gtest/gtest.h>

#include "sched/test_support.hpp"

// Last, as its page says: from here on names mean what they meant then.
#define HEDDLE_2024_GENERATION 1
#include "heddle/ggml-backend-2024.h"

extern "C" const char* old_client_of_generation_1(ggml_backend_t device, ggml_backend_t cpu);

namespace heddle::sched {
namespace {

class Backend2023 : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(sim::configure("devices=1"));
        device = ggml_backend_dev_init(sim::device(), nullptr);
        cpu = ggml_backend_cpu_init();
    }
    void TearDown() override {
        ggml_backend_free(device);
        ggml_backend_free(cpu);
    }

    ggml_backend_t device = nullptr, cpu = nullptr;
    sim::ContextOwner context{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
};

TEST_F(Backend2023, TensorsKnowTheStreamOfTheirBuffer) {
    Tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 16);
    EXPECT_EQ(ggml_get_backend(x), nullptr);
    ggml_backend_buffer_t const buffer = ggml_backend_alloc_buffer(device, 256);
    ggml_backend_tensor_alloc(buffer, x, ggml_backend_buffer_get_base(buffer));
    EXPECT_EQ(ggml_get_backend(x), device);
    EXPECT_EQ(ggml_get_backend(ggml_view_1d(context.get(), x, 4, 0)), device);
    ggml_backend_buffer_free_tensor(buffer, x);
    ggml_backend_buffer_free(buffer);
}

TEST_F(Backend2023, WholeContextsBelongToAStreamToo) {
    Tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 16);
    ggml_backend_buffer_t const buffer = ggml_backend_alloc_ctx_tensors(context.get(), cpu);
    EXPECT_EQ(ggml_get_backend(x), cpu);
    ggml_backend_buffer_free(buffer);
}

TEST_F(Backend2023, ReleasedBuffersAndStreamsAreForgotten) {
    const auto notes = [] {
        int count = 0;
        for (const heddle_2024_owner* note = heddle_2024_owners; note; note = note->next) ++count;
        return count;
    };
    const int before = notes();
    ggml_backend_t const third = ggml_backend_cpu_init();
    ggml_backend_buffer_t const a = ggml_backend_alloc_buffer(cpu, 64);
    ggml_backend_buffer_t const b = ggml_backend_alloc_buffer(third, 64);
    ggml_backend_buffer_t const c = ggml_backend_alloc_buffer(device, 64);
    EXPECT_EQ(notes(), before + 3);
    ggml_backend_buffer_free(a);
    ggml_backend_free(third);
    EXPECT_EQ(notes(), before + 1);
    ggml_backend_buffer_free(b);
    ggml_backend_buffer_free(c);
    EXPECT_EQ(notes(), before);
    ggml_backend_buffer_free(nullptr);
    ggml_backend_free(nullptr);
}

TEST_F(Backend2023, BuffersThatCannotBeAreNull) {
    ASSERT_TRUE(sim::set_faults(sim::device(), "alloc=1"));
    EXPECT_EQ(ggml_backend_alloc_buffer(device, 64), nullptr);
}

TEST_F(Backend2023, GivenMemoryTakesTheProcessorsStream) {
    alignas(64) float memory[16] = {};
    Tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 16);
    ggml_backend_buffer_t const buffer =
        ggml_backend_cpu_buffer_from_ptr(cpu, memory, sizeof memory);
    ggml_backend_tensor_alloc(buffer, x, memory);
    EXPECT_EQ(ggml_get_backend(x), cpu);
    sim::write(x, Values(16, 5));
    EXPECT_EQ(memory[15], 5);
    ggml_backend_buffer_free(buffer);
}

TEST_F(Backend2023, DataGoesInTheOrderOfTheTensorsStream) {
    for (const bool is_known : {true, false}) {
        Tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 16);
        ggml_backend_buffer_t const buffer =
            is_known
                ? ggml_backend_alloc_buffer(device, 256)
                : ggml_backend_buft_alloc_buffer(ggml_backend_get_default_buffer_type(device), 256);
        ggml_backend_tensor_alloc(buffer, x, ggml_backend_buffer_get_base(buffer));
        const Values in = sim::numbers(16, 4);
        Values out(16);
        ggml_backend_tensor_set_async(x, in.data(), 0, 64);
        ggml_backend_tensor_get_async(x, out.data(), 0, 64);
        ggml_backend_synchronize(device);
        EXPECT_EQ(out, in);
        ggml_backend_buffer_free(buffer);
    }
    // With a stream the copies were queued on it, without one they blocked the host.
    const std::vector<heddle_sim_item> trace = sim::trace_of(sim::device());
    ASSERT_EQ(trace.size(), 4u);
    EXPECT_GT(trace[0].stream, 0);
    EXPECT_GT(trace[1].stream, 0);
    EXPECT_EQ(trace[2].stream, 0);
    EXPECT_EQ(trace[3].stream, 0);
}

TEST_F(Backend2023, SchedulersAreMadeOfStreamsAlone) {
    ggml_backend_t streams[] = {device, cpu};
    ggml_backend_sched_t const sched = ggml_backend_sched_new(streams, 2);
    ASSERT_NE(sched, nullptr) << heddle_last_error();
    Weights weights;
    const Values values = sim::numbers(kWidth * kWidth, 1);
    Tensor* const w = weights.add("w", ggml_backend_get_default_buffer_type(device), values);
    Sketch net;
    Tensor* const x = net.input();
    Tensor* const y = net.add("y", ggml_mul_mat(net.context(), w, x));
    ggml_backend_sched_init_measure(sched, net.graph());
    ggml_backend_sched_reset(sched);
    ggml_tallocr_alloc(ggml_backend_sched_get_tallocr(sched, device), x);
    const Values in = sim::numbers(kWidth * kColumns, 2);
    sim::write(x, in);
    ggml_backend_sched_graph_compute(sched, net.graph());
    expect_near(sim::read(y), product(values, in));
    EXPECT_EQ(ggml_backend_sched_get_n_splits(sched), 1);
    ggml_backend_sched_free(sched);
}

TEST_F(Backend2023, AProgramInCRuns) { EXPECT_STREQ(old_client_of_generation_1(device, cpu), ""); }

}  // namespace
}  // namespace heddle::sched
