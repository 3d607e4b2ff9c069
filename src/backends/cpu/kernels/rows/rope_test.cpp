#include "ops/rope.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/test_support.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_nn.h"

namespace heddle::cpu {
namespace {

using Params = ops::Rotation::Params;

/// Which position pair `p` goes by, and the power of the frequency it has.
std::pair<int, std::int64_t> place_of(const Params& params, std::int64_t p) {
    const auto [s0, s1, s2, s3] = params.sections;
    if ((params.mode & GGML_ROPE_TYPE_MROPE) == 0) return {0, p};
    const std::int64_t k = p % (s0 + s1 + s2 + s3);
    if (params.mode == GGML_ROPE_TYPE_IMROPE) {
        if (k % 3 == 1 && k < 3 * s1) return {1, p};
        if (k % 3 == 2 && k < 3 * s2) return {2, p};
        if (k % 3 == 0 && k < 3 * s0) return {0, p};
        return {3, p};
    }
    const int axis = k < s0 ? 0 : k < s0 + s1 ? 1 : k < s0 + s1 + s2 ? 2 : 3;
    const std::int64_t start[] = {0, s0, s0 + s1, s0 + s1 + s2};
    return {axis, params.mode == GGML_ROPE_TYPE_VISION ? k - start[axis] : p};
}

double angle_of(const Params& params, std::int64_t p, double extrapolated, double* magnitude) {
    const double interpolated = params.freq_scale * extrapolated;
    *magnitude = params.attn_factor;
    if (params.ext_factor == 0) return interpolated;
    const auto [low, high] = ops::rope_yarn_corr_dims(
        params.n_dims, params.n_ctx_orig, params.freq_base, params.beta_fast, params.beta_slow);
    const double along = (double(p) - low) / std::max(0.001, double{high} - low);
    const double mix = (1 - std::clamp(along, 0.0, 1.0)) * params.ext_factor;
    *magnitude *= 1 + 0.1 * std::log(1 / double{params.freq_scale});
    return interpolated * (1 - mix) + extrapolated * mix;
}

std::vector<double> expected_of(const Tensor& node) {
    const auto params = unpack<Params>(node);
    const Tensor &x = *node.src[0], &positions = *node.src[1];
    const Tensor* factors = node.src[2];
    const bool vision = params.mode == GGML_ROPE_TYPE_VISION;
    const std::int64_t pairs = vision ? params.n_dims : params.n_dims / 2;
    std::vector<double> result = values_of(x);
    for (std::int64_t r = 0; r < row_count(x); ++r) {
        const std::int64_t token = r / x.ne[1] % x.ne[2];
        double* row = result.data() + r * x.ne[0] + params.n_offs;
        for (std::int64_t p = 0; p < pairs; ++p) {
            const auto [axis, power] = place_of(params, p);
            const double step = std::pow(double{params.freq_base}, -2.0 / params.n_dims);
            double extrapolated =
                value_at(positions, token + axis * x.ne[2]) * std::pow(step, double(power));
            if (factors != nullptr) extrapolated /= value_at(*factors, p);
            double magnitude;
            const double angle = angle_of(params, p, extrapolated, &magnitude);
            const double c = magnitude * std::cos(angle);
            const double s = magnitude * std::sin(angle) * (node.op == GGML_OP_ROPE_BACK ? -1 : 1);
            const bool normal = params.mode == GGML_ROPE_TYPE_NORMAL;
            double& first = normal ? row[2 * p] : row[p];
            double& second = normal ? row[2 * p + 1] : row[p + pairs];
            const double x0 = first, x1 = second;
            first = x0 * c - x1 * s;
            second = x0 * s + x1 * c;
        }
    }
    return result;
}

Tensor* positions_for(Workbench& bench, const Params& params, std::int64_t tokens) {
    const std::int64_t each = ops::Rotation::has_four_positions(params.mode) ? 4 : 1;
    return bench.random(GGML_TYPE_I32, {tokens * each, 1, 1, 1}, -100, 512);
}

/// Angles up to 512 have an error of 512 * 2^-24, several times over.
constexpr double kAbsolute = 3e-4;

std::vector<Params> all_modes() {
    Params normal{.n_dims = 32}, partial{.n_dims = 20},
        neox{.n_dims = 36, .mode = GGML_ROPE_TYPE_NEOX};
    Params shifted{.n_dims = 24, .mode = GGML_ROPE_TYPE_NEOX, .n_offs = 8};
    Params shifted_normal{.n_dims = 8, .n_offs = 20};
    Params mrope{.n_dims = 36, .mode = GGML_ROPE_TYPE_MROPE, .sections = {4, 5, 3, 0}};
    Params four{.n_dims = 24, .mode = GGML_ROPE_TYPE_MROPE, .sections = {2, 3, 4, 3}};
    Params imrope{.n_dims = 36, .mode = GGML_ROPE_TYPE_IMROPE, .sections = {6, 6, 5, 2}};
    Params vision{.n_dims = 18, .mode = GGML_ROPE_TYPE_VISION, .sections = {4, 3, 2, 1}};
    return {normal, partial, neox, shifted, shifted_normal, mrope, four, imrope, vision};
}

TEST(CpuRope, TurnsPairsInEveryModeThereAndBack) {
    for (const Params& params : all_modes()) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            SCOPED_TRACE(testing::Message() << "mode " << params.mode << " n_dims " << params.n_dims
                                            << " " << name_of(type));
            Workbench bench;
            Tensor* x = bench.random(type, {36, 3, 5, 2});
            Tensor* positions = positions_for(bench, params, 5);
            Tensor* factors = bench.random(GGML_TYPE_F32, {36, 1, 1, 1}, 0.9, 1.1);
            const double relative = rounding_of(type);
            for (Tensor* optional : {static_cast<Tensor*>(nullptr), factors}) {
                Tensor* y = bench.node<ops::Rope>(params, {x, positions, optional});
                expect_result(bench, *y, expected_of(*y), relative, kAbsolute);
                Tensor* back = bench.node<ops::RopeBack>(params, {x, positions, optional});
                expect_result(bench, *back, expected_of(*back), relative, kAbsolute);
            }
        }
    }
}

TEST(CpuRope, MixesAnglesAsYarnSays) {
    for (const int context : {0, 512}) {
        for (Params params : all_modes()) {
            params.n_ctx_orig = context;
            params.freq_scale = 1.4245f;
            params.ext_factor = 0.7465f;
            params.attn_factor = 1.4245f;
            params.beta_fast = context == 0 ? 1 : 32;
            params.beta_slow = 1;
            Workbench bench;
            Tensor* x = bench.random(GGML_TYPE_F32, {36, 2, 5, 1});
            Tensor* y = bench.node<ops::Rope>(params, {x, positions_for(bench, params, 5)});
            expect_result(bench, *y, expected_of(*y), 2e-6, kAbsolute);
        }
    }
}

TEST(CpuRope, ReadsViewsAndWritesIntoThem) {
    for (const bool in_place : {false, true}) {
        for_each_way([&](int tasks) {
            Workbench bench;
            Tensor* whole = bench.random(GGML_TYPE_F32, {90, 4, 6, 2});
            Tensor* x = bench.slice(whole, {7, 0, 1, 0}, {64, 3, 4, 2});
            const Params params{.n_dims = 40, .mode = GGML_ROPE_TYPE_NEOX};
            Tensor* positions = positions_for(bench, params, 4);
            Tensor* y = in_place ? bench.node_in_place<ops::Rope>(params, {x, positions})
                                 : bench.node<ops::Rope>(params, {x, positions});
            const auto expected = expected_of(*y);
            ASSERT_TRUE(run_node(*y, tasks));
            expect_close(*y, expected, 2e-6, kAbsolute);
        });
    }
}

TEST(CpuRope, StaysAccurateAtPositionsFarAway) {
    Workbench bench;
    const Params params{.n_dims = 64};
    Tensor* x = bench.random(GGML_TYPE_F32, {64, 1, 2, 1});
    Tensor* positions = bench.numbers(GGML_TYPE_I32, {2, 1, 1, 1}, {131071, 40000});
    Tensor* y = bench.node<ops::Rope>(params, {x, positions});
    expect_result(bench, *y, expected_of(*y), 0, 0.03);  // 131071 radians, rounded at 2^-8
    // Farther than a few products can bring back to the first quarter; the fastest pair is exact.
    set_values(*positions, {1 << 23, -(1 << 22)});
    Tensor* far = bench.node<ops::Rope>({.n_dims = 2}, {x, positions});
    expect_result(bench, *far, expected_of(*far), 0, 1e-6);
}

/// Heads are turned several at a time; however many there are, each has the bits it has alone.
TEST(CpuRope, TurnsEachHeadAsIfItWereAlone) {
    for (const std::int32_t mode : {GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX}) {
        for_each_target([&] {
            Workbench bench;
            const Params params{.n_dims = 44, .mode = mode, .n_offs = 2};
            Tensor* x = bench.random(GGML_TYPE_F32, {50, 11, 3, 2});
            Tensor* positions = positions_for(bench, params, 3);
            Tensor* y = bench.node<ops::Rope>(params, {x, positions});
            ASSERT_TRUE(run_node(*y, 1));
            for (std::int64_t head = 0; head < 11; ++head) {
                Tensor* alone = bench.node<ops::Rope>(
                    params, {bench.slice(x, {0, head, 0, 0}, {50, 1, 3, 2}), positions});
                ASSERT_TRUE(run_node(*alone, 2));
                const Tensor* same = bench.slice(y, {0, head, 0, 0}, {50, 1, 3, 2});
                EXPECT_EQ(values_of(*alone), values_of(*same)) << "head " << head;
            }
        });
    }
}

TEST(CpuRope, DemandsEnoughScratchForManyTasks) {
    Workbench bench;
    const Params params{.n_dims = 128};
    Tensor* x = bench.random(GGML_TYPE_F16, {128, 16, 64, 1});
    Tensor* y = bench.node<ops::Rope>(params, {x, positions_for(bench, params, 64)});
    const auto expected = expected_of(*y);
    for (const int threads : {1, 3, 8}) {
        ASSERT_TRUE(run_demanded(*y, threads));
        expect_close(*y, expected, 0x1p-11, kAbsolute);
    }
}

TEST(CpuRope, SaysWhyItDeclines) {
    const auto objection_with = [](const Params& params, Type type = GGML_TYPE_F32) {
        Workbench bench;
        Tensor* x = bench.tensor(type, {36, 1, 2, 1});
        return objection_to(*bench.node<ops::Rope>(params, {x, positions_for(bench, params, 2)}));
    };
    EXPECT_EQ(objection_with({.n_dims = 32}, GGML_TYPE_BF16), "x is not f32 or f16");
    EXPECT_EQ(objection_with({.n_dims = 38}), "rows are shorter than n_dims");
    EXPECT_EQ(objection_with({.n_dims = 32, .mode = 4}), "there is no such mode");
    EXPECT_EQ(objection_with({.n_dims = 32, .mode = GGML_ROPE_TYPE_MROPE}),
              "the first three sections are 0");
    EXPECT_EQ(
        objection_with({.n_dims = 16, .mode = GGML_ROPE_TYPE_VISION, .sections = {4, 4, 0, 0}}),
        "n_dims is not half a row, as vision wants it");
}

}  // namespace
}  // namespace heddle::cpu
