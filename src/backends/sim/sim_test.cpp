// What a simulated device is and does, but for its clock and its faults.

#include "backends/sim/test_support.hpp"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "ggml/ops.h"
#include "plugin/ggml-backend-impl.h"

namespace heddle::sim {
namespace {

class SimTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(configured_) << heddle_last_error();
        heddle_clear_error();
    }

    const bool configured_ = configure("devices=2,mem=64M,maxbuf=16M,pinned=1,ops=all,-ROPE");
    ggml_backend_buffer_type_t type_ = ggml_backend_dev_buffer_type(device(0));
    ggml_backend_buffer_type_t other_type_ = ggml_backend_dev_buffer_type(device(1));
    ggml_backend_buffer_type_t host_type_ = ggml_backend_dev_host_buffer_type(device(0));
    Stream stream_{ggml_backend_dev_init(device(0), nullptr)};
    Stream other_{ggml_backend_dev_init(device(1), nullptr)};
    Bench bench_;
};

TEST_F(SimTest, LooksLikeAnAccelerator) {
    EXPECT_EQ(ggml_backend_reg_dev_count(ggml_backend_sim_reg()), 2u);
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device(1), &props);
    EXPECT_STREQ(props.name, "SIM1");
    EXPECT_STREQ(props.device_id, "51d0:01:00.0");
    EXPECT_EQ(props.type, GGML_BACKEND_DEVICE_TYPE_GPU);
    EXPECT_EQ(props.memory_total, std::size_t{64} << 20);
    EXPECT_TRUE(props.caps.async);
    EXPECT_TRUE(props.caps.events);
    EXPECT_TRUE(props.caps.host_buffer);
    EXPECT_FALSE(props.caps.buffer_from_host_ptr);
    EXPECT_FALSE(ggml_backend_buft_is_host(type_));
    EXPECT_TRUE(ggml_backend_buft_is_host(host_type_));
    EXPECT_STREQ(ggml_backend_buft_name(host_type_), "SIM0_Host");
    EXPECT_TRUE(ggml_backend_dev_supports_buft(device(0), type_));
    EXPECT_TRUE(ggml_backend_dev_supports_buft(device(0), host_type_));
    EXPECT_FALSE(ggml_backend_dev_supports_buft(device(0), other_type_));
    EXPECT_FALSE(ggml_backend_dev_supports_buft(device(0), ggml_backend_cpu_buffer_type()));
}

TEST_F(SimTest, HasNoHostMemoryUnlessAskedFor) {
    ASSERT_TRUE(configure("mem=1M"));
    EXPECT_EQ(ggml_backend_dev_host_buffer_type(device()), nullptr);
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device(), &props);
    EXPECT_FALSE(props.caps.host_buffer);
}

TEST_F(SimTest, AddressesAreNotThoseOfTheBytes) {
    Tensor* x = bench_.vector(100, type_);
    Tensor* y = bench_.vector(100, type_);
    EXPECT_GT(reinterpret_cast<std::uintptr_t>(x->data), std::uintptr_t{1} << 57);
    EXPECT_NE(x->data, y->data);
    const std::vector<float> values = numbers(100);
    write(x, values);
    EXPECT_EQ(read(x), values);
    ggml_backend_tensor_memset(x, 0, 8, 4);
    EXPECT_EQ(read(x)[2], 0);
    EXPECT_EQ(read(x)[3], values[3]);
}

TEST_F(SimTest, MovesRowsToAndFro) {
    Tensor* x = bench_.matrix(8, 4, type_);
    ggml_backend_buffer_clear(x->buffer, 0);
    const std::vector<float> values = numbers(8);  // two floats for each of four rows
    ggml_backend_tensor_set_2d(x, values.data(), 4, 8, 4, 32, 8);
    const std::vector<float> seen = read(x);
    EXPECT_EQ(seen[1], values[0]);
    EXPECT_EQ(seen[2], values[1]);
    EXPECT_EQ(seen[25], values[6]);
    EXPECT_EQ(seen[3], 0);
    std::vector<float> back(8);
    ggml_backend_tensor_get_2d_async(stream_.get(), x, back.data(), 4, 8, 4, 32, 8);
    ggml_backend_synchronize(stream_.get());
    EXPECT_EQ(back, values);
}

TEST_F(SimTest, CountsItsMemory) {
    const auto free_memory = [] {
        std::size_t free = 0, total = 0;
        ggml_backend_dev_memory(device(), &free, &total);
        return free;
    };
    const std::size_t all = free_memory();
    std::vector<Buffer> buffers;
    for (int i = 0; i < 4; ++i) {
        buffers.emplace_back(ggml_backend_buft_alloc_buffer(type_, 16 << 20));
        ASSERT_NE(buffers.back(), nullptr);
    }
    EXPECT_EQ(free_memory(), 0u);
    EXPECT_EQ(type_->iface.alloc_buffer(type_, 1), nullptr);
    EXPECT_THAT(heddle_last_error(),
                testing::HasSubstr("no room for 1 bytes: 0 of 67108864 are free"));
    buffers.clear();
    EXPECT_EQ(free_memory(), all);
    EXPECT_EQ(ggml_backend_buft_get_max_size(type_), std::size_t{16} << 20);
    EXPECT_EQ(type_->iface.alloc_buffer(type_, (16 << 20) + 1), nullptr);
    EXPECT_THAT(heddle_last_error(),
                testing::HasSubstr("more than the largest buffer has, 16777216"));
}

TEST_F(SimTest, SupportsTheOpsItWasGivenOnOperandsItCanReach) {
    ggml_context* context = bench_.context();
    Tensor* x = ggml_new_tensor_3d(context, GGML_TYPE_F32, 64, 2, 3);
    Tensor* positions = ggml_new_tensor_1d(context, GGML_TYPE_I32, 3);
    EXPECT_TRUE(ggml_backend_dev_supports_op(device(), ggml_mul_mat(context, x, x)));
    EXPECT_FALSE(ggml_backend_dev_supports_op(device(), ggml_rope(context, x, positions, 64, 0)));
    EXPECT_TRUE(ggml_backend_dev_supports_op(device(), ggml_transpose(context, x)));
    EXPECT_FALSE(ggml_backend_dev_supports_op(
        device(),
        ggml_map_custom1(
            context, x, [](ggml_tensor*, const ggml_tensor*, int, int, void*) {}, 1, nullptr)));
    const Buffer elsewhere(ggml_backend_buft_alloc_buffer(other_type_, 0));
    x->buffer = elsewhere.get();
    EXPECT_FALSE(ggml_backend_dev_supports_op(device(0), ggml_sqr(context, x)));
    EXPECT_TRUE(ggml_backend_dev_supports_op(device(1), ggml_sqr(context, x)));
}

TEST_F(SimTest, WantsLargeBatches) {
    ggml_context* context = bench_.context();
    Tensor* weights = ggml_new_tensor_2d(context, GGML_TYPE_F32, 64, 64);
    Tensor* few = ggml_new_tensor_2d(context, GGML_TYPE_F32, 64, 31);
    Tensor* many = ggml_new_tensor_2d(context, GGML_TYPE_F32, 64, 32);
    Tensor* rows = ggml_new_tensor_1d(context, GGML_TYPE_I32, 64);
    EXPECT_FALSE(ggml_backend_dev_offload_op(device(), ggml_mul_mat(context, weights, few)));
    EXPECT_TRUE(ggml_backend_dev_offload_op(device(), ggml_mul_mat(context, weights, many)));
    EXPECT_FALSE(ggml_backend_dev_offload_op(device(), ggml_get_rows(context, weights, rows)));
}

TEST_F(SimTest, ComputesExactlyWhatTheCpuComputes) {
    const std::vector<float> a = numbers(64 * 48, 1), b = numbers(64 * 40, 2);
    const auto compute = [&](ggml_backend_buffer_type_t type, ggml_backend_t stream) {
        Bench bench;
        ggml_context* context = bench.context();
        Tensor *x = bench.matrix(64, 48, type), *y = bench.matrix(64, 40, type);
        Tensor* product = bench.place(ggml_mul_mat(context, x, y), type);
        Tensor* soft = bench.place(ggml_soft_max(context, product), type);
        Tensor* view = ggml_view_1d(context, soft, 100, 40);
        ggml_backend_view_init(view);
        Tensor* last = bench.place(ggml_sqr(context, view), type);
        write(x, a);
        write(y, b);
        EXPECT_EQ(ggml_backend_graph_compute(stream, bench.graph({last})), GGML_STATUS_SUCCESS)
            << heddle_last_error();
        return read(last);
    };
    const Stream cpu(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(cpu.get(), 1);
    const std::vector<float> expected = compute(ggml_backend_cpu_buffer_type(), cpu.get());
    EXPECT_EQ(compute(type_, stream_.get()), expected);
    EXPECT_EQ(compute(host_type_, stream_.get()), expected) << "memory of the host";
}

TEST_F(SimTest, SaysWhyItCannotComputeANode) {
    ggml_context* context = bench_.context();
    Tensor* x = bench_.vector(10, ggml_backend_cpu_buffer_type(), "far");
    Tensor* y = bench_.place(ggml_sqr(context, x), type_);
    EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), bench_.graph({y})), GGML_STATUS_FAILED);
    EXPECT_THAT(heddle_last_error(), testing::HasSubstr("'far'"));
    EXPECT_THAT(heddle_last_error(), testing::HasSubstr("memory of type CPU"));
}

TEST_F(SimTest, ANodeBeforeWhatItReadsIsRefused) {
    ggml_context* context = bench_.context();
    Tensor* x = bench_.vector(10, type_);
    Tensor* y = bench_.place(ggml_set_name(ggml_sqr(context, x), "y"), type_);
    ggml_cgraph* graph = bench_.graph({y, bench_.place(ggml_sqrt(context, y), type_)});
    std::swap(graph->nodes[0], graph->nodes[1]);
    EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), graph), GGML_STATUS_FAILED);
    EXPECT_THAT(
        heddle_last_error(),
        testing::HasSubstr("reads the result of 'y' f32[10,1,1,1], which is computed later"));
    std::swap(graph->nodes[0], graph->nodes[1]);
    EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), graph), GGML_STATUS_SUCCESS)
        << heddle_last_error();
}

TEST_F(SimTest, DataThatCannotBeComputedWithFailsTheNextGraph) {
    ggml_context* context = bench_.context();
    Tensor* x = bench_.matrix(8, 4, type_);
    Tensor* rows = bench_.place(ggml_new_tensor_1d(context, GGML_TYPE_I32, 1), type_);
    Tensor* y = bench_.place(ggml_get_rows(context, x, rows), type_);
    ggml_backend_buffer_clear(x->buffer, 0);
    const std::int32_t beyond = 1000, inside = 1;
    ggml_backend_tensor_set(rows, &beyond, 0, sizeof beyond);
    ggml_cgraph* graph = bench_.graph({y});
    EXPECT_EQ(ggml_backend_graph_compute_async(stream_.get(), graph), GGML_STATUS_SUCCESS);
    heddle_clear_error();
    ggml_backend_synchronize(stream_.get());
    EXPECT_THAT(heddle_last_error(), testing::HasSubstr("GET_ROWS")) << "told when waited for";
    ggml_backend_tensor_set(rows, &inside, 0, sizeof inside);
    EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), graph), GGML_STATUS_FAILED);
    EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), graph), GGML_STATUS_SUCCESS);
}

TEST_F(SimTest, WaitingForTheGraphGivesItsStatus) {
    Tensor* x = bench_.matrix(8, 4, type_);
    Tensor* rows = bench_.place(ggml_new_tensor_1d(bench_.context(), GGML_TYPE_I32, 1), type_);
    Tensor* y = bench_.place(ggml_get_rows(bench_.context(), x, rows), type_);
    ggml_backend_buffer_clear(x->buffer, 0);
    const std::int32_t beyond = 1000;
    ggml_backend_tensor_set(rows, &beyond, 0, sizeof beyond);
    EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), bench_.graph({y})), GGML_STATUS_FAILED);
    EXPECT_THAT(heddle_last_error(), testing::HasSubstr("GET_ROWS"));
}

TEST_F(SimTest, WorkOfAStreamIsDoneInOrder) {
    ggml_context* context = bench_.context();
    Tensor* x = bench_.vector(5000, type_);
    Tensor* y = bench_.place(ggml_sqr(context, x), type_);
    ggml_cgraph* graph = bench_.graph({y});
    std::vector<std::vector<float>> inputs, outputs(20, std::vector<float>(5000));
    for (unsigned i = 0; i < 20; ++i) inputs.push_back(numbers(5000, i));
    for (std::size_t i = 0; i < 20; ++i) {
        ggml_backend_tensor_set_async(stream_.get(), x, inputs[i].data(), 0, 20000);
        ASSERT_EQ(ggml_backend_graph_compute_async(stream_.get(), graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get_async(stream_.get(), y, outputs[i].data(), 0, 20000);
    }
    ggml_backend_synchronize(stream_.get());
    for (std::size_t i = 0; i < 20; ++i) {
        for (std::size_t k = 0; k < 5000; k += 97) {
            ASSERT_EQ(outputs[i][k], inputs[i][k] * inputs[i][k]);
        }
    }
}

TEST_F(SimTest, CopiesBetweenStreamsKeepTheOrderOfBoth) {
    Tensor *x = bench_.vector(5000, type_), *y = bench_.vector(5000, other_type_);
    Tensor* doubled = bench_.place(ggml_scale(bench_.context(), y, 2), other_type_);
    ggml_cgraph* graph = bench_.graph({doubled});
    std::vector<std::vector<float>> inputs, outputs(20, std::vector<float>(5000));
    for (unsigned i = 0; i < 20; ++i) inputs.push_back(numbers(5000, i));
    for (std::size_t i = 0; i < 20; ++i) {
        // Overwrites x while the copy of the round before may still be under way.
        ggml_backend_tensor_set_async(stream_.get(), x, inputs[i].data(), 0, 20000);
        ggml_backend_tensor_copy_async(stream_.get(), other_.get(), x, y);
        ASSERT_EQ(ggml_backend_graph_compute_async(other_.get(), graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get_async(other_.get(), doubled, outputs[i].data(), 0, 20000);
    }
    ggml_backend_synchronize(other_.get());
    for (std::size_t i = 0; i < 20; ++i) {
        for (std::size_t k = 0; k < 5000; k += 97) ASSERT_EQ(outputs[i][k], 2 * inputs[i][k]);
    }
}

TEST_F(SimTest, TakesHostMemoryItCanReachAsItIsNow) {
    const Stream cpu(ggml_backend_cpu_init());
    Tensor *host = bench_.vector(1000, host_type_), *x = bench_.vector(1000, type_);
    const auto copy = stream_->iface.cpy_tensor_async;
    const std::vector<float> values = numbers(1000);
    write(host, values);
    ASSERT_TRUE(copy(cpu.get(), stream_.get(), host, x));
    write(host, numbers(1000, 7));
    ggml_backend_synchronize(stream_.get());
    EXPECT_EQ(read(x), values);

    Tensor* plain = bench_.vector(1000, ggml_backend_cpu_buffer_type());
    EXPECT_FALSE(copy(cpu.get(), stream_.get(), plain, x)) << "ordinary memory";
    ASSERT_TRUE(copy(stream_.get(), stream_.get(), x, host)) << "and back";
    ggml_backend_synchronize(stream_.get());
    EXPECT_EQ(read(host), values);
}

TEST_F(SimTest, BlockingCopiesBetweenDevices) {
    Tensor *x = bench_.vector(1000, type_), *y = bench_.vector(1000, other_type_);
    const std::vector<float> values = numbers(1000);
    write(x, values);
    ggml_backend_tensor_copy(x, y);
    EXPECT_EQ(read(y), values);
}

TEST_F(SimTest, StreamsWaitForEventsOfEachOther) {
    Tensor* x = bench_.vector(100000, type_);
    const Stream second(ggml_backend_dev_init(device(0), nullptr));
    const Event event(ggml_backend_event_new(device(0)));
    for (unsigned round = 0; round < 10; ++round) {
        const std::vector<float> values = numbers(100000, round);
        std::vector<float> seen(values.size());
        ggml_backend_tensor_set_async(stream_.get(), x, values.data(), 0, 400000);
        ggml_backend_event_record(event.get(), stream_.get());
        ggml_backend_event_wait(second.get(), event.get());
        ggml_backend_tensor_get_async(second.get(), x, seen.data(), 0, 400000);
        ggml_backend_synchronize(second.get());
        ASSERT_EQ(seen, values);
    }
}

TEST_F(SimTest, AnEventThatWasNeverRecordedIsComplete) {
    const Event event(ggml_backend_event_new(device(0)));
    ggml_backend_event_synchronize(event.get());
    ggml_backend_event_wait(stream_.get(), event.get());
    ggml_backend_synchronize(stream_.get());
    EXPECT_EQ(clock_of(nullptr), 0);
}

TEST_F(SimTest, BadParametersChangeNothing) {
    const ggml_backend_dev_t before = device(0);
    EXPECT_FALSE(configure("mem=lots"));
    EXPECT_THAT(heddle_last_error(),
                testing::HasSubstr("mem: 'lots' is not a number of bytes such as 4G"));
    EXPECT_EQ(device(0), before);
}

TEST_F(SimTest, DevicesFromBeforeStayUsable) {
    Tensor* x = bench_.vector(100, type_);
    ASSERT_TRUE(configure("devices=1"));
    EXPECT_EQ(ggml_backend_reg_dev_count(ggml_backend_sim_reg()), 1u);
    EXPECT_FALSE(ggml_backend_dev_supports_buft(device(), type_));
    const std::vector<float> values = numbers(100);
    write(x, values);
    EXPECT_EQ(read(x), values);
}

}  // namespace
}  // namespace heddle::sim
