// How near the kernels of products and attention come to what the device can do.
//
// Each line is the median of 20 replays of a captured graph of at least 32 launches, which go round
// through copies of the weights that together are several times as large as the L2 cache. Matrix-
// vector products are compared with reading alone, measured in the same run.
//
//     cuda_bench [PART OF A LINE'S NAME]

#include <cmath>
#include <cstring>
#include <string>

#include "backends/cuda/cuda_bench.cuh"
#include "backends/cuda/kernels/attention/attention.hpp"
#include "backends/cuda/kernels/products/products.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/flash_attn.hpp"

namespace heddle::cuda {
namespace {

std::string g_only;

// ---- products ----------------------------------------------------------------------------------

const Kernel* find_kernel(std::span<const Kernel> kernels, const Tensor& node, const char* name) {
    for (const Kernel& kernel : kernels)
        if (kernel.op == node.op && kernel.objection(node).empty() &&
            (name == nullptr || std::strcmp(kernel.name, name) == 0))
            return &kernel;
    return nullptr;
}

void measure_product(Bench& bench, Type type, std::int64_t rows, std::int64_t depth, std::int64_t n,
                     const char* name = nullptr) {
    const std::size_t bytes = row_size(type, depth) * static_cast<std::size_t>(rows);
    const std::size_t each = (bytes + 255) / 256 * 256;
    const int copies = static_cast<int>(std::min<std::size_t>(kBeyondCache / each + 1, 64));
    Memory weights(each * static_cast<std::size_t>(copies), type == GGML_TYPE_F16);
    Memory acts(static_cast<std::size_t>(depth * n) * 4),
        result(static_cast<std::size_t>(rows * n) * 4);
    Tensor a = tensor(type, {depth, rows, 1, 1}, weights.data);
    Tensor b = tensor(GGML_TYPE_F32, {depth, n, 1, 1}, acts.data);
    Tensor y = tensor(GGML_TYPE_F32, {rows, n, 1, 1}, result.data);
    y.op = GGML_OP_MUL_MAT;
    y.src[0] = &a;
    y.src[1] = &b;
    const Kernel* kernel = find_kernel(products_kernels(), y, name);
    char line[120];
    std::snprintf(line, sizeof line, "%s %s %dx%d n=%d", kernel != nullptr ? kernel->name : "none",
                  type_info(type).name, int(rows), int(depth), int(n));
    if (kernel == nullptr || std::string(line).find(g_only) == std::string::npos) return;
    Memory scratch(kernel->scratch != nullptr ? kernel->scratch(y, bench.device) + 256 : 256);
    const double t = bench.seconds(std::max(32, copies), [&](int i) {
        a.data = weights.data + static_cast<std::size_t>(i % copies) * each;
        kernel->launch(y, {bench.stream, scratch.data, bench.device});
    });
    if (n <= 8)
        std::printf("%-40s %8.2f us  %5.2f TB/s  %3.0f %%\n", line, t * 1e6,
                    double(bytes) / t / 1e12, 100 * double(bytes) / t / bench.ceiling);
    else
        std::printf("%-40s %8.2f us  %5.0f TFLOP/s\n", line, t * 1e6,
                    2.0 * double(rows) * double(depth) * double(n) / t / 1e12);
}

// ---- attention ---------------------------------------------------------------------------------

void measure_attention(Bench& bench, Type type, std::int64_t queries, std::int64_t keys,
                       const char* name = nullptr) {
    constexpr std::int64_t kSize = 128, kHeads = 32, kKeyHeads = 8;
    const std::size_t bytes = row_size(type, kSize) * static_cast<std::size_t>(keys * kKeyHeads);
    const int copies =
        queries > 1 ? 1 : static_cast<int>(std::min<std::size_t>(kBeyondCache / bytes / 2 + 1, 32));
    Memory k_data(bytes * static_cast<std::size_t>(copies), type == GGML_TYPE_F16);
    Memory v_data(bytes * static_cast<std::size_t>(copies), type == GGML_TYPE_F16);
    Memory q_data(static_cast<std::size_t>(kSize * queries * kHeads) * 4);
    Memory result(static_cast<std::size_t>(kSize * queries * kHeads) * 4);
    Memory mask_data(static_cast<std::size_t>(queries * keys) * 2);
    check(cudaMemset(mask_data.data, 0, static_cast<std::size_t>(queries * keys) * 2), "mask");
    Tensor q = tensor(GGML_TYPE_F32, {kSize, kHeads, queries, 1}, q_data.data);
    Tensor k = tensor(type, {kSize, kKeyHeads, keys, 1}, k_data.data);
    for (Tensor* t : {&q, &k}) {  // heads before positions in memory
        std::swap(t->ne[1], t->ne[2]);
        std::swap(t->nb[1], t->nb[2]);
    }
    Tensor v = k;
    Tensor mask = tensor(GGML_TYPE_F16, {keys, queries, 1, 1}, mask_data.data);
    Tensor y = tensor(GGML_TYPE_F32, {kSize, kHeads, queries, 1}, result.data);
    y.op = GGML_OP_FLASH_ATTN_EXT;
    y.src[0] = &q, y.src[1] = &k, y.src[2] = &v, y.src[3] = &mask;
    const ops::FlashAttnExt::Params params{0.088F, 0, 0, GGML_PREC_DEFAULT};
    std::memcpy(y.op_params, &params, sizeof params);
    const Kernel* kernel = find_kernel(attention_kernels(), y, name);
    char line[120];
    std::snprintf(line, sizeof line, "%s %s %d queries, %d keys",
                  kernel != nullptr ? kernel->name : "none", type_info(type).name, int(queries),
                  int(keys));
    if (kernel == nullptr || std::string(line).find(g_only) == std::string::npos) return;
    Memory scratch(kernel->scratch(y, bench.device) + 256);
    const double t = bench.seconds(queries > 1 ? 8 : std::max(32, copies), [&](int i) {
        k.data = k_data.data + static_cast<std::size_t>(i % copies) * bytes;
        v.data = v_data.data + static_cast<std::size_t>(i % copies) * bytes;
        kernel->launch(y, {bench.stream, scratch.data, bench.device});
    });
    if (queries == 1)
        std::printf("%-48s %8.2f us  %5.2f TB/s  %3.0f %%\n", line, t * 1e6,
                    2 * double(bytes) / t / 1e12, 200 * double(bytes) / t / bench.ceiling);
    else
        std::printf("%-48s %8.2f us  %5.0f TFLOP/s\n", line, t * 1e6,
                    4.0 * double(kSize * kHeads) * double(queries) * double(keys) / t / 1e12);
}

void run_all() {
    Bench bench;
    measure_reading(bench);
    const std::int64_t shapes[][2] = {{4096, 4096}, {28672, 4096}, {4096, 14336}};
    for (const auto& shape : shapes)
        for (const Type type :
             {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_F16, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K})
            measure_product(bench, type, shape[0], shape[1], 1);
    for (const Type type : {GGML_TYPE_Q5_0, GGML_TYPE_Q5_K, GGML_TYPE_Q3_K, GGML_TYPE_Q2_K,
                            GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4, GGML_TYPE_IQ3_S})
        measure_product(bench, type, 28672, 4096, 1);
    for (const std::int64_t n : {2, 4, 8}) measure_product(bench, GGML_TYPE_Q4_0, 28672, 4096, n);
    for (const std::int64_t n : {2, 4, 8, 16, 32, 64, 128, 512}) {
        measure_product(bench, GGML_TYPE_Q4_0, 28672, 4096, n, "gemm_wgmma");
        measure_product(bench, GGML_TYPE_Q4_0, 4096, 14336, n, "gemm_wgmma");
        measure_product(bench, GGML_TYPE_Q4_0, 4096, 4096, n, "gemm_wgmma");
    }
    for (const Type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS,
                            GGML_TYPE_MXFP4, GGML_TYPE_IQ3_S})
        measure_product(bench, type, 28672, 4096, 512, "gemm_wgmma");
    measure_product(bench, GGML_TYPE_Q4_0, 4096, 4096, 512, "gemm_mma");
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32})
        measure_product(bench, type, 4096, 4096, 512, "gemm_library");
    measure_product(bench, GGML_TYPE_F16, 28672, 4096, 512, "gemm_library");
    for (const std::int64_t keys : {512, 4096, 32768})
        measure_attention(bench, GGML_TYPE_F16, 1, keys);
    measure_attention(bench, GGML_TYPE_Q8_0, 1, 4096);
    measure_attention(bench, GGML_TYPE_F16, 1, 4096, "attention_generic");
    measure_attention(bench, GGML_TYPE_Q8_0, 1, 4096, "attention_generic");
    for (const std::int64_t keys : {512, 2048}) measure_attention(bench, GGML_TYPE_F16, 512, keys);
    measure_attention(bench, GGML_TYPE_F16, 64, 2048, "attention_generic");
}

}  // namespace
}  // namespace heddle::cuda

int main(int count, char** words) {
    if (count > 1) heddle::cuda::g_only = words[1];
    heddle::cuda::run_all();
    return 0;
}
