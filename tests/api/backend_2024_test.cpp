// The second of the earlier generations: buffer types, the first registry, a scheduler that
// measures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "sched/test_support.hpp"

// Last, as its page says: from here on names mean what they meant then.
#include "heddle/ggml-backend-2024.h"

extern "C" const char* old_client_of_generation_2(ggml_backend_t device, ggml_backend_t cpu);

namespace heddle::sched {
namespace {

using sim::Stream;
using testing::HasSubstr;

Stream cpu_stream() { return Stream(ggml_backend_reg_init_backend(0, nullptr)); }

/// A simulated device before the processor.
class Backend2024 : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(sim::configure("devices=1"));
        device.reset(ggml_backend_dev_init(sim::device(), nullptr));
        cpu = cpu_stream();
    }
    ggml_backend_buffer_type_t device_memory() {
        return ggml_backend_get_default_buffer_type(device.get());
    }

    Stream device, cpu;
};

// ---- registry ----------------------------------------------------------------------------------

TEST(Registry2024, TheProcessorIsEntry0) {
    ASSERT_GE(ggml_backend_reg_get_count(), 1u);
    EXPECT_STREQ(ggml_backend_reg_get_name(0), "CPU");
    EXPECT_EQ(ggml_backend_reg_find_by_name("CPU"), 0u);
    const Stream stream = cpu_stream();
    EXPECT_TRUE(ggml_backend_is_cpu(stream.get()));
    EXPECT_TRUE(ggml_backend_buft_is_host(ggml_backend_reg_get_default_buffer_type(0)));
    const sim::Buffer buffer(ggml_backend_reg_alloc_buffer(0, 1000));
    EXPECT_GE(ggml_backend_buffer_get_size(buffer.get()), 1000u);
}

TEST(Registry2024, EveryDeviceIsAnEntryOnce) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < ggml_backend_reg_get_count(); ++i) {
        names.emplace_back(ggml_backend_reg_get_name(i));
    }
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        EXPECT_THAT(names,
                    testing::Contains(ggml_backend_dev_name(ggml_backend_dev_get(i))).Times(1));
    }
}

TEST(Registry2024, NamesAreFoundAsTheyAreWritten) {
    EXPECT_EQ(ggml_backend_reg_find_by_name("cpu"), SIZE_MAX);
    EXPECT_EQ(ggml_backend_reg_find_by_name(""), SIZE_MAX);
}

TEST(Registry2024, NumbersWithoutAnEntryGiveNull) {
    const std::size_t beyond = ggml_backend_reg_get_count();
    EXPECT_EQ(ggml_backend_reg_get_name(beyond), nullptr);
    EXPECT_EQ(ggml_backend_reg_init_backend(beyond, nullptr), nullptr);
    EXPECT_EQ(ggml_backend_reg_get_default_buffer_type(SIZE_MAX), nullptr);
    EXPECT_EQ(ggml_backend_reg_alloc_buffer(beyond, 16), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("no entry of this number"));
}

TEST(Registry2024, StreamsComeFromTexts) {
    const Stream plain(ggml_backend_reg_init_backend_from_str("CPU"));
    EXPECT_TRUE(ggml_backend_is_cpu(plain.get()));
    const Stream simulated(ggml_backend_reg_init_backend_from_str("sim:devices=1"));
    ASSERT_NE(simulated, nullptr) << heddle_last_error();
    EXPECT_STREQ(ggml_backend_name(simulated.get()), "SIM0");
    for (const char* unknown : {"CP", "CPUS", "nothing:x", "", ":"}) {
        heddle_clear_error();
        EXPECT_EQ(ggml_backend_reg_init_backend_from_str(unknown), nullptr) << unknown;
        EXPECT_THAT(heddle_last_error(), HasSubstr("no backend has this name")) << unknown;
    }
}

TEST(Registry2024, ProgramsAddEntriesOfTheirOwn) {
    static std::string told;
    const ggml_backend_init_fn start = [](const char* params, void* user_data) {
        told = std::string(static_cast<const char*>(user_data)) + "/" + params;
        return ggml_backend_cpu_init();
    };
    const std::size_t before = ggml_backend_reg_get_count();
    char name[] =
        "a name that is longer than the hundred and twenty-seven letters that entries of "
        "those days had room for, which nobody noticed";
    char user_data[] = "data";
    ggml_backend_register(name, start, ggml_backend_cpu_buffer_type(), user_data);
    const std::string kept = name;
    name[0] = 'b';  // the entry has a copy
    ASSERT_EQ(ggml_backend_reg_get_count(), before + 1);
    EXPECT_EQ(ggml_backend_reg_find_by_name(kept.c_str()), before);
    const Stream stream(ggml_backend_reg_init_backend_from_str((kept + ":x=1:y").c_str()));
    EXPECT_TRUE(ggml_backend_is_cpu(stream.get()));
    EXPECT_EQ(told, "data/x=1:y");
    EXPECT_EQ(ggml_backend_reg_get_default_buffer_type(before), ggml_backend_cpu_buffer_type());
    const sim::Buffer buffer(ggml_backend_reg_alloc_buffer(before, 64));
    EXPECT_NE(buffer, nullptr);
}

TEST(Registry2024, BackendsSayHowManyDevicesTheyHave) {
    const auto devices_of = [](const char* name) {
        ggml_backend_reg_t const reg = ggml_backend_reg_by_name(name);
        return reg != nullptr ? static_cast<int>(ggml_backend_reg_dev_count(reg)) : 0;
    };
    EXPECT_EQ(ggml_backend_cuda_reg_devices(), devices_of("CUDA"));
    EXPECT_EQ(ggml_backend_vk_reg_devices(), devices_of("Vulkan"));
    EXPECT_EQ(ggml_backend_sycl_reg_devices(), 0);
    EXPECT_EQ(ggml_backend_kompute_reg_devices(), 0);
    EXPECT_EQ(ggml_backend_reg_metal_init("", nullptr), nullptr);
}

// ---- buffers and data --------------------------------------------------------------------------

TEST_F(Backend2024, BufferTypesAreAskedForStreams) {
    EXPECT_TRUE(ggml_backend_buft_supports_backend(device_memory(), device.get()));
    EXPECT_FALSE(ggml_backend_buft_supports_backend(device_memory(), cpu.get()));
    const sim::Buffer buffer(ggml_backend_alloc_buffer(device.get(), 64));
    EXPECT_EQ(ggml_backend_buffer_type(buffer.get()), device_memory());
    const ggml_backend_buffer_type_context_t no_type_context = nullptr;
    const ggml_backend_buffer_context_t no_buffer_context = no_type_context;
    const ggml_backend_context_t no_context = no_buffer_context;
    EXPECT_EQ(no_context, nullptr);
}

GGML_CALL int marked_as_then() { return 1; }

TEST_F(Backend2024, MarksOfTheCallingConventionAreAccepted) { EXPECT_EQ(marked_as_then(), 1); }

TEST_F(Backend2024, MemoryOfHighBandwidthIsHostMemoryWhereThereIsAny) {
    ggml_backend_buffer_type_t const hbm = ggml_backend_cpu_hbm_buffer_type();
    if (hbm == nullptr) return;
    EXPECT_TRUE(ggml_backend_buft_is_host(hbm));
    EXPECT_STREQ(ggml_backend_buft_name(hbm), "CPU_HBM");
}

TEST_F(Backend2024, ViewsTakeABufferBeside) {
    sim::Bench bench;
    Tensor* const x = bench.vector(8, ggml_backend_cpu_buffer_type());
    Tensor* const half = ggml_view_1d(bench.context(), x, 4, 16);
    ggml_backend_view_init(x->buffer, half);
    EXPECT_EQ(half->buffer, x->buffer);
    EXPECT_EQ(half->data, static_cast<char*>(x->data) + 16);
    ggml_backend_buffer_free_tensor(x->buffer, half);
    EXPECT_EQ(half->buffer, x->buffer);
}

TEST_F(Backend2024, CopiesHaveOneStream) {
    sim::Bench bench;
    Tensor* const host = bench.vector(16, ggml_backend_cpu_buffer_type());
    Tensor* const first = bench.vector(16, device_memory());
    Tensor* const second = bench.vector(16, device_memory());
    Tensor* const back = bench.vector(16, ggml_backend_cpu_buffer_type());
    const Values values = sim::numbers(16, 3);
    sim::write(host, values);
    ggml_backend_tensor_copy_async(device.get(), host, first);
    ggml_backend_tensor_copy_async(device.get(), first, second);
    ggml_backend_synchronize(device.get());
    // The stream cannot write to the host: the copy has been made on return.
    ggml_backend_tensor_copy_async(device.get(), second, back);
    EXPECT_EQ(sim::read(back), values);
}

// ---- computing ---------------------------------------------------------------------------------

TEST_F(Backend2024, ComputingIsTrueIfItWentWell) {
    sim::Bench bench;
    Tensor* const x = bench.vector(8, device_memory());
    Tensor* const y = bench.place(ggml_neg(bench.context(), x), device_memory());
    ggml_cgraph* const graph = bench.graph({y});
    sim::write(x, Values(8, 2));
    EXPECT_TRUE(ggml_backend_graph_compute(device.get(), graph));
    EXPECT_EQ(sim::read(y), Values(8, -2));

    ggml_backend_graph_plan_t const plan = ggml_backend_graph_plan_create(device.get(), graph);
    sim::write(x, Values(8, 3));
    ggml_backend_graph_plan_compute(device.get(), plan);
    ggml_backend_graph_plan_free(device.get(), plan);
    EXPECT_EQ(sim::read(y), Values(8, -3));

    ASSERT_TRUE(sim::set_faults(sim::device(), "node=1"));
    EXPECT_FALSE(ggml_backend_graph_compute(device.get(), graph));
}

TEST_F(Backend2024, GraphsAreComparedNodeByNode) {
    sim::Bench bench;
    Tensor* const x = bench.vector(8, ggml_backend_cpu_buffer_type());
    Tensor* const y = bench.place(ggml_sqr(bench.context(), x), ggml_backend_cpu_buffer_type());
    Tensor* const z = bench.place(ggml_neg(bench.context(), y), ggml_backend_cpu_buffer_type());
    sim::write(x, sim::numbers(8));
    std::vector<std::string> seen;
    const auto same = [](int, ggml_tensor* a, ggml_tensor* b, void* user_data) {
        static_cast<std::vector<std::string>*>(user_data)->push_back(ggml_op_name(a->op));
        return sim::read(a) == sim::read(b);
    };
    EXPECT_TRUE(
        ggml_backend_compare_graph_backend(cpu.get(), device.get(), bench.graph({z}), same, &seen));
    EXPECT_THAT(seen, testing::ElementsAre("SQR", "UNARY"));
}

// ---- scheduler ---------------------------------------------------------------------------------

/// Releases as a program of then does.
struct FreeSched {
    void operator()(ggml_backend_sched* sched) const { ggml_backend_sched_free(sched); }
};

class Sched2024 : public RigTest {
protected:
    void SetUp() override {
        start();
        ggml_backend_t streams[] = {rig->stream(0), rig->cpu()};
        old_.reset(ggml_backend_sched_new(streams, nullptr, 2, 128));
        ASSERT_NE(old_, nullptr) << heddle_last_error();
    }
    ggml_backend_sched_t old() { return old_.get(); }
    ggml_backend_t device() { return rig->stream(0); }
    ggml_backend_t cpu() { return rig->cpu(); }

    /// Places the input by hand, computes, and looks at the result.
    void run(Sandwich& net, ggml_backend_t where, unsigned seed) {
        ggml_tallocr_alloc(ggml_backend_sched_get_tallocr(old(), where), net.x);
        ASSERT_EQ(net.x->buffer, ggml_backend_sched_get_buffer(old(), where));
        const Values x = sim::numbers(kWidth * kColumns, seed);
        sim::write(net.x, x);
        ASSERT_EQ(ggml_backend_sched_graph_compute(old(), net.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
        expect_near(sim::read(net.f), expected(x));
    }

private:
    std::unique_ptr<ggml_backend_sched, FreeSched> old_;
};

TEST_F(Sched2024, MeasuresFirstAndPlacesByHandThen) {
    EXPECT_EQ(ggml_backend_sched_get_buffer(old(), cpu()), nullptr);
    Sandwich largest(w1, w2, nullptr, kColumns + 1);
    ggml_tallocr_t const measuring = ggml_backend_sched_get_tallocr(old(), cpu());
    ggml_tallocr_alloc(measuring, largest.x);
    EXPECT_EQ(largest.x->data, nullptr);
    ggml_backend_sched_init_measure(old(), largest.graph());
    EXPECT_GT(ggml_backend_sched_get_buffer_size(old(), device()), 0u);
    EXPECT_EQ(ggml_backend_sched_get_tallocr(old(), cpu()), measuring);
    EXPECT_NE(ggml_backend_sched_get_buffer(old(), cpu()), nullptr);
    for (unsigned i = 0; i < 4; ++i) {
        ggml_backend_sched_reset(old());
        Sandwich net(w1, w2);
        run(net, i % 2 == 0 ? cpu() : device(), 20 + i);
    }
}

TEST_F(Sched2024, TensorsCountedByHandButNotInTheGraphHaveRoomToo) {
    Sandwich largest(w1, w2);
    Tensor* const aside = largest.input("aside", 50);
    ggml_tallocr_t const tallocr = ggml_backend_sched_get_tallocr(old(), device());
    ggml_tallocr_alloc(tallocr, aside);
    ggml_backend_sched_reset(old());
    ggml_backend_sched_init_measure(old(), largest.graph());
    ggml_tallocr_alloc(tallocr, aside);
    EXPECT_EQ(aside->buffer, ggml_backend_sched_get_buffer(old(), device()));
}

TEST_F(Sched2024, GraphsFollowEachOtherWithoutAReset) {
    Sandwich largest(w1, w2, nullptr, 3 * kColumns);
    ggml_backend_sched_init_measure(old(), largest.graph());
    Sandwich first(w1, w2), second(w1, w2);
    run(first, cpu(), 30);
    run(second, cpu(), 31);
    // The same graph again, with what is in its input now.
    const Values x = sim::numbers(kWidth * kColumns, 32);
    sim::write(second.x, x);
    ASSERT_EQ(ggml_backend_sched_graph_compute(old(), second.graph()), GGML_STATUS_SUCCESS);
    expect_near(sim::read(second.f), expected(x));
}

TEST_F(Sched2024, PinsLastUntilTheReset) {
    Sandwich largest(w1, w2, nullptr, 2 * kColumns);
    ggml_backend_sched_init_measure(old(), largest.graph());
    Sandwich first(w1, w2), second(w1, w2), third(w1, w2);
    for (ggml_backend_t const where : {device(), cpu()}) {
        ggml_backend_sched_reset(old());
        Sandwich net(w1, w2);
        ggml_backend_sched_set_node_backend(old(), net.b, where);
        run(net, cpu(), 40);
        EXPECT_EQ(ggml_backend_sched_get_node_backend(old(), net.b), where);
    }
    ggml_backend_sched_reset(old());
    for (int i = 0; i < 40; ++i) {  // more than the first room for pins
        ggml_backend_sched_set_node_backend(old(), second.e, i % 2 == 0 ? device() : cpu());
    }
    run(first, cpu(), 41);
    run(second, cpu(), 42);
    EXPECT_EQ(ggml_backend_sched_get_node_backend(old(), second.e), cpu());
    ggml_backend_sched_reset(old());
    EXPECT_EQ(ggml_backend_sched_get_node_backend(old(), second.e), nullptr);
    run(third, cpu(), 43);
}

TEST_F(Sched2024, GraphsLargerThanMeasuredAreComputedAllTheSame) {
    Sandwich small(w1, w2, nullptr, 1);
    ggml_backend_sched_init_measure(old(), small.graph());
    ggml_backend_sched_reset(old());
    Sandwich net(w1, w2, nullptr, 64);
    const Values x = sim::numbers(kWidth * 64, 50);
    sim::Bench bench;
    bench.place(net.x, ggml_backend_cpu_buffer_type());
    sim::write(net.x, x);
    ASSERT_EQ(ggml_backend_sched_graph_compute(old(), net.graph()), GGML_STATUS_SUCCESS);
    expect_near(sim::read(net.f), expected(x));
}

TEST_F(Sched2024, StreamsOfOthersHaveNoPlace) {
    const Stream stranger = cpu_stream();
    EXPECT_EQ(ggml_backend_sched_get_tallocr(old(), stranger.get()), nullptr);
    EXPECT_EQ(ggml_backend_sched_get_buffer(old(), stranger.get()), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("none of this scheduler's"));
}

TEST_F(Sched2024, SchedulersThatCannotBeAreNull) {
    EXPECT_EQ(ggml_backend_sched_new(nullptr, nullptr, 0, 16), nullptr);
    ggml_backend_sched_free(nullptr);
}

TEST_F(Sched2024, WithoutMemoryMeasuringIsFalseAndTheSchedulerLives) {
    Sandwich largest(w1, w2);
    ASSERT_TRUE(sim::set_faults(rig->device(0), "alloc=1"));
    EXPECT_FALSE(ggml_backend_sched_init_measure(old(), largest.graph()));
    ASSERT_TRUE(sim::set_faults(rig->device(0), nullptr));
    EXPECT_TRUE(ggml_backend_sched_init_measure(old(), largest.graph()));
    Sandwich net(w1, w2);
    run(net, cpu(), 60);
}

TEST_F(Backend2024, AProgramInCRuns) {
    EXPECT_STREQ(old_client_of_generation_2(device.get(), cpu.get()), "");
}

}  // namespace
}  // namespace heddle::sched
