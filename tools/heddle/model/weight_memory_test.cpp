#include "model/weight_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "ggml-cpu.h"

namespace heddle::tool {
namespace {

/// The name of the memory for a weight; empty if it stays in the file.
std::string memory_of(const char* name, ggml_type type, bool is_tied = false) {
    const auto cpu = Device::find("CPU");
    EXPECT_TRUE(cpu) << cpu.error().message;
    ggml_tensor weight = {};
    weight.type = type;
    std::strcpy(weight.name, name);
    weight.ne[0] = 512;
    weight.ne[1] = 64;
    weight.ne[2] = weight.ne[3] = 1;
    const ggml_backend_buffer_type_t memory = memory_for(weight, *cpu, is_tied);
    return memory != nullptr ? ggml_backend_buft_name(memory) : "";
}

/// AVX-512 without its byte products has no layout of its own.
std::string layout_of_4_bits() {
    const bool has_avx2 = ggml_cpu_has_avx2() != 0 && ggml_cpu_has_avx512() == 0;
    const bool has_many = ggml_cpu_has_avx512_vnni() != 0 || ggml_cpu_has_neon() != 0;
    return has_many || has_avx2 ? "CPU_REPACK" : "CPU";
}

TEST(WeightMemory, RepacksWhatGainsByIt) {
    const std::string layout = layout_of_4_bits();
    EXPECT_EQ(memory_of("blk.0.attn_q.weight", GGML_TYPE_Q4_0), layout);
    EXPECT_EQ(memory_of("blk.7.ffn_down.weight", GGML_TYPE_Q4_K), layout);
    EXPECT_EQ(memory_of("output.weight", GGML_TYPE_Q4_0), layout);
}

TEST(WeightMemory, LeavesTheLayoutOfOthers) {
    EXPECT_EQ(memory_of("blk.0.attn_q.weight", GGML_TYPE_Q8_0), "CPU");
    EXPECT_EQ(memory_of("blk.0.attn_q.weight", GGML_TYPE_Q2_K), "CPU");
    EXPECT_EQ(memory_of("blk.0.attn_q.weight", GGML_TYPE_F16), "CPU");
    EXPECT_EQ(memory_of("blk.0.attn_q.weight", GGML_TYPE_Q6_K), "CPU");
    EXPECT_EQ(memory_of("output_norm.weight", GGML_TYPE_F32), "CPU");
}

TEST(WeightMemory, LeavesEmbeddingsInTheFileUnlessTheyAreTheOutput) {
    EXPECT_EQ(memory_of("token_embd.weight", GGML_TYPE_Q4_0), "");
    EXPECT_EQ(memory_of("token_embd.weight", GGML_TYPE_Q4_0, true), layout_of_4_bits());
    EXPECT_EQ(memory_of("token_embd.weight", GGML_TYPE_F16, true), "CPU");
}

}  // namespace
}  // namespace heddle::tool
