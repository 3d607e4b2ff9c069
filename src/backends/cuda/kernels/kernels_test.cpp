/// Every kernel of products and attention against its definition in double precision, on a device.
///
/// A kernel runs each node that it does not decline, twice: results must be near enough and equal
/// bit for bit, nothing behind the scratch memory may be touched, and every element must be
/// written. Prints a line per kernel; without a device there is nothing to do.
///
///     cuda_kernels_test [PART OF A KERNEL'S NAME]

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/kernels/attention/attention.hpp"
#include "core/half.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/flash_attn.hpp"
#include "quant/codec.hpp"

namespace heddle::cuda {
namespace {

std::mt19937 g_random(1);
std::string g_only;

void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
    std::exit(2);
}

/// Device memory, with a pattern behind it that must stay.
class Memory {
public:
    explicit Memory(std::size_t size) : size_(size) {
        check(cudaMalloc(&data_, size + kGuard), "cudaMalloc");
        fill(0xff);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { cudaFree(data_); }

    void fill(int byte) {
        check(cudaMemset(data_, byte, size_), "cudaMemset");
        check(cudaMemset(data() + size_, 0x5a, kGuard), "cudaMemset");
    }
    std::byte* data() const { return static_cast<std::byte*>(data_); }
    bool is_whole() const {
        std::vector<std::uint8_t> guard(kGuard);
        check(cudaMemcpy(guard.data(), data() + size_, kGuard, cudaMemcpyDeviceToHost), "guard");
        for (const std::uint8_t byte : guard)
            if (byte != 0x5a) return false;
        return true;
    }

private:
    static constexpr std::size_t kGuard = 512;
    std::size_t size_;
    void* data_ = nullptr;
};

std::vector<float> random_floats(std::size_t n, float size = 1) {
    std::uniform_real_distribution<float> uniform(-size, size);
    std::vector<float> values(n);
    for (float& v : values) v = uniform(g_random);
    return values;
}

/// Blocks of a type with values around one, encoded once and then repeated in random order.
const std::vector<std::uint8_t>& block_pool(Type type) {
    static std::map<Type, std::vector<std::uint8_t>> pools;
    auto& pool = pools[type];
    if (!pool.empty()) return pool;
    constexpr std::int64_t kBlocks = 12;
    const std::int64_t n = kBlocks * block_size(type);
    const auto values = random_floats(static_cast<std::size_t>(n));
    const std::vector<float> ones(static_cast<std::size_t>(n), 1.0F);
    pool.resize(row_size(type, n));
    const quant::Codec* codec = quant::codec_of(type);
    if (codec != nullptr && codec->is_operand) {
        codec->encode(values.data(), pool.data(), n);
    } else if (!quant::encode_rows(type, values.data(), pool.data(), 1, n, ones.data())) {
        std::printf("no encoder for %s\n", type_info(type).name);
        std::exit(2);
    }
    return pool;
}

/// A tensor on the device, and what it holds as floats.
struct Operand {
    Tensor tensor{};
    std::vector<float> values;  ///< dense, whatever the strides are
    std::unique_ptr<Memory> memory;

    /// `padding`: bytes between rows. `swapped`: dimensions 1 and 2 lie the other way round.
    Operand(Type type, std::array<std::int64_t, 4> ne, std::size_t padding = 0,
            bool swapped = false, float size = 1) {
        const std::size_t row = row_size(type, ne[0]) + padding;
        tensor.type = type;
        for (int d = 0; d < 4; ++d) tensor.ne[d] = ne[static_cast<std::size_t>(d)];
        tensor.nb[0] = size_of(type);
        tensor.nb[swapped ? 2 : 1] = row;
        tensor.nb[swapped ? 1 : 2] = row * static_cast<std::size_t>(swapped ? ne[2] : ne[1]);
        tensor.nb[3] = row * static_cast<std::size_t>(ne[1] * ne[2]);
        const std::size_t rows = static_cast<std::size_t>(ne[1] * ne[2] * ne[3]);
        std::vector<std::uint8_t> bytes(row * rows, 0xff);
        const std::size_t columns = static_cast<std::size_t>(ne[0]);
        values.resize(rows * columns);
        std::size_t at = 0;
        for (std::int64_t i3 = 0; i3 < ne[3]; ++i3)
            for (std::int64_t i2 = 0; i2 < ne[2]; ++i2)
                for (std::int64_t i1 = 0; i1 < ne[1]; ++i1, ++at)
                    fill_row(bytes.data() + offset(i1, i2, i3), &values[at * columns], columns,
                             size);
        upload(bytes);
    }

    /// Given bytes.
    Operand(Type type, std::array<std::int64_t, 4> ne, std::size_t row,
            const std::vector<std::uint8_t>& bytes) {
        tensor.type = type;
        for (int d = 0; d < 4; ++d) tensor.ne[d] = ne[static_cast<std::size_t>(d)];
        tensor.nb[0] = size_of(type);
        tensor.nb[1] = row;
        tensor.nb[2] = row * static_cast<std::size_t>(ne[1]);
        tensor.nb[3] = tensor.nb[2] * static_cast<std::size_t>(ne[2]);
        upload(bytes);
    }

    std::size_t offset(std::int64_t i1, std::int64_t i2, std::int64_t i3) const {
        return static_cast<std::size_t>(i1) * tensor.nb[1] +
               static_cast<std::size_t>(i2) * tensor.nb[2] +
               static_cast<std::size_t>(i3) * tensor.nb[3];
    }
    const float* row(std::int64_t i1, std::int64_t i2, std::int64_t i3) const {
        return &values[static_cast<std::size_t>(((i3 * tensor.ne[2] + i2) * tensor.ne[1] + i1) *
                                                tensor.ne[0])];
    }

private:
    void fill_row(std::uint8_t* to, float* floats, std::size_t n, float size) const {
        const Type type = tensor.type;
        if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) {
            const auto random = random_floats(n, size);
            for (std::size_t i = 0; i < n; ++i) {
                if (type == GGML_TYPE_F32) {
                    floats[i] = random[i];
                    std::memcpy(to + 4 * i, &floats[i], 4);
                    continue;
                }
                const std::uint16_t bits =
                    type == GGML_TYPE_F16 ? f32_to_f16(random[i]) : f32_to_bf16(random[i]);
                floats[i] = type == GGML_TYPE_F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
                std::memcpy(to + 2 * i, &bits, 2);
            }
            return;
        }
        const auto& pool = block_pool(type);
        const std::size_t block = size_of(type), count = pool.size() / block;
        const std::size_t blocks = n / static_cast<std::size_t>(block_size(type));
        for (std::size_t b = 0; b < blocks; ++b)
            std::memcpy(to + b * block, pool.data() + g_random() % count * block, block);
        quant::codec_of(type)->decode(to, floats, static_cast<std::int64_t>(n));
    }
    void upload(const std::vector<std::uint8_t>& bytes) {
        memory = std::make_unique<Memory>(bytes.size());
        check(cudaMemcpy(memory->data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "up");
        tensor.data = memory->data();
    }
};

struct Tally {
    int cases = 0, failures = 0;
    double worst = 0;
};
std::map<std::string, Tally> g_tallies;

/// Runs every kernel of the op that takes the node.
class Runner {
public:
    Runner() {
        cudaDeviceProp properties{};
        check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
        device_.multiprocessors = properties.multiProcessorCount;
        device_.architecture = properties.major * 100 + properties.minor * 10;
        device_.shared_per_block = properties.sharedMemPerBlockOptin;
        std::printf("%s, %d multiprocessors\n", properties.name, device_.multiprocessors);
        tickets_.fill(0);
    }

    /// Whether a kernel that is asked for takes the node.
    static bool is_wanted(const Tensor& node) {
        for (const Kernel& kernel : kernels_of(node))
            if (is_wanted(kernel, node)) return true;
        return g_only.empty();
    }

    void run(Tensor& node, const std::vector<double>& expected, double limit,
             const std::string& words) {
        bool taken = false;
        for (const Kernel& kernel : kernels_of(node)) {
            if (!is_wanted(kernel, node)) continue;
            taken = true;
            run_kernel(kernel, node, expected, limit, words);
        }
        if (!taken && g_only.empty()) std::printf("declined by all: %s\n", words.c_str());
    }

private:
    static std::span<const Kernel> kernels_of(const Tensor& node) {
        return node.op == GGML_OP_FLASH_ATTN_EXT ? attention_kernels() : products_kernels();
    }
    static bool is_wanted(const Kernel& kernel, const Tensor& node) {
        return kernel.op == node.op && kernel.objection(node).empty() &&
               std::string(kernel.name).find(g_only) != std::string::npos;
    }

    void run_kernel(const Kernel& kernel, Tensor& node, const std::vector<double>& expected,
                    double limit, const std::string& words) {
        const std::size_t wanted = kernel.scratch != nullptr ? kernel.scratch(node, device_) : 0;
        Memory scratch(wanted), result(expected.size() * 4);
        node.data = result.data();
        std::vector<float> y[2];
        for (auto& of_run : y) {
            scratch.fill(0xff);
            result.fill(0xff);
            kernel.launch(node, {.stream = nullptr,
                                 .scratch = scratch.data(),
                                 .device = device_,
                                 .tickets = reinterpret_cast<unsigned*>(tickets_.data())});
            check(cudaGetLastError(), kernel.name);
            const cudaError_t error = cudaDeviceSynchronize();
            if (error != cudaSuccess) {
                std::printf("%s: %s: %s\n", kernel.name, words.c_str(), cudaGetErrorString(error));
                std::exit(2);
            }
            of_run.resize(expected.size());
            check(cudaMemcpy(of_run.data(), result.data(), expected.size() * 4,
                             cudaMemcpyDeviceToHost),
                  "down");
        }
        double error = 0, square = 0;
        std::size_t wrong = expected.size();
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const double off = double{y[0][i]} - expected[i];
            if (std::isnan(off) && wrong == expected.size()) wrong = i;
            error += off * off;
            square += expected[i] * expected[i];
        }
        const double nmse = square > 0 ? error / square : error;
        const bool same = std::memcmp(y[0].data(), y[1].data(), expected.size() * 4) == 0;
        const bool whole = scratch.is_whole() && result.is_whole();
        Tally& tally = g_tallies[kernel.name];
        ++tally.cases;
        if (!(nmse <= tally.worst)) tally.worst = nmse;
        if (nmse <= limit && same && whole) return;
        if (++tally.failures > 6) return;
        std::printf("FAILED %s: %s: nmse %.2g%s%s", kernel.name, words.c_str(), nmse,
                    same ? "" : ", differs from run to run",
                    whole ? "" : ", wrote behind its memory");
        if (wrong < expected.size()) std::printf(", NaN at %zu", wrong);
        std::printf(" (y[0] %g, expected %g)\n", double{y[0][0]}, expected[0]);
    }

    DeviceFacts device_;
    Memory tickets_{kTickets * sizeof(unsigned)};
};

std::string words_of(const Tensor& a, const Tensor& b, const char* more = "") {
    char text[200];
    std::snprintf(text, sizeof text, "%s[%d,%d,%d,%d] x %s[%d,%d,%d,%d] %s", type_info(a.type).name,
                  int(a.ne[0]), int(a.ne[1]), int(a.ne[2]), int(a.ne[3]), type_info(b.type).name,
                  int(b.ne[0]), int(b.ne[1]), int(b.ne[2]), int(b.ne[3]), more);
    return text;
}

Tensor result_of(Op op, std::array<std::int64_t, 4> ne) {
    Tensor y{};
    y.op = op;
    y.type = GGML_TYPE_F32;
    y.nb[0] = 4;
    for (int d = 0; d < 4; ++d) y.ne[d] = ne[static_cast<std::size_t>(d)];
    for (int d = 1; d < 4; ++d) y.nb[d] = y.nb[d - 1] * static_cast<std::size_t>(y.ne[d - 1]);
    return y;
}

double dot(const float* a, const float* b, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
    return sum;
}

// ---- products ----------------------------------------------------------------------------------

constexpr double kProductLimit = 5e-4;  // what clients allow; int8 activations give about 2e-5

void test_mul_mat(Runner& runner, Operand& a, Operand& b, const char* more = "",
                  double limit = kProductLimit) {
    const Tensor &ta = a.tensor, &tb = b.tensor;
    Tensor node = result_of(GGML_OP_MUL_MAT, {ta.ne[1], tb.ne[1], tb.ne[2], tb.ne[3]});
    node.src[0] = &a.tensor;
    node.src[1] = &b.tensor;
    std::vector<double> expected;
    for (std::int64_t i3 = 0; i3 < tb.ne[3]; ++i3)
        for (std::int64_t i2 = 0; i2 < tb.ne[2]; ++i2)
            for (std::int64_t j = 0; j < tb.ne[1]; ++j)
                for (std::int64_t i = 0; i < ta.ne[1]; ++i)
                    expected.push_back(
                        dot(a.row(i, i2 / (tb.ne[2] / ta.ne[2]), i3 / (tb.ne[3] / ta.ne[3])),
                            b.row(j, i2, i3), ta.ne[0]));
    runner.run(node, expected, limit, words_of(ta, tb, more));
}

void test_products_of(Runner& runner, Type type) {
    const std::int64_t block = block_size(type);
    const std::int64_t unit = block < 64 ? 64 : block;  // lanes take 64 elements of small blocks
    for (const std::int64_t n : {1, 2, 3, 4, 7, 8, 9, 33, 65, 130}) {
        Operand a(type, {1280 + unit * 4, n > 60 ? 200 : 67, 1, 1});
        Operand b(GGML_TYPE_F32, {a.tensor.ne[0], n, 1, 1});
        test_mul_mat(runner, a, b);
    }
    for (const std::int64_t depth : {block, 2 * block, 5 * block, 9 * unit, 40 * unit}) {
        Operand a(type, {depth, 33, 1, 1});
        for (const std::int64_t n : {1, 5, 17}) {
            Operand b(GGML_TYPE_F32, {depth, n, 1, 1});
            test_mul_mat(runner, a, b, "depth");
        }
    }
    for (const std::int64_t n : {1, 3, 20}) {
        Operand a(type, {4 * unit, 37, 2, 1}, size_of(type));
        Operand b(GGML_TYPE_F32, {4 * unit, n, 4, 3}, 8, true);
        test_mul_mat(runner, a, b, "padded rows, swapped b, broadcast");
        Operand dense(type, {4 * unit, 40, 2, 3});
        Operand big(GGML_TYPE_F32, {4 * unit, n, 2, 6}, 0, false, 3e5F);
        test_mul_mat(runner, dense, big, "large activations");
    }
    Operand even(type, {2048, 72, 1, 1});  // rows of every format begin at multiples of 16 bytes
    for (const std::int64_t n : {40, 130}) {
        Operand b(GGML_TYPE_F32, {2048, n, 1, 1}),
            big(GGML_TYPE_F32, {2048, n, 1, 1}, 0, false, 3e5F);
        test_mul_mat(runner, even, b, "even rows");
        test_mul_mat(runner, even, big, "even rows, large activations");
    }
}

void test_odd_depths(Runner& runner) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16})
        for (const std::int64_t depth : {1, 4, 65, 67, 77, 80, 193, 588, 2113})
            for (const std::int64_t n : {1, 6, 9, 70}) {
                Operand a(type, {depth, 83, 1, 1});
                Operand b(GGML_TYPE_F32, {depth, n, 1, 1});
                test_mul_mat(runner, a, b, "odd depth");
            }
    for (const std::int64_t n : {1, 4, 40}) {
        Operand a(GGML_TYPE_F16, {128, 50, 2, 2}), b(GGML_TYPE_F16, {128, n, 4, 2}, 0, true);
        test_mul_mat(runner, a, b, "f16 activations");
        Operand one(GGML_TYPE_F16, {2048, 1, 1, 1}), many(GGML_TYPE_F32, {2048, 8 * n, 1, 1});
        test_mul_mat(runner, one, many, "one row");
    }
    Operand a(GGML_TYPE_Q4_0, {14336, 300, 1, 1}), wide(GGML_TYPE_Q6_K, {28672, 40, 1, 1});
    for (const std::int64_t n : {1, 4, 8}) {
        Operand b(GGML_TYPE_F32, {14336, n, 1, 1}), c(GGML_TYPE_F32, {28672, n, 1, 1});
        test_mul_mat(runner, a, b, "long rows");
        test_mul_mat(runner, wide, c, "long rows");
    }
}

void test_mul_mat_id(Runner& runner, Type type, std::int64_t tokens, std::int64_t used,
                     bool shared) {
    constexpr std::int64_t kExperts = 5;
    const bool is_even = tokens > 100;
    const std::int64_t rows = is_even ? 136 : 70;
    const std::int64_t depth = is_even ? 2048 : 2 * std::max<std::int64_t>(64, block_size(type));
    Operand as(type, {depth, rows, kExperts, 1});
    Operand b(GGML_TYPE_F32, {depth, shared ? 1 : used, tokens, 1});
    std::vector<std::int32_t> ids(static_cast<std::size_t>(kExperts * tokens));
    for (auto& id : ids) id = static_cast<std::int32_t>(g_random() % (kExperts - 1));  // one unused
    std::vector<std::uint8_t> bytes(ids.size() * 4);
    std::memcpy(bytes.data(), ids.data(), bytes.size());
    Operand of_ids(GGML_TYPE_I32, {used, tokens, 1, 1}, 4 * kExperts, bytes);
    Tensor node = result_of(GGML_OP_MUL_MAT_ID, {rows, used, tokens, 1});
    node.src[0] = &as.tensor;
    node.src[1] = &b.tensor;
    node.src[2] = &of_ids.tensor;
    std::vector<double> expected;
    for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t e = 0; e < used; ++e)
            for (std::int64_t i = 0; i < rows; ++i)
                expected.push_back(
                    dot(as.row(i, ids[static_cast<std::size_t>(t * kExperts + e)], 0),
                        b.row(e % b.tensor.ne[1], t, 0), depth));
    runner.run(node, expected, kProductLimit, words_of(as.tensor, b.tensor, "by expert"));
}

void test_out_prod(Runner& runner, Type type) {
    for (const bool swapped : {false, true}) {
        Operand a(type, {4 * block_size(type), 19, 1, 2});
        Operand b(GGML_TYPE_F32, {swapped ? 19 : 21, swapped ? 21 : 19, 3, 2});
        Tensor tb = b.tensor;
        if (swapped) {
            std::swap(tb.ne[0], tb.ne[1]);
            std::swap(tb.nb[0], tb.nb[1]);
        }
        Tensor node = result_of(GGML_OP_OUT_PROD, {a.tensor.ne[0], 21, 3, 2});
        node.src[0] = &a.tensor;
        node.src[1] = &tb;
        std::vector<double> expected;
        for (std::int64_t i3 = 0; i3 < 2; ++i3)
            for (std::int64_t i2 = 0; i2 < 3; ++i2)
                for (std::int64_t j = 0; j < 21; ++j)
                    for (std::int64_t i = 0; i < a.tensor.ne[0]; ++i) {
                        double sum = 0;
                        for (std::int64_t k = 0; k < 19; ++k)
                            sum += double{a.row(k, 0, i3)[i]} *
                                   (swapped ? b.row(j, i2, i3)[k] : b.row(k, i2, i3)[j]);
                        expected.push_back(sum);
                    }
        runner.run(node, expected, 1e-9, words_of(a.tensor, tb, "out_prod"));
    }
}

// ---- attention ---------------------------------------------------------------------------------

struct AttentionCase {
    Type key_type = GGML_TYPE_F16, value_type = GGML_TYPE_F16;
    std::int64_t key_size = 128, value_size = 128, queries = 1, keys = 256, heads = 8,
                 key_heads = 2, sequences = 1;
    int mask = 1;  ///< 0 none, 1 random, 2 causal with NaN in what is hidden, 3 hides everything
    bool swapped = true, sinks = false;
    float max_bias = 0, softcap = 0;
};

std::vector<double> expected_attention(const AttentionCase& c, const Operand& q, const Operand& k,
                                       const Operand& v, const std::vector<float>& mask,
                                       const std::vector<float>& sinks) {
    std::vector<double> y;
    std::int64_t top = 1;
    while (2 * top <= c.heads) top *= 2;
    for (std::int64_t s = 0; s < c.sequences; ++s)
        for (std::int64_t t = 0; t < c.queries; ++t)
            for (std::int64_t h = 0; h < c.heads; ++h) {
                const std::int64_t hk = h / (c.heads / c.key_heads);
                double slope = 1;
                if (c.max_bias > 0)
                    slope = h < top ? std::pow(std::exp2(-c.max_bias / double(top)), h + 1)
                                    : std::pow(std::exp2(-c.max_bias / 2 / double(top)),
                                               2 * (h - top) + 1);
                std::vector<double> weights(static_cast<std::size_t>(c.keys));
                double largest = c.sinks ? sinks[std::size_t(h)] : -INFINITY;
                for (std::int64_t j = 0; j < c.keys; ++j) {
                    const float m =
                        c.mask == 0 ? 0 : mask[static_cast<std::size_t>(t * c.keys + j)];
                    double z = -INFINITY;
                    if (m != -INFINITY) {
                        z = dot(q.row(t, h, s), k.row(j, hk, s), c.key_size) /
                            std::sqrt(double(c.key_size));
                        if (c.softcap != 0) z = c.softcap * std::tanh(z / c.softcap);
                        z += slope * m;
                    }
                    weights[static_cast<std::size_t>(j)] = z;
                    largest = std::max(largest, z);
                }
                double total = c.sinks ? std::exp(sinks[std::size_t(h)] - largest) : 0;
                for (double& w : weights) {
                    w = largest == -INFINITY ? 0 : std::exp(w - largest);
                    total += w;
                }
                for (std::int64_t d = 0; d < c.value_size; ++d) {
                    double sum = 0;
                    for (std::int64_t j = 0; j < c.keys; ++j)
                        if (weights[static_cast<std::size_t>(j)] != 0)
                            sum += weights[static_cast<std::size_t>(j)] * v.row(j, hk, s)[d];
                    y.push_back(total > 0 ? sum / total : 0);
                }
            }
    return y;
}

void test_attention(Runner& runner, const AttentionCase& c) {
    Operand q(GGML_TYPE_F32, {c.key_size, c.queries, c.heads, c.sequences}, 0, c.swapped);
    Operand k(c.key_type, {c.key_size, c.keys, c.key_heads, c.sequences}, 0, c.swapped);
    Operand v(c.value_type, {c.value_size, c.keys, c.key_heads, c.sequences}, 0, c.swapped);
    const std::size_t cells = static_cast<std::size_t>(c.queries * c.keys);
    std::vector<float> mask(cells);
    std::vector<std::uint8_t> mask_bytes(2 * cells);
    const std::int64_t hidden = c.keys / 4;  // at the end, from every query
    for (std::size_t i = 0; i < cells; ++i) {
        const std::int64_t t = std::int64_t(i) / c.keys, j = std::int64_t(i) % c.keys;
        float m = random_floats(1)[0];
        if (c.mask == 1 && (j / 100 + t / 40) % 3 == 0) m = -INFINITY;
        if (c.mask == 2) m = j < c.keys - hidden - (c.queries - 1 - t) ? 0 : -INFINITY;
        if (c.mask == 3) m = -INFINITY;
        const std::uint16_t bits = f32_to_f16(m);
        mask[i] = f16_to_f32(bits);
        std::memcpy(&mask_bytes[2 * i], &bits, 2);
    }
    if (c.mask == 2)  // bytes of NaN, or of blocks that are multiplied with it
        for (std::int64_t j = c.keys - hidden; j < c.keys; ++j)
            for (const Operand* t : {&k, &v})
                for (std::int64_t h = 0; h < c.key_heads; ++h)
                    check(cudaMemset(t->memory->data() + t->offset(j, h, 0), 0xff,
                                     row_size(t->tensor.type, t->tensor.ne[0])),
                          "NaN");
    Operand of_mask(GGML_TYPE_F16, {c.keys, c.queries, 1, 1}, 2 * std::size_t(c.keys), mask_bytes);
    const auto sinks = random_floats(static_cast<std::size_t>(c.heads), 5);
    std::vector<std::uint8_t> sink_bytes(sinks.size() * 4);
    std::memcpy(sink_bytes.data(), sinks.data(), sink_bytes.size());
    Operand of_sinks(GGML_TYPE_F32, {c.heads, 1, 1, 1}, sink_bytes.size(), sink_bytes);

    Tensor node =
        result_of(GGML_OP_FLASH_ATTN_EXT, {c.value_size, c.heads, c.queries, c.sequences});
    node.src[0] = &q.tensor;
    node.src[1] = &k.tensor;
    node.src[2] = &v.tensor;
    if (c.mask != 0) node.src[3] = &of_mask.tensor;
    if (c.sinks) node.src[4] = &of_sinks.tensor;
    const ops::FlashAttnExt::Params params{1 / std::sqrt(static_cast<float>(c.key_size)),
                                           c.max_bias, c.softcap, GGML_PREC_DEFAULT};
    std::memcpy(node.op_params, &params, sizeof params);
    if (!Runner::is_wanted(node)) return;
    char more[200];
    std::snprintf(more, sizeof more, "mask %d, %d queries, %d/%d heads%s%s%s", c.mask,
                  int(c.queries), int(c.heads), int(c.key_heads), c.sinks ? ", sinks" : "",
                  c.max_bias > 0 ? ", alibi" : "", c.softcap != 0 ? ", softcap" : "");
    runner.run(node, expected_attention(c, q, k, v, mask, sinks), 1e-5,
               words_of(k.tensor, v.tensor, more));
}

void test_attention_shapes(Runner& runner) {
    const std::int64_t sizes[][2] = {{8, 8},     {40, 40},   {64, 64},   {72, 72},  {80, 80},
                                     {96, 96},   {112, 112}, {128, 128}, {128, 64}, {192, 128},
                                     {256, 256}, {320, 256}, {512, 512}, {576, 512}};
    for (const auto& size : sizes)
        for (const std::int64_t queries : {1, 3, 75})
            for (const std::int64_t keys : {1, 113, 512, 1025}) {
                AttentionCase c;
                c.key_size = size[0], c.value_size = size[1];
                c.queries = queries, c.keys = keys;
                c.mask = keys == 1 ? 0 : 1;
                if (size[0] > 128 && queries > 3 && keys > 600) continue;  // the host is slow
                test_attention(runner, c);
            }
    for (const int mask : {0, 1, 2, 3})
        for (const bool sinks : {false, true})
            for (const std::int64_t queries : {1, 20}) {
                AttentionCase c;
                c.mask = mask, c.sinks = sinks, c.queries = queries, c.keys = 333;
                c.sequences = mask == 2 ? 1 : 3;
                test_attention(runner, c);
                c.max_bias = mask != 0 ? 8.0F : 0.0F;
                c.heads = 6, c.key_heads = 1, c.key_size = c.value_size = 64;
                test_attention(runner, c);
                c.softcap = 10;
                c.swapped = false;
                test_attention(runner, c);
            }
}

void test_attention_tiles(Runner& runner) {
    for (const std::int64_t size : {64, 80, 128, 192, 256})
        for (const std::int64_t queries : {40, 150})
            for (const std::int64_t keys : {8, 136, 640})
                for (const int mask : {0, 1, 2, 3}) {
                    AttentionCase c;
                    c.key_size = size, c.value_size = size == 192 ? 128 : size;
                    c.queries = queries, c.keys = keys, c.mask = mask;
                    c.sinks = keys == 136, c.max_bias = mask == 1 && keys == 640 ? 8.0F : 0.0F;
                    c.softcap = mask == 2 && keys == 640 ? 10.0F : 0.0F;
                    const bool is_half = queries == 40 || size % 32 != 0;
                    c.key_type = c.value_type = is_half ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
                    test_attention(runner, c);
                }
}

/// Caches of few rows: all ways in which rows share keys, with and without an end inside a tile.
void test_attention_caches(Runner& runner) {
    const std::int64_t rows[][3] = {{1, 1, 1}, {1, 8, 2}, {1, 7, 1},
                                    {1, 8, 1}, {2, 3, 1}, {3, 4, 2}};
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q5_1, GGML_TYPE_Q5_0,
                            GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL})
        for (const std::int64_t size : {64, 80, 128, 256})
            for (const auto& [queries, heads, key_heads] : rows)
                for (const int mask : {0, 1, 2, 3}) {
                    AttentionCase c;
                    c.key_type = c.value_type = type;
                    c.key_size = c.value_size = size;
                    if (size == 80 && type != GGML_TYPE_F16) continue;
                    c.queries = queries, c.heads = heads, c.key_heads = key_heads, c.mask = mask;
                    c.keys = type == GGML_TYPE_F16 ? (mask == 0 ? 4099 : 4872) : 40 + 800 * mask;
                    c.sinks = mask == 1 && size == 128;
                    c.max_bias = mask == 1 && queries == 2 ? 8.0F : 0.0F;
                    c.softcap = mask == 2 && queries == 3 ? 10.0F : 0.0F;
                    c.sequences = mask == 0 && key_heads == 2 ? 2 : 1;
                    c.swapped = heads != 7;
                    test_attention(runner, c);
                }
}

void test_attention_types(Runner& runner) {
    const Type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,   GGML_TYPE_Q8_0,
                          GGML_TYPE_Q5_1, GGML_TYPE_Q5_0, GGML_TYPE_Q4_1,   GGML_TYPE_Q4_0,
                          GGML_TYPE_Q1_0, GGML_TYPE_Q2_0, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4};
    for (const Type key : types)
        for (const Type value : types)
            for (const std::int64_t queries : {1, 5}) {
                AttentionCase c;
                c.key_type = key, c.value_type = value;
                c.queries = queries, c.keys = 200;
                test_attention(runner, c);
            }
    AttentionCase c;
    c.key_size = c.value_size = 256, c.key_type = GGML_TYPE_Q6_K, c.value_type = GGML_TYPE_IQ4_XS;
    test_attention(runner, c);
}

int run_all() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("no CUDA device: nothing to test\n");
        return 0;
    }
    Runner runner;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<Type>(i);
        if (type > GGML_TYPE_F16 && type != GGML_TYPE_BF16 && quant::codec_of(type) == nullptr)
            continue;
        test_products_of(runner, type);
        for (const std::int64_t tokens : {1, 4, 9, 150})
            for (const bool shared : {false, true})
                test_mul_mat_id(runner, type, tokens, tokens == 4 ? 3 : 2, shared);
        test_out_prod(runner, type);
    }
    test_odd_depths(runner);
    test_attention_shapes(runner);
    test_attention_tiles(runner);
    test_attention_caches(runner);
    test_attention_types(runner);

    int failures = 0;
    for (const auto& [name, tally] : g_tallies) {
        std::printf("%-24s %5d cases, %4d failed, worst nmse %.2g\n", name.c_str(), tally.cases,
                    tally.failures, tally.worst);
        failures += tally.failures;
    }
    std::printf(failures == 0 ? "all passed\n" : "%d FAILED\n", failures);
    return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace heddle::cuda

int main(int count, char** words) {
    if (count > 1) heddle::cuda::g_only = words[1];
    return heddle::cuda::run_all();
}
