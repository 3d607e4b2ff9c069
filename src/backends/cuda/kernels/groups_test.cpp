/// Launches that compute several nodes around matrix-vector products, against their definitions in
/// double precision, on a device.
///
/// Every group runs twice, the second time chained to the first and with weights read ahead: what
/// they give must be near enough and equal bit for bit. Prints a line per type; without a device
/// there is nothing to do.

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/kernels/groups_test_support.hpp"
#include "backends/cuda/kernels/products/gemv_column.hpp"
#include "core/half.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ops/glu.hpp"
#include "ops/norm.hpp"
#include "ops/rope.hpp"
#include "quant/codec.hpp"

namespace heddle::cuda {
namespace {

constexpr std::int64_t kHead = 32;
constexpr std::int32_t kPosition = 7;

Doubles turned(Doubles x, bool is_adjacent, std::int64_t dims) {
    for (std::size_t head = 0; head < x.size(); head += kHead) {
        for (std::int64_t p = 0; p < dims / 2; ++p) {
            const double angle =
                kPosition * std::pow(10000.0, -2.0 * double(p) / static_cast<double>(dims));
            double& a = x[head + static_cast<std::size_t>(is_adjacent ? 2 * p : p)];
            double& b = x[head + static_cast<std::size_t>(is_adjacent ? 2 * p + 1 : p + dims / 2)];
            const double first = a, second = b;
            a = first * std::cos(angle) - second * std::sin(angle);
            b = first * std::sin(angle) + second * std::cos(angle);
        }
    }
    return x;
}

struct Expected {
    const Tensor* tensor;
    std::size_t offset;  ///< elements
    Doubles values;
};

/// The launch, twice; results near enough, and the same.
void run(const ColumnGroup& group, const std::vector<Expected>& expected, double limit,
         const std::string& words) {
    const DeviceFacts& device = device_facts();
    ++g_cases;
    const auto fail = [&](const std::string& what) {
        ++g_failures;
        std::printf("FAILED %s: %s\n", words.c_str(), what.c_str());
    };
    for (int i = 0; i < group.count; ++i) {
        const auto number = static_cast<std::size_t>(i);
        if (const auto reason = column_objection(*group.products[number], device); !reason.empty())
            return fail(std::string(reason));
        if (!group.has_end(i)) continue;
        const auto reason = end_objection(group, i, group.ends[number], device);
        if (!reason.empty()) return fail(std::string(reason));
    }
    Launch launch{.stream = nullptr, .scratch = nullptr, .device = device};
    launch_columns(group, launch);
    check(cudaDeviceSynchronize(), words.c_str());
    std::vector<std::vector<float>> first;
    for (const Expected& one : expected) first.push_back(read(*one.tensor));
    launch.reads_ahead = true;
    launch_columns(group, launch);
    launch.is_chained = true;
    ColumnGroup early = group;
    early.has_early_inputs = true;
    launch_columns(early, launch);
    check(cudaDeviceSynchronize(), words.c_str());
    for (std::size_t e = 0; e < expected.size(); ++e) {
        const std::vector<float> again = read(*expected[e].tensor);
        double error = 0, size = 0;
        for (std::size_t i = 0; i < expected[e].values.size(); ++i) {
            const double want = expected[e].values[i], got = first[e][expected[e].offset + i];
            error += (got - want) * (got - want), size += want * want;
        }
        if (!(error <= limit * size))
            fail("result " + std::to_string(e) + " NMSE " + std::to_string(error / size));
        if (std::memcmp(again.data(), first[e].data(), again.size() * sizeof(float)) != 0)
            fail("result " + std::to_string(e) + " differs the second time");
    }
}

/// Norm, three products, ROPE and stores.
void run_attention_input(Type type, std::int64_t depth, bool is_adjacent, double limit) {
    Workshop shop;
    std::vector<float> x, weights, wq, wk, wv;
    Tensor &a = shop.random(GGML_TYPE_F32, depth, 1, x),
           &w = shop.random(GGML_TYPE_F32, depth, 1, weights);
    const std::int64_t rows[] = {7 * kHead, 3 * kHead, 3 * kHead};
    Tensor& norm = shop.node(GGML_OP_RMS_NORM, GGML_TYPE_F32, {&a}, depth);
    set_params_of(norm, ops::RmsNorm::Params{1e-5f});
    Tensor& scale = shop.node(GGML_OP_MUL, GGML_TYPE_F32, {&norm, &w}, depth);
    Tensor* matrices[] = {&shop.random(type, depth, rows[0], wq),
                          &shop.random(type, depth, rows[1], wk),
                          &shop.random(type, depth, rows[2], wv)};
    ColumnGroup group{.norm = &norm, .scale = &scale, .count = 3};
    Tensor &positions = shop.tensor(GGML_TYPE_I32, 1), &index = shop.tensor(GGML_TYPE_I64, 1);
    const std::int64_t row = 2;
    Workshop::upload(positions, &kPosition);
    Workshop::upload(index, &row);
    const std::int64_t dims = is_adjacent ? kHead : kHead / 2;  // the rest stays as it is
    for (std::size_t i = 0; i < 3; ++i) {
        Tensor& y = shop.node(GGML_OP_MUL_MAT, GGML_TYPE_F32, {matrices[i], &scale}, rows[i]);
        group.products[i] = &y;
        if (i < 2) {
            Tensor& rope =
                shop.node(GGML_OP_ROPE, GGML_TYPE_F32, {&y, &positions}, kHead, rows[i] / kHead);
            ops::Rope::Params params{};
            params.n_dims = static_cast<std::int32_t>(dims);
            params.mode = is_adjacent ? GGML_ROPE_TYPE_NORMAL : GGML_ROPE_TYPE_NEOX;
            params.freq_base = 10000, params.freq_scale = 1, params.attn_factor = 1;
            set_params_of(rope, params);
            group.ends[i].rope = &rope;
        }
        if (i == 0) continue;
        group.ends[i].store = &shop.node(GGML_OP_SET_ROWS, GGML_TYPE_F16, {&y, &index}, rows[i], 5);
    }
    const Doubles column = normed(x, weights);
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(row * rows[i]); };
    run(group,
        {{group.ends[0].rope, 0, turned(product(wq, column), is_adjacent, dims)},
         {group.ends[1].store, at(1), turned(product(wk, column), is_adjacent, dims)},
         {group.ends[2].store, at(2), product(wv, column)}},
        limit + 1e-6, std::string(type_info(type).name) + " norm, q k v " + std::to_string(depth));
}

/// Norm, two products and their gate; or products alone, of one row more.
void run_gate(Type type, std::int64_t depth, std::int64_t rows, double limit) {
    Workshop shop;
    std::vector<float> x, weights, wg, wu;
    Tensor &a = shop.random(GGML_TYPE_F32, depth, 1, x),
           &w = shop.random(GGML_TYPE_F32, depth, 1, weights);
    Tensor& norm = shop.node(GGML_OP_RMS_NORM, GGML_TYPE_F32, {&a}, depth);
    set_params_of(norm, ops::RmsNorm::Params{1e-5f});
    Tensor& scale = shop.node(GGML_OP_MUL, GGML_TYPE_F32, {&norm, &w}, depth);
    Tensor &mg = shop.random(type, depth, rows, wg), &mu = shop.random(type, depth, rows, wu);
    Tensor &gate = shop.node(GGML_OP_MUL_MAT, GGML_TYPE_F32, {&mg, &scale}, rows),
           &up = shop.node(GGML_OP_MUL_MAT, GGML_TYPE_F32, {&mu, &scale}, rows);
    Tensor& glu = shop.node(GGML_OP_GLU, GGML_TYPE_F32, {&gate, &up}, rows);
    set_params_of(glu, ops::Glu::Params{GGML_GLU_OP_REGLU});
    const Doubles column = normed(x, weights), g = product(wg, column), u = product(wu, column);
    Doubles gated(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) gated[i] = g[i] > 0 ? g[i] * u[i] : 0;
    const std::string words = std::string(type_info(type).name) + " norm, " + std::to_string(rows) +
                              " x " + std::to_string(depth);
    ColumnGroup group{.norm = &norm, .scale = &scale, .products = {&gate, &up}, .count = 2};
    run(group, {{&gate, 0, g}, {&up, 0, u}}, limit, words + ", two products");
    group.gate = &glu;
    run(group, {{&glu, 0, gated}}, 4 * limit, words + ", gate");
}

/// A product, and its sum with something.
void run_sum(Type type, std::int64_t depth, std::int64_t rows, double limit) {
    Workshop shop;
    std::vector<float> x, w, b;
    Tensor &a = shop.random(GGML_TYPE_F32, depth, 1, x), &m = shop.random(type, depth, rows, w),
           &addend = shop.random(GGML_TYPE_F32, rows, 1, b);
    Tensor& y = shop.node(GGML_OP_MUL_MAT, GGML_TYPE_F32, {&m, &a}, rows);
    Tensor& sum = shop.node(GGML_OP_ADD, GGML_TYPE_F32, {&y, &addend}, rows);
    const std::string words = std::string(type_info(type).name) + " " + std::to_string(rows) +
                              " x " + std::to_string(depth);
    const Doubles of = product(w, Doubles(x.begin(), x.end()));
    Doubles expected = of;
    for (std::size_t i = 0; i < of.size(); ++i) expected[i] += b[i];
    ColumnGroup group{.products = {&y}, .count = 1};
    run(group, {{&y, 0, of}}, limit, words);
    group.sum = &sum;
    run(group, {{&sum, 0, expected}}, limit, words + ", sum");
}

void run_type(Type type) {
    // Uniform numbers lose 1.5e-5 of their squares to eight bits; F16 and BF16 2^-24 and 2^-18.
    const double limit = type == GGML_TYPE_F32    ? 1e-10
                         : type == GGML_TYPE_F16  ? 1e-6
                         : type == GGML_TYPE_BF16 ? 2e-5
                                                  : 1e-4;
    const bool is_plain = type == GGML_TYPE_F32;
    for (const std::int64_t depth : {256, 1024, 4096, 5120, is_plain ? 2048 : 14336}) {
        if (depth % block_size(type) != 0 || row_size(type, depth) % 4 != 0) continue;
        run_sum(type, depth, 301, limit);
        run_gate(type, depth, 131, limit);
    }
    if (type == GGML_TYPE_F16) run_sum(type, 14336, 9601, limit);  // more than sums wait for
    run_attention_input(type, 1024, true, limit);
    run_attention_input(type, 4096, false, limit);
    run_passed(type, 512, 1536, 2560, limit);  // fewer units than multiprocessors
    run_passed(type, 512, 512, 8704, limit);   // more than whole units
}

}  // namespace
}  // namespace heddle::cuda

int main() {
    using namespace heddle::cuda;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        std::printf("no CUDA device: nothing to test\n");
        return 0;
    }
    for (const heddle::Type type :
         {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
          GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4,
          GGML_TYPE_NVFP4, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K,
          GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS}) {
        const int cases = g_cases, failures = g_failures;
        run_type(type);
        std::printf("%-8s %3d groups, %d failed\n", heddle::type_info(type).name, g_cases - cases,
                    g_failures - failures);
    }
    // A block joins the splits of one, three and four warps' worth of results: it has four warps.
    for (const int group_heads : {1, 3, 4}) run_passed_attention(group_heads);
    std::printf("[  %s  ] %d tests\n", g_failures == 0 ? "PASSED" : "FAILED", g_cases);
    return g_failures == 0 ? 0 : 1;
}
