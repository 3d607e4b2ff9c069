#include "backends/cpu/device.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "backends/cpu/hbm_buffer.hpp"
#include "backends/cpu/isa.hpp"
#include "core/test_support.hpp"
#include "ggml-cpu.h"
#include "ggml/ops_math.h"
#include "heddle/cpu.h"
#include "heddle/heddle.h"
#include "simd/extensions.hpp"

namespace heddle::cpu {
namespace {

ggml_backend_dev_t cpu_device() { return ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0); }

void* find(const char* name) {
    return ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), name);
}

template <class Function>
Function find(const char* name) {
    return reinterpret_cast<Function>(find(name));
}

TEST(CpuRegistration, IsOneObjectWithOneDevice) {
    const ggml_backend_reg_t registration = ggml_backend_cpu_reg();
    EXPECT_EQ(registration, ggml_backend_cpu_reg());
    EXPECT_EQ(registration->api_version, 2);
    EXPECT_STREQ(ggml_backend_reg_name(registration), "CPU");
    EXPECT_EQ(ggml_backend_reg_dev_count(registration), 1u);
    EXPECT_EQ(ggml_backend_dev_backend_reg(cpu_device()), registration);
}

TEST(CpuRegistration, OffersItsFunctionsByName) {
    for (const char* name :
         {"ggml_backend_set_n_threads", "ggml_backend_dev_get_extra_bufts",
          "ggml_backend_get_features", "ggml_backend_set_abort_callback",
          "ggml_backend_cpu_numa_init", "ggml_backend_cpu_is_numa", "ggml_backend_cpu_set_use_ref",
          "ggml_threadpool_new", "ggml_threadpool_free", "ggml_backend_cpu_set_threadpool",
          "heddle_cpu_set_isa", "heddle_cpu_isa_names"}) {
        EXPECT_NE(find(name), nullptr) << name;
    }
    EXPECT_EQ(find("ggml_backend_no_such_function"), nullptr);
    EXPECT_EQ(find("GGML_BACKEND_SET_N_THREADS"), nullptr) << "names are exact";
}

TEST(CpuRegistration, ListsTheFeaturesItUses) {
    const auto features = find<ggml_backend_get_features_t>("ggml_backend_get_features");
    std::set<std::string> names;
    const ggml_backend_feature* feature = features(ggml_backend_cpu_reg());
    EXPECT_EQ(feature, features(ggml_backend_cpu_reg())) << "static";
    for (; feature->name != nullptr; ++feature) {
        EXPECT_STREQ(feature->value, "1");
        names.insert(feature->name);
    }
    EXPECT_EQ(names.count("AVX2"), static_cast<std::size_t>(ggml_cpu_has_avx2()));
    EXPECT_EQ(names.count("AVX512"), static_cast<std::size_t>(ggml_cpu_has_avx512()));
    EXPECT_EQ(names.count("NEON"), static_cast<std::size_t>(ggml_cpu_has_neon()));
    EXPECT_EQ(names.count("FMA"), static_cast<std::size_t>(ggml_cpu_has_fma()));
    // Used beside an instruction set that does not promise it.
    const bool uses_vnni = ggml_cpu_has_avx512() != 0 && has_vnni();
    EXPECT_EQ(ggml_cpu_has_avx512_vnni() != 0, uses_vnni);
    EXPECT_EQ(names.count("AVX512_VNNI"), uses_vnni ? 1u : 0u);
    EXPECT_EQ(names.count("DOTPROD"), static_cast<std::size_t>(ggml_cpu_has_dotprod()));
    EXPECT_EQ(names.count("MATMUL_INT8"), static_cast<std::size_t>(ggml_cpu_has_matmul_int8()));
}

TEST(CpuRegistration, LetsInstructionSetsBeChosen) {
    const auto names = find<heddle_cpu_isa_names_t>("heddle_cpu_isa_names")();
    const auto set_isa = find<heddle_cpu_set_isa_t>("heddle_cpu_set_isa");
    ASSERT_NE(names[0], nullptr);
    for (int i = 0; names[i] != nullptr; ++i) EXPECT_TRUE(set_isa(names[i])) << names[i];
    EXPECT_FALSE(set_isa("MMX"));
    EXPECT_EQ(
        std::string(heddle_last_error()).rfind("instruction set 'MMX' is not among best, ", 0), 0u);
    EXPECT_TRUE(set_isa(nullptr));
}

TEST(CpuDevice, DescribesItself) {
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(cpu_device(), &props);
    EXPECT_STREQ(props.name, "CPU");
    EXPECT_GT(std::string(props.description).size(), 0u);
    EXPECT_EQ(props.type, GGML_BACKEND_DEVICE_TYPE_CPU);
    EXPECT_GT(props.memory_total, 0u);
    EXPECT_GT(props.memory_free, 0u);
    EXPECT_LE(props.memory_free, props.memory_total);
    EXPECT_FALSE(props.caps.async);
    EXPECT_FALSE(props.caps.host_buffer);
    EXPECT_TRUE(props.caps.buffer_from_host_ptr);
    EXPECT_FALSE(props.caps.events);
}

TEST(CpuDevice, OwnsHostMemory) {
    const ggml_backend_dev_t device = cpu_device();
    EXPECT_EQ(ggml_backend_dev_buffer_type(device), ggml_backend_cpu_buffer_type());
    EXPECT_EQ(ggml_backend_buft_get_device(ggml_backend_cpu_buffer_type()), device);
    EXPECT_EQ(ggml_backend_dev_host_buffer_type(device), nullptr);
    EXPECT_TRUE(ggml_backend_dev_supports_buft(device, ggml_backend_cpu_buffer_type()));
    alignas(64) static char memory[256];
    ggml_backend_buffer_t buffer = ggml_backend_dev_buffer_from_host_ptr(device, memory, 256, 0);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(ggml_backend_buffer_get_base(buffer), memory);
    EXPECT_TRUE(ggml_backend_buffer_is_host(buffer));
    ggml_backend_buffer_free(buffer);
}

TEST(CpuDevice, SupportsWhatAKernelRuns) {
    TestContext context;
    Tensor* x = context.f32({8});
    Tensor* sum = ggml_add(&static_cast<Context&>(context), x, x);
    EXPECT_TRUE(ggml_backend_dev_supports_op(cpu_device(), x)) << "nothing to compute";
    EXPECT_TRUE(ggml_backend_dev_supports_op(cpu_device(), sum)) << "without memory";
    sum->src[1] = nullptr;
    EXPECT_FALSE(ggml_backend_dev_supports_op(cpu_device(), sum));
    sum->op = static_cast<Op>(1000);
    EXPECT_FALSE(ggml_backend_dev_supports_op(cpu_device(), sum));
}

// ---- streams -----------------------------------------------------------------------------------

/// y = x + x, in a context with data.
class CpuStreamTest : public testing::Test {
protected:
    void SetUp() override {
        ggml_set_f32(x, 2);
        ggml_build_forward_expand(graph, y);
    }
    void TearDown() override { ggml_backend_free(backend); }

    TestContext context_{std::size_t{1} << 20, false};
    Context& context = context_;
    Tensor* x = context_.f32({100});
    Tensor* y = ggml_add(&context, x, x);
    Graph* graph = ggml_new_graph(&context);
    ggml_backend_t backend = ggml_backend_cpu_init();
};

TEST_F(CpuStreamTest, IsRecognised) {
    EXPECT_TRUE(ggml_backend_is_cpu(backend));
    EXPECT_FALSE(ggml_backend_is_cpu(nullptr));
    EXPECT_STREQ(ggml_backend_name(backend), "CPU");
    EXPECT_EQ(ggml_backend_get_device(backend), cpu_device());
}

TEST_F(CpuStreamTest, Computes) {
    EXPECT_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    EXPECT_EQ(ggml_get_f32_1d(y, 99), 4);
}

TEST_F(CpuStreamTest, SaysWhyItFailedAndRunsNothing) {
    Tensor* z = ggml_add(&context, y, x);
    set_name(*z, "broken");
    ggml_build_forward_expand(graph, z);
    z->src[1] = nullptr;
    ggml_set_f32(y, -1);
    EXPECT_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_FAILED);
    EXPECT_NE(
        std::string(heddle_last_error()).find("'broken' f32[100,1,1,1]: add: operand b is missing"),
        std::string::npos)
        << heddle_last_error();
    EXPECT_EQ(ggml_get_f32_1d(y, 0), -1);
}

TEST_F(CpuStreamTest, StopsOnRequest) {
    ggml_backend_cpu_set_abort_callback(
        backend, [](void*) { return true; }, nullptr);
    EXPECT_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_ABORTED);
    ggml_backend_cpu_set_abort_callback(backend, nullptr, nullptr);
    EXPECT_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
}

TEST_F(CpuStreamTest, PausesThePoolThatIsReplaced) {
    ggml_threadpool_params params = ggml_threadpool_params_default(2);
    ggml_threadpool* first = ggml_threadpool_new(&params);
    ggml_threadpool* second = ggml_threadpool_new(&params);
    ggml_backend_cpu_set_threadpool(backend, first);
    ggml_backend_cpu_set_threadpool(backend, first);
    EXPECT_FALSE(first->is_paused());
    ggml_backend_cpu_set_threadpool(backend, second);
    EXPECT_TRUE(first->is_paused());
    EXPECT_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    ggml_backend_cpu_set_threadpool(backend, nullptr);
    EXPECT_TRUE(second->is_paused());
    ggml_threadpool_free(first);
    ggml_threadpool_free(second);
}

TEST_F(CpuStreamTest, PlansOutliveTheGraphTheyWereMadeFrom) {
    alignas(64) float in[4] = {1, 2, 3, 4}, out[4] = {};
    ggml_backend_graph_plan_t plan = nullptr;
    {
        TestContext short_lived;
        Tensor* a = short_lived.f32({4});
        Tensor* b = ggml_add(&static_cast<Context&>(short_lived), a, a);
        a->data = in;
        b->data = out;
        Graph* small = ggml_new_graph(&static_cast<Context&>(short_lived));
        ggml_build_forward_expand(small, b);
        plan = ggml_backend_graph_plan_create(backend, small);
        ASSERT_NE(plan, nullptr);
    }
    for (int round = 0; round < 3; ++round) {
        out[3] = 0;
        EXPECT_EQ(ggml_backend_graph_plan_compute(backend, plan), GGML_STATUS_SUCCESS);
        EXPECT_EQ(out[3], 8);
    }
    backend->iface.graph_plan_update(backend, plan, graph);
    EXPECT_EQ(ggml_backend_graph_plan_compute(backend, plan), GGML_STATUS_SUCCESS);
    EXPECT_EQ(ggml_get_f32_1d(y, 0), 4);
    ggml_backend_graph_plan_free(backend, plan);
}

TEST_F(CpuStreamTest, ComputesInManyThreadsAtOnce) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            TestContext own(std::size_t{8} << 20, false);
            Tensor* a = own.f32({256, 256});
            ggml_set_f32(a, 1);
            Tensor* b = ggml_add(&static_cast<Context&>(own), a, a);
            Graph* mine = ggml_new_graph(&static_cast<Context&>(own));
            ggml_build_forward_expand(mine, b);
            ggml_backend_t stream = ggml_backend_cpu_init();
            for (int round = 0; round < 20; ++round) {
                ggml_backend_cpu_set_n_threads(stream, 1 + round % 4);
                ggml_set_f32(b, 0);
                EXPECT_EQ(ggml_backend_graph_compute(stream, mine), GGML_STATUS_SUCCESS);
                EXPECT_EQ(ggml_get_f32_nd(b, 255, 255, 0, 0), 2);
            }
            ggml_backend_free(stream);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

// ---- high-bandwidth memory ---------------------------------------------------------------------

TEST(HbmBuffer, DoesNotExistWithoutAnAllocator) {
    EXPECT_EQ(hbm_buffer_type({}, cpu_device()), nullptr);
}

TEST(HbmBuffer, IsHostMemory) {
    if (memkind_allocator()) GTEST_SKIP() << "this machine has the real one";
    const HbmAllocator ordinary{[](void** memory, std::size_t alignment, std::size_t size) {
                                    if (size > (std::size_t{1} << 30)) return 12;
                                    return posix_memalign(memory, alignment, size);
                                },
                                std::free};
    ggml_backend_buffer_type_t type = hbm_buffer_type(ordinary, cpu_device());
    ASSERT_NE(type, nullptr);
    EXPECT_STREQ(ggml_backend_buft_name(type), "CPU_HBM");
    EXPECT_TRUE(ggml_backend_buft_is_host(type));
    EXPECT_TRUE(ggml_backend_dev_supports_buft(cpu_device(), type));
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, 1000);
    ASSERT_NE(buffer, nullptr);
    ggml_backend_buffer_clear(buffer, 7);
    EXPECT_EQ(static_cast<char*>(ggml_backend_buffer_get_base(buffer))[999], 7);
    ggml_backend_buffer_free(buffer);
    EXPECT_EQ(ggml_backend_buft_alloc_buffer(type, std::size_t{2} << 30), nullptr);
}

}  // namespace
}  // namespace heddle::cpu
