// Where the weights of a program lie that chooses their memory as llama.cpp does.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <numeric>

#include "bench/synthetic.hpp"
#include "client_model.hpp"
#include "heddle/heddle.h"

namespace heddle::bench {
namespace {

using tool::bench::SyntheticModel;

ggml_backend_dev_t cpu() { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

/// Names of the memory that the device offers for weights.
std::vector<std::string> offers() {
    const auto get =
        reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(cpu()), "ggml_backend_dev_get_extra_bufts"));
    std::vector<std::string> names;
    for (const ggml_backend_buffer_type_t* type = get(cpu()); *type != nullptr; ++type) {
        names.emplace_back(ggml_backend_buft_name(*type));
    }
    return names;
}

std::string memory_of(const ClientWeights& weights, const std::string& name) {
    const ggml_tensor* weight = weights.find(name);
    return weight != nullptr ? ggml_backend_buffer_name(weight->buffer) : "nowhere";
}

class ClientWeightsTest : public testing::Test {
protected:
    void SetUp() override {
        const std::vector<std::string> names = offers();
        if (names.empty() || names.back() != "CPU_LARGE_PAGES") {
            GTEST_SKIP() << "this system has no large pages";
        }
        has_repacking_ = names.front() == "CPU_REPACK";
    }

    bool has_repacking_ = false;
};

TEST_F(ClientWeightsTest, LieInLargePagesUnlessTheyAreRepacked) {
    for (const char* type : {"F32", "F16", "BF16", "Q4_1", "Q5_0", "Q5_1", "Q4_0", "IQ4_NL"}) {
        SCOPED_TRACE(type);
        const auto file = SyntheticModel::make("15M", type);
        ASSERT_TRUE(file) << file.error().message;
        const auto weights = ClientWeights::load(file->path(), {.cpu = cpu()}, true);
        ASSERT_TRUE(weights) << weights.error().message;
        const bool is_repacked =
            has_repacking_ && (std::string(type) == "Q4_0" || std::string(type) == "IQ4_NL");
        const std::string expected = is_repacked ? "CPU_REPACK" : "CPU_LARGE_PAGES";
        EXPECT_EQ(memory_of(**weights, "blk.0.attn_q.weight"), expected);
        EXPECT_EQ(memory_of(**weights, "token_embd.weight"), expected);
        EXPECT_EQ(memory_of(**weights, "output.weight"), expected);
        EXPECT_EQ(memory_of(**weights, "blk.5.ffn_norm.weight"), "CPU_LARGE_PAGES");
    }
}

TEST_F(ClientWeightsTest, AreInMemoryOnce) {
    for (const char* type : {"Q4_0", "Q8_0", "Q4_K_M", "F16"}) {
        SCOPED_TRACE(type);
        const auto file = SyntheticModel::make(type[1] == '4' ? "110M" : "15M", type);
        ASSERT_TRUE(file) << file.error().message;
        const auto weights = ClientWeights::load(file->path(), {.cpu = cpu()}, true);
        ASSERT_TRUE(weights) << weights.error().message;
        EXPECT_EQ((*weights)->mapped_bytes(), 0u) << "nothing of the file stays mapped";

        ggml_context* tensors = nullptr;
        const gguf_context_ptr description(
            gguf_init_from_file(file->path().c_str(), {.no_alloc = true, .ctx = &tensors}));
        const ggml_context_ptr owner(tensors);
        std::size_t all = 0, count = 0;
        for (ggml_tensor* t = ggml_get_first_tensor(tensors); t != nullptr;
             t = ggml_get_next_tensor(tensors, t)) {
            all += ggml_nbytes(t), ++count;
        }
        std::size_t allocated = 0;
        for (const auto& [name, bytes] : (*weights)->allocated_bytes()) allocated += bytes;
        EXPECT_GE(allocated, all);
        EXPECT_LE(allocated, all + 64 * count) << "but for gaps between them";
    }
}

TEST(ClientWeights, SayWhatTheirFileLacks) {
    const std::string path = testing::TempDir() + "client-weights-without-layers.gguf";
    const gguf_context_ptr file(gguf_init_empty());
    ASSERT_TRUE(gguf_write_to_file(file.get(), path.c_str(), true));
    const auto weights = ClientWeights::load(path, {.cpu = cpu()}, true);
    ASSERT_FALSE(weights);
    EXPECT_EQ(weights.error().message, path + ": has no llama.block_count");
    std::remove(path.c_str());
}

TEST(ClientModelTest, TakesNoCpuForAnAccelerator) {
    const auto model = ClientModel::load("no.gguf", {.accelerator = cpu()});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().message, "CPU is no accelerator: it has the other layers");
}

TEST(ClientModelTest, GivesTheSameLogitsWhereverItsWeightsLie) {
    for (const char* type : {"Q4_0", "Q8_0", "F16"}) {
        SCOPED_TRACE(type);
        const auto file = SyntheticModel::make("15M", type);
        ASSERT_TRUE(file) << file.error().message;
        ClientModel::Options options{.threads = 2, .context = 64, .batch = 16};
        const auto there = ClientModel::load(file->path(), options);
        ASSERT_TRUE(there) << there.error().message;
        options.extras = false;
        const auto mapped = ClientModel::load(file->path(), options);
        ASSERT_TRUE(mapped) << mapped.error().message;
        EXPECT_GT((*mapped)->weights().mapped_bytes(), 0u);
        EXPECT_TRUE((*mapped)->weights().allocated_bytes().empty());

        const std::vector<std::int32_t> prompt{1, 31999, 20, 16, 500}, word{7};
        for (const auto& tokens : {prompt, word, word}) {
            const auto got = (*there)->read(tokens), expected = (*mapped)->read(tokens);
            ASSERT_TRUE(got && expected) << heddle_last_error();
            double difference = 0, size = 0;
            for (std::size_t i = 0; i < got->size(); ++i) {
                difference += std::pow((*got)[i] - (*expected)[i], 2);
                size += std::pow((*expected)[i], 2);
            }
            // Activations are rounded to 8 bits, now and then the other way.
            EXPECT_GT(size, 0);
            EXPECT_LT(std::sqrt(difference / size), 0.05);
        }
    }
}

}  // namespace
}  // namespace heddle::bench
