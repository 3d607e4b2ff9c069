// What can be tested of the CUDA backend on any machine, with a GPU or without.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/board.hpp"
#include "backends/cuda/kernel_list.hpp"
#include "backends/cuda/peer_copies.hpp"
#include "ggml-backend-impl.h"
#include "ggml-cpp.h"
#include "ggml-cuda.h"
#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "heddle/heddle.h"
#include "ops/catalogue.hpp"

namespace heddle::cuda {
namespace {

class Cuda : public testing::Test {
protected:
    /// Devices are looked for once, so their lines are caught before any test asks.
    static void SetUpTestSuite() {
        const auto keep = [](ggml_log_level, const char* line, void*) {
            lines_.emplace_back(line);
        };
        ggml_log_set(keep, nullptr);
        ggml_backend_cuda_reg();
    }
    void SetUp() override {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        heddle_clear_error();
    }
    static int device_count() { return ggml_backend_cuda_get_device_count(); }

    static inline std::vector<std::string> lines_;
};

TEST_F(Cuda, WithoutADeviceOneLineSaysWhy) {
    if (device_count() > 0) GTEST_SKIP() << "there is a device";
    const auto says_why = [](const std::string& line) {
        return line.starts_with("CUDA: there is no device: ");
    };
    EXPECT_EQ(std::ranges::count_if(lines_, says_why), 1);
}

TEST_F(Cuda, RegistersWithAndWithoutADriver) {
    const ggml_backend_reg_t registration = ggml_backend_cuda_reg();
    ASSERT_NE(registration, nullptr);
    EXPECT_STREQ(ggml_backend_reg_name(registration), "CUDA");
    EXPECT_EQ(ggml_backend_reg_dev_count(registration), std::size_t(device_count()));
    EXPECT_EQ(ggml_backend_cuda_reg(), registration);
}

TEST_F(Cuda, ADeviceThatIsNotThereIsNamedInASentence) {
    for (const int absent : {-1, device_count(), 1000}) {
        EXPECT_EQ(ggml_backend_cuda_init(absent), nullptr);
        EXPECT_NE(std::string(heddle_last_error()).find("device " + std::to_string(absent) + " "),
                  std::string::npos)
            << heddle_last_error();
        EXPECT_EQ(ggml_backend_cuda_buffer_type(absent), nullptr);
        std::size_t free = 1, total = 1;
        ggml_backend_cuda_get_device_memory(absent, &free, &total);
        EXPECT_EQ(free + total, 0u);
        char words[4] = "abc";
        ggml_backend_cuda_get_device_description(absent, words, sizeof words);
        EXPECT_STREQ(words, "");
    }
}

TEST_F(Cuda, HostMemoryIsThereEvenWithoutADevice) {
    const ggml_backend_buffer_type_t type = ggml_backend_cuda_host_buffer_type();
    ASSERT_NE(type, nullptr);
    EXPECT_STREQ(ggml_backend_buft_name(type), "CUDA_Host");
    EXPECT_TRUE(ggml_backend_buft_is_host(type));
    const ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(type, 1000));
    ASSERT_NE(buffer, nullptr);
    std::memset(ggml_backend_buffer_get_base(buffer.get()), 7, 1000);
    if (device_count() == 0) {
        EXPECT_STREQ(ggml_backend_buffer_name(buffer.get()), "CPU");
    }
}

TEST_F(Cuda, NamesTheArchitecturesItWasCompiledFor) {
    auto* const get_features = reinterpret_cast<ggml_backend_get_features_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_cuda_reg(), "ggml_backend_get_features"));
    ASSERT_NE(get_features, nullptr);
    const ggml_backend_feature* const features = get_features(ggml_backend_cuda_reg());
    EXPECT_STREQ(features[0].name, "ARCHS");
    const std::string architectures = features[0].value;
    EXPECT_NE(architectures, "");
    EXPECT_EQ(architectures.find_first_not_of("0123456789,"), std::string::npos) << architectures;
    EXPECT_STREQ(features[1].name, "USE_GRAPHS");
    EXPECT_STREQ(features[2].name, "FA_ALL_QUANTS");
    EXPECT_EQ(features[3].name, nullptr);
}

TEST_F(Cuda, OffersNoFunctionsThatItDoesNotHave) {
    for (const char* name : {"ggml_backend_split_buffer_type", "ggml_backend_set_n_threads",
                             "ggml_backend_set_abort_callback", "no_such_function"}) {
        EXPECT_EQ(ggml_backend_reg_get_proc_address(ggml_backend_cuda_reg(), name), nullptr)
            << name;
    }
}

TEST_F(Cuda, StreamsOfOtherBackendsAreNotTakenForItsOwn) {
    EXPECT_FALSE(ggml_backend_is_cuda(nullptr));
    EXPECT_FALSE(ggml_backend_cuda_allreduce_tensor(nullptr, nullptr, 0));
}

/// Ops that no device but the CPU can do: they call functions of the program.
constexpr Op kNeverHere[] = {GGML_OP_MAP_CUSTOM1, GGML_OP_MAP_CUSTOM2, GGML_OP_MAP_CUSTOM3,
                             GGML_OP_CUSTOM, GGML_OP_FLASH_ATTN_BACK};

TEST_F(Cuda, HasAKernelForEveryOpThatADeviceCanDo) {
    for (int number = 0; number < GGML_OP_COUNT; ++number) {
        const auto op = static_cast<Op>(number);
        if (ggml_op_is_empty(op)) continue;
        const bool is_left_out = std::ranges::find(kNeverHere, op) != std::end(kNeverHere);
        EXPECT_EQ(kernels_for(op).empty(), is_left_out) << ggml_op_name(op);
    }
}

TEST_F(Cuda, KernelsOfDifferentOpsHaveNamesAndFunctions) {
    for (int number = 0; number < GGML_OP_COUNT; ++number) {
        for (const Kernel* kernel : kernels_for(static_cast<Op>(number))) {
            EXPECT_NE(kernel->name, nullptr);
            EXPECT_NE(kernel->objection, nullptr) << kernel->name;
            EXPECT_NE(kernel->launch, nullptr) << kernel->name;
        }
    }
}

// ---- copies between GPUs -----------------------------------------------------------------------

int trials = 0;

TEST_F(Cuda, CopiesBetweenTwoGpusAreTriedOnce) {
    trials = 0;
    PeerCopies copies([](int from, int) -> Result<bool> {
        ++trials;
        return from != 1;  // what comes from GPU 1 is changed
    });
    for (int round = 0; round < 2; ++round) {
        EXPECT_TRUE(copies.are_sound(0, 1));
        EXPECT_FALSE(copies.are_sound(1, 0));
        EXPECT_TRUE(copies.are_sound(1, 1)) << "a GPU's own memory";
    }
    EXPECT_EQ(trials, 2);
    EXPECT_NE(lines_.back().find("from GPU 1 to GPU 0 change what they bring"), std::string::npos)
        << lines_.back();
}

TEST_F(Cuda, CopiesThatCouldNotBeTriedAreTriedAgain) {
    trials = 0;
    PeerCopies copies([](int, int) -> Result<bool> {
        if (++trials == 1) return failure(Errc::out_of_memory, "no memory left");
        return true;
    });
    EXPECT_FALSE(copies.are_sound(0, 1));
    EXPECT_NE(lines_.back().find("were not tried: no memory left"), std::string::npos);
    EXPECT_TRUE(copies.are_sound(0, 1));
    EXPECT_TRUE(copies.are_sound(0, 1));
    EXPECT_EQ(trials, 2);
}

// ---- devices that are left out -----------------------------------------------------------------

/// A driver of version 13.0 with two GPUs; nothing is compiled for the architecture of the first.
cudaError_t version_13(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t two_gpus(int* count) { return *count = 2, cudaSuccess; }
cudaError_t old_and_new(cudaDeviceProp* properties, int ordinal) {
    *properties = {};
    std::strcpy(properties->name, ordinal == 0 ? "Relic" : "Novelty");
    properties->major = ordinal == 0 ? 1 : 9;
    properties->multiProcessorCount = 132;
    return cudaSuccess;
}

TEST(Survey, WithoutADriverThereIsNoDeviceAndASentence) {
    const auto none = [](int* version) { return *version = 0, cudaSuccess; };
    const Survey survey = survey_devices({}, {none, two_gpus, old_and_new});
    EXPECT_TRUE(survey.boards.empty());
    EXPECT_EQ(
        survey.left_out,
        (std::vector<std::string>{"CUDA: there is no device: no driver of NVIDIA's is installed"}));
}

TEST(Survey, ADriverThatIsTooOldIsNamedWithItsVersion) {
    const auto old = [](int* version) { return *version = 11040, cudaSuccess; };
    const auto refusing = [](int*) { return cudaErrorInsufficientDriver; };
    const Survey survey = survey_devices({}, {old, refusing, old_and_new});
    EXPECT_TRUE(survey.boards.empty());
    ASSERT_EQ(survey.left_out.size(), 1U);
    EXPECT_EQ(survey.left_out[0].find("CUDA: there is no device: the driver is too old: it is for "
                                      "CUDA 11.4, and this library needs "),
              0U)
        << survey.left_out[0];
}

TEST(Survey, AGpuOfAnotherArchitectureIsLeftOutAndTheOtherIsThere) {
    const Survey survey = survey_devices({}, {version_13, two_gpus, old_and_new});
    ASSERT_EQ(survey.boards.size(), 1U);
    EXPECT_EQ(survey.boards[0].name, "CUDA0");
    EXPECT_EQ(survey.boards[0].description, "Novelty");
    EXPECT_EQ(survey.boards[0].ordinal, 1);
    EXPECT_EQ(survey.boards[0].facts.architecture, 900);
    ASSERT_EQ(survey.left_out.size(), 1U);
    EXPECT_EQ(survey.left_out[0].find("CUDA: device 0 of the driver is left out: Relic has compute "
                                      "capability 1.0, and this library was compiled for "),
              0U)
        << survey.left_out[0];
}

TEST(Survey, AGpuThatDoesNotAnswerIsLeftOut) {
    const auto broken = [](cudaDeviceProp* properties, int ordinal) {
        return ordinal == 0 ? cudaErrorECCUncorrectable : old_and_new(properties, ordinal);
    };
    const Survey survey = survey_devices({}, {version_13, two_gpus, broken});
    EXPECT_EQ(survey.boards.size(), 1U);
    ASSERT_EQ(survey.left_out.size(), 1U);
    EXPECT_EQ(survey.left_out[0].find("CUDA: device 0 of the driver is left out: asking for its "
                                      "properties: "),
              0U)
        << survey.left_out[0];
}

TEST(Survey, VirtualDevicesShareTheGpusInTurn) {
    Options options;
    options.virtual_devices = 3;
    const Survey survey = survey_devices(options, {version_13, two_gpus, old_and_new});
    ASSERT_EQ(survey.boards.size(), 3U);
    EXPECT_EQ(survey.boards[2].name, "CUDA2");
    EXPECT_EQ(survey.boards[2].sharing, 3);
    EXPECT_EQ(survey.boards[2].description, "Novelty (physical device 0, virtual device 2)");
}

TEST(Driver, AFaultThatEndsTheContextSaysSo) {
    EXPECT_EQ(
        check(cudaErrorIllegalAddress, "waiting for CUDA0").error().message,
        "waiting for CUDA0: an illegal memory access was encountered; this process cannot use "
        "the device any more");
    EXPECT_EQ(check(cudaErrorInvalidValue, "copying").error().message, "copying: invalid argument");
}

// ---- refusals, which need no device ------------------------------------------------------------

struct Tensors {
    ggml_context_ptr context{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};

    ggml_tensor* make(ggml_type type, std::int64_t n0, std::int64_t n1 = 1) const {
        return ggml_new_tensor_2d(context.get(), type, n0, n1);
    }
};

std::string objection_to(const ggml_tensor* node) {
    Objections why;
    return choose_kernel(*node, &why) != nullptr ? "" : why.text();
}

TEST_F(Cuda, CopiesBetweenBlockFormatsAreDeclinedInWords) {
    const Tensors tensors;
    ggml_tensor* const from = tensors.make(GGML_TYPE_Q4_0, 64);
    ggml_tensor* const to = tensors.make(GGML_TYPE_Q8_0, 64);
    EXPECT_EQ(objection_to(ggml_cpy(tensors.context.get(), from, to)),
              "copy_dense: types differ; copy_units: types differ; "
              "copy_plain: this pair of types is not converted; "
              "copy_decode: this pair of types is not converted; "
              "copy_encode: this pair of types is not converted");
}

TEST_F(Cuda, CopiesToAndFromBlockFormatsAreComputed) {
    const Tensors tensors;
    ggml_context* const context = tensors.context.get();
    for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_IQ4_NL}) {
        ggml_tensor* const blocks = tensors.make(type, 64);
        ggml_tensor* const floats = tensors.make(GGML_TYPE_F32, 64);
        EXPECT_EQ(objection_to(ggml_cpy(context, floats, blocks)), "");
        EXPECT_EQ(objection_to(ggml_cpy(context, blocks, floats)), "");
    }
}

TEST_F(Cuda, MixturesOfFloatTypesAreAdded) {
    const Tensors tensors;
    for (const ggml_type a : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
        for (const ggml_type b : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
            ggml_tensor* const sum =
                ggml_add(tensors.context.get(), tensors.make(a, 6, 4), tensors.make(b, 3, 2));
            EXPECT_EQ(objection_to(sum), "") << ggml_type_name(a) << ' ' << ggml_type_name(b);
        }
    }
}

TEST_F(Cuda, ANodeWithoutOperandsIsDeclinedInsteadOfRead) {
    for (int number = 0; number < GGML_OP_COUNT; ++number) {
        ggml_tensor node{};
        node.op = static_cast<Op>(number);
        node.type = GGML_TYPE_F32;
        std::fill_n(node.ne, 4, 1);
        std::fill_n(node.nb, 4, sizeof(float));
        if (node.op == GGML_OP_FILL || node.op == GGML_OP_ARANGE) continue;
        EXPECT_NE(objection_to(&node), "") << ggml_op_name(node.op);
    }
}

}  // namespace
}  // namespace heddle::cuda
