// Launches that leave their results coded for each other, against their definitions in double
// precision: a part of groups_test.cpp.

#include "backends/cuda/kernels/attention/attention.hpp"
#include "backends/cuda/kernels/groups_test_support.hpp"
#include "backends/cuda/kernels/products/gemv_column.hpp"
#include "ops/flash_attn.hpp"
#include "ops/glu.hpp"
#include "ops/norm.hpp"

namespace heddle::cuda {
namespace {

/// A sum, the gate behind its norm, and a product.
struct Chain {
    Workshop shop;
    std::vector<float> x, w, b, weights, wg, wu, wd;
    Tensor *norm_weights, *sum, *glu, *down;
    ColumnGroup groups[3];

    Chain(Type type, std::int64_t depth, std::int64_t width, std::int64_t inner) {
        const Type plain = GGML_TYPE_F32;
        Tensor& product = shop.node(
            GGML_OP_MUL_MAT, plain,
            {&shop.random(type, depth, width, w), &shop.random(plain, depth, 1, x)}, width);
        sum = &shop.node(GGML_OP_ADD, plain, {&product, &shop.random(plain, width, 1, b)}, width);
        norm_weights = &shop.random(plain, width, 1, weights);
        Tensor& norm = shop.node(GGML_OP_RMS_NORM, plain, {sum}, width);
        set_params_of(norm, ops::RmsNorm::Params{1e-5f});
        Tensor& scale = shop.node(GGML_OP_MUL, plain, {&norm, norm_weights}, width);
        Tensor &gate = shop.node(GGML_OP_MUL_MAT, plain,
                                 {&shop.random(type, width, inner, wg), &scale}, inner),
               &up = shop.node(GGML_OP_MUL_MAT, plain,
                               {&shop.random(type, width, inner, wu), &scale}, inner);
        glu = &shop.node(GGML_OP_GLU, plain, {&gate, &up}, inner);
        set_params_of(*glu, ops::Glu::Params{GGML_GLU_OP_REGLU});
        down = &shop.node(GGML_OP_MUL_MAT, plain, {&shop.random(type, inner, 64, wd), glu}, 64);
        groups[0] = {.products = {&product}, .count = 1, .sum = sum};
        groups[1] = {
            .norm = &norm, .scale = &scale, .products = {&gate, &up}, .count = 2, .gate = glu};
        groups[2] = {.products = {down}, .count = 1};
    }

    void launch(Launch launch, std::byte* room) const {
        for (int i = 0; i < 3; ++i) {
            launch.left = i < 2 ? PassedColumn::in(room, i) : PassedColumn{};
            launch.left_weights = i == 0 ? norm_weights : nullptr;
            launch_columns(groups[i], launch);
            launch.taken = launch.left;
        }
        check(cudaDeviceSynchronize(), "columns that are passed on");
    }
    /// What each launch gives, for the results of the ones before.
    std::vector<Doubles> expected(const std::vector<std::vector<float>>& results) const {
        Doubles s = product(w, Doubles(x.begin(), x.end()));
        for (std::size_t i = 0; i < s.size(); ++i) s[i] += b[i];
        const Doubles n = normed(results[0], weights), g = product(wg, n), u = product(wu, n);
        Doubles gated(g.size());
        for (std::size_t i = 0; i < g.size(); ++i) gated[i] = g[i] > 0 ? g[i] * u[i] : 0;
        return {s, gated, product(wd, Doubles(results[1].begin(), results[1].end()))};
    }
    std::vector<std::vector<float>> results() const {
        return {read(*sum), read(*glu), read(*down)};
    }
};

double relative_error(const Doubles& expected, const std::vector<float>& got) {
    double error = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        error += (got[i] - expected[i]) * (got[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    return error / size;
}

}  // namespace

/// Three times over, the last time chained.
void run_passed(Type type, std::int64_t depth, std::int64_t width, std::int64_t inner,
                double limit) {
    if (!is_passed_to(type)) return;
    ++g_cases;
    const std::string words = std::string(type_info(type).name) + " passed on, " +
                              std::to_string(width) + " and " + std::to_string(inner);
    const auto fail = [&](const std::string& what) {
        ++g_failures;
        std::printf("FAILED %s: %s\n", words.c_str(), what.c_str());
    };
    Chain chain(type, depth, width, inner);
    auto* const room = static_cast<std::byte*>(
        chain.shop.tensor(GGML_TYPE_I8, std::int64_t{PassedColumn::kRoom}).data);
    Launch launch{.stream = nullptr, .scratch = nullptr, .device = device_facts()};
    chain.launch(launch, room);
    const auto first = chain.results();
    for (const bool is_chained : {false, true}) {
        launch.is_chained = launch.reads_ahead = is_chained;
        chain.launch(launch, room);
        if (chain.results() != first) fail("results differ the second time");
    }
    const std::vector<Doubles> expected = chain.expected(first);
    for (std::size_t i = 0; i < 3; ++i) {
        const double error = relative_error(expected[i], first[i]);
        if (!(error <= (i == 1 ? 4 : 1) * limit))
            fail("result " + std::to_string(i) + " NMSE " + std::to_string(error));
    }
}

void run_passed_attention(std::int64_t group_heads) {
    constexpr std::int64_t kSize = 128, kKeys = 1024, kKeyHeads = 4;
    const std::int64_t heads = kKeyHeads * group_heads, width = heads * kSize;
    Workshop shop;
    std::vector<float> numbers, w;
    const auto matrices = [](Tensor& t, std::int64_t rows, std::int64_t count) {
        t.ne[1] = rows, t.ne[2] = count;
        t.nb[2] = t.nb[1] * static_cast<std::size_t>(rows);
    };
    Tensor &q = shop.random(GGML_TYPE_F32, kSize, heads, numbers),
           &k = shop.random(GGML_TYPE_F16, kSize, kKeys * kKeyHeads, numbers),
           &v = shop.random(GGML_TYPE_F16, kSize, kKeys * kKeyHeads, numbers);
    matrices(q, 1, heads), matrices(k, kKeys, kKeyHeads), matrices(v, kKeys, kKeyHeads);
    Tensor& attention =
        shop.node(GGML_OP_FLASH_ATTN_EXT, GGML_TYPE_F32, {&q, &k, &v}, kSize, heads);
    set_params_of(attention, ops::FlashAttnExt::Params{0.1F, 0, 0, GGML_PREC_DEFAULT});
    Tensor& column = shop.tensor(GGML_TYPE_F32, width);
    column.data = attention.data;
    Tensor& y = shop.node(GGML_OP_MUL_MAT, GGML_TYPE_F32,
                          {&shop.random(GGML_TYPE_Q8_0, width, 64, w), &column}, 64);

    const auto room = [&](std::size_t bytes) {
        void* const data = shop.tensor(GGML_TYPE_I8, static_cast<std::int64_t>(bytes)).data;
        check(cudaMemset(data, 0, bytes), "room");
        return static_cast<std::byte*>(data);
    };
    const DeviceFacts& device = device_facts();
    Launch launch{.stream = nullptr,
                  .scratch = room(kAttentionToken.scratch(attention, device) + 256),
                  .device = device,
                  .tickets = reinterpret_cast<unsigned*>(room(kTickets * sizeof(unsigned)))};
    launch.left = PassedColumn::in(room(PassedColumn::kRoom), 0);
    kAttentionToken.launch(attention, launch);
    launch.taken = launch.left, launch.left = {};
    launch_columns({.products = {&y}, .count = 1}, launch);
    check(cudaDeviceSynchronize(), "attention that is passed on");

    ++g_cases;
    const std::vector<float> weighed = read(attention);
    const double error =
        relative_error(product(w, Doubles(weighed.begin(), weighed.end())), read(y));
    // Numbers lose 1.5e-5 of their squares to eight bits.
    if (can_pass(attention, kAttentionToken) && error <= 1e-4) return;
    ++g_failures;
    std::printf("FAILED attention passed on, %d heads share keys: NMSE %g\n",
                static_cast<int>(group_heads), error);
}

}  // namespace heddle::cuda
