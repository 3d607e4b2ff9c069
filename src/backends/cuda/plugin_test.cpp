// The plug-in as ggml's own library loads it: over a base library that has ggml's functions and
// none of Heddle's, with nothing but the tables of the plug-in interface. This program links no
// library of ggml's or ours.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "ggml/op_list.h"

namespace {

using InitFunction = ggml_backend_reg_t (*)();

/// Where the plug-in lies: the folder `lib` beside this program's, as it is built and packed.
std::filesystem::path build_folder() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}

class Plugin : public testing::Test {
protected:
    static void SetUpTestSuite() {
        const auto base = build_folder() / "tests" / "foreign" / "libggml-base.so.0";
        ASSERT_NE(dlopen(base.c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
        const auto file = build_folder() / "lib" / "libggml-cuda.so";
        plugin_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(plugin_, nullptr) << dlerror();
        const auto init = reinterpret_cast<InitFunction>(dlsym(plugin_, "ggml_backend_init"));
        ASSERT_NE(init, nullptr);
        registration_ = init();
        ASSERT_NE(registration_, nullptr);
    }
    static std::size_t devices() { return registration_->iface.get_device_count(registration_); }
    static ggml_backend_dev_t device(std::size_t i) {
        return registration_->iface.get_device(registration_, i);
    }

    static inline void* plugin_ = nullptr;
    static inline ggml_backend_reg_t registration_ = nullptr;
};

/// A row of floats.
ggml_tensor row_of(std::int64_t count, ggml_op op = GGML_OP_NONE) {
    ggml_tensor tensor{};
    tensor.type = GGML_TYPE_F32;
    tensor.op = op;
    tensor.flags = op == GGML_OP_NONE ? 0 : GGML_TENSOR_FLAG_COMPUTE;
    const std::int64_t extents[] = {count, 1, 1, 1};
    std::ranges::copy(extents, tensor.ne);
    tensor.nb[0] = sizeof(float);
    for (int d = 1; d < GGML_MAX_DIMS; ++d) {
        tensor.nb[d] = static_cast<std::size_t>(count) * sizeof(float);
    }
    return tensor;
}

TEST_F(Plugin, IsLoadedOverABaseLibraryWithoutHeddlesFunctions) {
    EXPECT_EQ(dlsym(RTLD_DEFAULT, "heddle_report_error"), nullptr)
        << "this tests nothing: Heddle's own base library is loaded";
    EXPECT_EQ(dlsym(plugin_, "ggml_backend_score"), nullptr) << "ggml would ask for a score";
}

TEST_F(Plugin, HandsOverARegistrationOfTheInterfaceItWasBuiltFor) {
    EXPECT_EQ(registration_->api_version, GGML_BACKEND_API_VERSION);
    EXPECT_STREQ(registration_->iface.get_name(registration_), "CUDA");
    for (const char* name :
         {"ggml_backend_comm_init", "ggml_backend_comm_free", "ggml_backend_comm_allreduce_tensor",
          "ggml_backend_register_host_buffer", "ggml_backend_unregister_host_buffer",
          "ggml_backend_get_features"}) {
        EXPECT_NE(registration_->iface.get_proc_address(registration_, name), nullptr) << name;
    }
    for (const char* name :
         {"ggml_backend_split_buffer_type", "ggml_backend_set_n_threads",
          "ggml_backend_set_abort_callback", "ggml_backend_dev_get_extra_bufts"}) {
        EXPECT_EQ(registration_->iface.get_proc_address(registration_, name), nullptr) << name;
    }
}

TEST_F(Plugin, EveryDeviceFillsItsTable) {
    for (std::size_t i = 0; i < devices(); ++i) {
        const ggml_backend_dev_t dev = device(i);
        EXPECT_EQ(dev->iface.get_name(dev), "CUDA" + std::to_string(i));
        ggml_backend_dev_props props{};
        dev->iface.get_props(dev, &props);
        EXPECT_TRUE(props.caps.async && props.caps.events);
        EXPECT_FALSE(props.caps.buffer_from_host_ptr);
        const std::string id = props.device_id != nullptr ? props.device_id : "";
        EXPECT_EQ(id.find(':'), 4u) << id;
        EXPECT_EQ(dev->iface.get_type(dev), GGML_BACKEND_DEVICE_TYPE_GPU);
        const ggml_backend_buffer_type_t type = dev->iface.get_buffer_type(dev);
        EXPECT_EQ(type->iface.get_alignment(type), 128u);
        EXPECT_EQ(type->device, dev);
        EXPECT_TRUE(dev->iface.supports_buft(dev, type));
        EXPECT_FALSE(dev->iface.supports_buft(dev, dev->iface.get_host_buffer_type(dev)));
    }
}

TEST_F(Plugin, ComputesANodeThroughTheTablesAlone) {
    constexpr std::size_t kCount = 1000, kBytes = kCount * sizeof(float);
    for (std::size_t i = 0; i < devices(); ++i) {
        const ggml_backend_dev_t dev = device(i);
        const ggml_backend_buffer_type_t type = dev->iface.get_buffer_type(dev);
        ggml_backend_buffer_t memory = type->iface.alloc_buffer(type, 3 * 4096);
        ASSERT_NE(memory, nullptr);
        ggml_tensor a = row_of(kCount), b = row_of(kCount), sum = row_of(kCount, GGML_OP_ADD);
        sum.src[0] = &a, sum.src[1] = &b;
        EXPECT_TRUE(dev->iface.supports_op(dev, &sum));
        auto* base = static_cast<std::byte*>(memory->iface.get_base(memory));
        std::size_t place = 0;
        for (ggml_tensor* tensor : {&a, &b, &sum}) {
            tensor->buffer = memory;
            tensor->data = base + 4096 * place++;
        }
        std::vector<float> values(kCount);
        std::iota(values.begin(), values.end(), 0.0f);
        memory->iface.set_tensor(memory, &a, values.data(), 0, kBytes);
        memory->iface.set_tensor(memory, &b, values.data(), 0, kBytes);
        const ggml_backend_t stream = dev->iface.init_backend(dev, nullptr);
        ASSERT_NE(stream, nullptr);
        ggml_tensor* nodes[] = {&sum};
        ggml_cgraph graph{};
        graph.nodes = nodes;
        graph.n_nodes = 1;
        EXPECT_EQ(stream->iface.graph_compute(stream, &graph), GGML_STATUS_SUCCESS);
        stream->iface.synchronize(stream);
        std::vector<float> sums(kCount);
        memory->iface.get_tensor(memory, &sum, sums.data(), 0, kBytes);
        for (std::size_t k = 0; k < kCount; ++k) EXPECT_EQ(sums[k], 2 * values[k]);

        // What it cannot do is a status here too, though there is no one to tell the sentence.
        sum.op = GGML_OP_CUSTOM;
        EXPECT_NE(stream->iface.graph_compute(stream, &graph), GGML_STATUS_SUCCESS);
        stream->iface.free(stream);
        memory->iface.free_buffer(memory);
        std::free(memory);
    }
}

}  // namespace
