// How near attention comes to what the device can do: of one query to reading alone, of many to
// products of f16 matrices, both measured in the same run.
//
// Each line is the median of 20 replays of a captured graph. Caches of single queries go round
// through copies that together are several times as large as the L2 cache.
//
//     cuda_attention_bench [PART OF A LINE]

#include <cmath>
#include <cstring>
#include <string>

#include "backends/cuda/cuda_bench.cuh"
#include "backends/cuda/kernels/attention/attention.hpp"
#include "backends/cuda/kernels/products/products.hpp"
#include "ops/flash_attn.hpp"

namespace heddle::cuda {
namespace {

std::string g_only;
double g_product_ceiling = 0;  ///< flop per second

enum class Mask { none, open, causal };

struct AttentionShape {
    Type type = GGML_TYPE_F16;
    std::int64_t queries = 1, keys = 0, size = 128, heads = 32, key_heads = 8;
    Mask mask = Mask::open;
};

/// The last query sees all keys, each one before it a key less.
__global__ void fill_mask(std::uint16_t* to, std::int64_t queries, std::int64_t keys,
                          bool is_causal) {
    const std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
    if (i >= queries * keys) return;
    const bool is_hidden = is_causal && i % keys > keys - queries + i / keys;
    to[i] = is_hidden ? 0xfc00 : 0;
}

/// The device's rate for products of f16 matrices: cuBLASLt's, of random numbers.
void measure_products(Bench& bench) {
    constexpr std::int64_t n = 8192;
    Memory a_data(n * n * 2, true), b_data(n * n * 4), y_data(n * n * 4);
    Tensor a = tensor(GGML_TYPE_F16, {n, n, 1, 1}, a_data.data);
    Tensor b = tensor(GGML_TYPE_F32, {n, n, 1, 1}, b_data.data);
    Tensor y = tensor(GGML_TYPE_F32, {n, n, 1, 1}, y_data.data);
    y.op = GGML_OP_MUL_MAT;
    y.src[0] = &a, y.src[1] = &b;
    if (!kGemmLibrary.objection(y).empty()) return;
    Memory scratch(kGemmLibrary.scratch(y, bench.device) + 256);
    const double t = bench.seconds(8, [&](int) {
        kGemmLibrary.launch(y, {bench.stream, scratch.data, bench.device});
    });
    g_product_ceiling = 2.0 * n * n * n / t;
    std::printf("f16 product, 8192 x 8192 x 8192: %.0f TFLOP/s\n", g_product_ceiling / 1e12);
}

/// How many pairs of queries and keys there are to see.
double visible_pairs(const AttentionShape& s) {
    const double all = double(s.queries) * double(s.keys);
    return s.mask == Mask::causal ? all - double(s.queries) * double(s.queries - 1) / 2 : all;
}

std::size_t cache_bytes(const AttentionShape& s) {
    return row_size(s.type, s.size) * static_cast<std::size_t>(s.keys * s.key_heads);
}

void print_rate(const Bench& bench, const AttentionShape& s, const char* line, double t) {
    const double read = 2 * double(cache_bytes(s)) / t,
                 rate = 4.0 * double(s.size * s.heads) * visible_pairs(s) / t;
    if (s.queries <= 8)
        std::printf("%-72s %8.2f us  %5.2f TB/s   %3.0f %%\n", line, t * 1e6, read / 1e12,
                    100 * read / bench.ceiling);
    else
        std::printf("%-72s %8.2f us  %5.0f TFLOP/s %3.0f %%\n", line, t * 1e6, rate / 1e12,
                    100 * rate / g_product_ceiling);
}

/// The row called `name`, or the first one that takes the node.
const Kernel* row_for(const Tensor& node, const char* name) {
    for (const Kernel& row : attention_kernels())
        if (row.objection(node).empty() && (name == nullptr || std::strcmp(row.name, name) == 0))
            return &row;
    return nullptr;
}

void measure(Bench& bench, const AttentionShape& s, const char* name = nullptr) {
    const std::size_t bytes = cache_bytes(s);
    const int copies =
        s.queries > 8 ? 1
                      : static_cast<int>(std::min<std::size_t>(kBeyondCache / bytes / 2 + 1, 32));
    Tensor q = tensor(GGML_TYPE_F32, {s.size, s.heads, s.queries, 1}, nullptr);
    Tensor k = tensor(s.type, {s.size, s.key_heads, s.keys, 1}, nullptr);
    for (Tensor* t : {&q, &k}) {  // heads before positions in memory
        std::swap(t->ne[1], t->ne[2]);
        std::swap(t->nb[1], t->nb[2]);
    }
    Tensor v = k;
    Tensor mask = tensor(GGML_TYPE_F16, {s.keys, s.queries, 1, 1}, nullptr);
    Tensor y = tensor(GGML_TYPE_F32, {s.size, s.heads, s.queries, 1}, nullptr);
    y.op = GGML_OP_FLASH_ATTN_EXT;
    y.src[0] = &q, y.src[1] = &k, y.src[2] = &v;
    if (s.mask != Mask::none) y.src[3] = &mask;
    const ops::FlashAttnExt::Params params{1 / std::sqrt(static_cast<float>(s.size)), 0, 0,
                                           GGML_PREC_DEFAULT};
    std::memcpy(y.op_params, &params, sizeof params);
    const Kernel* const kernel = row_for(y, name);
    constexpr const char* kMasks[] = {"no mask", "open mask", "causal"};
    char line[120];
    std::snprintf(line, sizeof line, "%s %s %dx%d heads of %d over %d %s",
                  kernel != nullptr ? kernel->name : "none", type_info(s.type).name, int(s.queries),
                  int(s.keys), int(s.size), int(s.heads / s.key_heads), kMasks[int(s.mask)]);
    if (kernel == nullptr || std::string(line).find(g_only) == std::string::npos) return;

    Memory k_data(bytes * static_cast<std::size_t>(copies), s.type == GGML_TYPE_F16);
    Memory v_data(bytes * static_cast<std::size_t>(copies), s.type == GGML_TYPE_F16);
    const auto elements = static_cast<std::size_t>(s.size * s.queries * s.heads);
    Memory q_data(elements * 4), result(elements * 4);
    Memory mask_data(static_cast<std::size_t>(s.queries * s.keys) * 2);
    Memory scratch(kernel->scratch(y, bench.device) + 256), tickets(kTickets * sizeof(unsigned));
    q.data = q_data.data, y.data = result.data, mask.data = mask_data.data;
    check(cudaMemset(tickets.data, 0, kTickets * sizeof(unsigned)), "tickets");
    fill_mask<<<static_cast<unsigned>((s.queries * s.keys + 255) / 256), 256>>>(
        reinterpret_cast<std::uint16_t*>(mask_data.data), s.queries, s.keys,
        s.mask == Mask::causal);
    const double t =
        bench.seconds(s.queries > 4096 ? 4
                      : s.queries > 8  ? 16
                                       : std::max(32, copies),
                      [&](int i) {
                          k.data = k_data.data + static_cast<std::size_t>(i % copies) * bytes;
                          v.data = v_data.data + static_cast<std::size_t>(i % copies) * bytes;
                          kernel->launch(y, {.stream = bench.stream,
                                             .scratch = scratch.data,
                                             .device = bench.device,
                                             .tickets = reinterpret_cast<unsigned*>(tickets.data)});
                      });
    check(cudaGetLastError(), line);
    print_rate(bench, s, line, t);
}

void run_all() {
    Bench bench;
    measure_reading(bench);
    measure_products(bench);
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0})
        for (const std::int64_t keys : {512, 4096, 32768})
            measure(bench, {.type = type, .keys = keys});
    measure(bench, {.keys = 32768}, "attention_token");
    measure(bench, {.type = GGML_TYPE_Q8_0, .keys = 32768}, "attention_decode");
    measure(bench, {.type = GGML_TYPE_Q4_0, .keys = 32768}, "attention_mma");
    measure(bench, {.queries = 2, .keys = 32768});
    measure(bench, {.keys = 32768, .heads = 64});
    measure(bench, {.keys = 32768, .heads = 8});
    measure(bench, {.keys = 32768, .size = 64});
    measure(bench, {.keys = 32768, .size = 256, .heads = 16, .key_heads = 4});
    for (const Type type : {GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL})
        measure(bench, {.type = type, .keys = 32768});
    measure(bench, {.type = GGML_TYPE_Q8_0, .keys = 32768, .heads = 64});
    measure(bench, {.type = GGML_TYPE_Q8_0, .keys = 32768, .size = 64});
    for (const std::int64_t queries : {512, 2048, 8192})
        for (const Mask mask : {Mask::open, Mask::causal})
            measure(
                bench,
                {.queries = queries, .keys = std::max<std::int64_t>(queries, 2048), .mask = mask});
    measure(bench, {.type = GGML_TYPE_Q8_0, .queries = 512, .keys = 8192, .mask = Mask::causal});
    for (const std::int64_t size : {64, 72, 80, 96, 112, 192, 256})
        measure(bench, {.queries = 2048, .keys = 2048, .size = size, .mask = Mask::causal});
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_F32})
        measure(bench, {.type = type,
                        .queries = 1500,
                        .keys = 1500,
                        .size = 64,
                        .heads = 20,
                        .key_heads = 20,
                        .mask = Mask::none});
}

}  // namespace
}  // namespace heddle::cuda

int main(int count, char** words) {
    if (count > 1) heddle::cuda::g_only = words[1];
    heddle::cuda::run_all();
    return 0;
}
