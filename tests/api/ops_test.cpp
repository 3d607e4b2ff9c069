#include <cmath>

#include "test_support.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

// Every function is one op of the C API, which has tests of its own; here is checked that each
// reaches the op it names, with its arguments in their places.

class OneOp : public testing::Test {
protected:
    Tensor vector(std::int64_t n) { return context.tensor(GGML_TYPE_F32, {n}, "v"); }
    Tensor matrix(std::int64_t m, std::int64_t n) {
        return context.tensor(GGML_TYPE_F32, {m, n}, "m");
    }

    /// f(x) for the numbers of a row.
    template <class Function>
    std::vector<float> of(const Function& f, const std::vector<float>& values) {
        Context own = must(Context::make());
        const Tensor x =
            own.tensor(GGML_TYPE_F32, {static_cast<std::int64_t>(values.size())}, "x").as_input();
        return computed(own, f(x), {x}, {values});
    }

    Context context = must(Context::make());
    Calculator computed;
};

#define EXPECT_CLOSE(actual, ...) \
    EXPECT_THAT(actual, Pointwise(FloatNear(1e-3f), std::vector<float>{__VA_ARGS__}))

TEST_F(OneOp, OfOneNumber) {
    EXPECT_CLOSE(of([](Tensor x) { return -x; }, {1, -2}), -1, 2);
    EXPECT_CLOSE(of([](Tensor x) { return abs(x); }, {1, -2}), 1, 2);
    EXPECT_CLOSE(of([](Tensor x) { return sgn(x); }, {3, -2, 0}), 1, -1, 0);
    EXPECT_CLOSE(of([](Tensor x) { return step(x); }, {3, -2}), 1, 0);
    EXPECT_CLOSE(of([](Tensor x) { return sqr(x); }, {3, -2}), 9, 4);
    EXPECT_CLOSE(of([](Tensor x) { return sqrt(x); }, {9, 4}), 3, 2);
    EXPECT_CLOSE(of([](Tensor x) { return exp(x); }, {0, 1}), 1, 2.7183f);
    EXPECT_CLOSE(of([](Tensor x) { return expm1(x); }, {0, 1}), 0, 1.7183f);
    EXPECT_CLOSE(of([](Tensor x) { return log(x); }, {1, 2.7183f}), 0, 1);
    EXPECT_CLOSE(of([](Tensor x) { return sin(x); }, {0, 1}), 0, 0.8415f);
    EXPECT_CLOSE(of([](Tensor x) { return cos(x); }, {0, 1}), 1, 0.5403f);
    EXPECT_CLOSE(of([](Tensor x) { return floor(x); }, {1.5f, -1.5f}), 1, -2);
    EXPECT_CLOSE(of([](Tensor x) { return ceil(x); }, {1.5f, -1.5f}), 2, -1);
    EXPECT_CLOSE(of([](Tensor x) { return round(x); }, {1.6f, -1.6f}), 2, -2);
    EXPECT_CLOSE(of([](Tensor x) { return trunc(x); }, {1.6f, -1.6f}), 1, -1);
}

TEST_F(OneOp, OfANumberAndConstants) {
    EXPECT_CLOSE(of([](Tensor x) { return 2.0f * x + 1.0f; }, {1, 2}), 3, 5);
    EXPECT_CLOSE(of([](Tensor x) { return x / 2.0f - 1.0f; }, {1, 2}), -0.5f, 0);
    EXPECT_CLOSE(of([](Tensor x) { return 1.0f - x; }, {1, 2}), 0, -1);
    EXPECT_CLOSE(of([](Tensor x) { return 1.0f + x; }, {1, 2}), 2, 3);
    EXPECT_CLOSE(of([](Tensor x) { return clamp(x, -1, 1); }, {-5, 0.5f, 5}), -1, 0.5f, 1);
    EXPECT_CLOSE(of([](Tensor x) { return clamp(x, -1, 1) + x; }, {-5, 5}), -6, 6);
    EXPECT_CLOSE(of([](Tensor x) { return fill(x, 3); }, {1, 2}), 3, 3);
}

TEST_F(OneOp, ThatActivates) {
    EXPECT_CLOSE(of([](Tensor x) { return tanh(x); }, {0, 1}), 0, 0.7616f);
    EXPECT_CLOSE(of([](Tensor x) { return elu(x); }, {1, -1}), 1, -0.6321f);
    EXPECT_CLOSE(of([](Tensor x) { return relu(x); }, {1, -1}), 1, 0);
    EXPECT_CLOSE(of([](Tensor x) { return leaky_relu(x, 0.1f); }, {1, -1}), 1, -0.1f);
    EXPECT_CLOSE(of([](Tensor x) { return sigmoid(x); }, {0, 1}), 0.5f, 0.7311f);
    EXPECT_CLOSE(of([](Tensor x) { return softplus(x); }, {0, 1}), 0.6931f, 1.3133f);
    EXPECT_CLOSE(of([](Tensor x) { return gelu(x); }, {0, 1}), 0, 0.8412f);
    EXPECT_CLOSE(of([](Tensor x) { return gelu_erf(x); }, {0, 1}), 0, 0.8413f);
    EXPECT_CLOSE(of([](Tensor x) { return gelu_quick(x); }, {0, 1}), 0, 0.8458f);
    EXPECT_CLOSE(of([](Tensor x) { return silu(x); }, {0, 1}), 0, 0.7311f);
    EXPECT_CLOSE(of([](Tensor x) { return hardswish(x); }, {0, 1}), 0, 0.6667f);
    EXPECT_CLOSE(of([](Tensor x) { return hardsigmoid(x); }, {0, 1}), 0.5f, 0.6667f);
    EXPECT_CLOSE(of([](Tensor x) { return swiglu(x, x + 1.0f); }, {1}), 1.4622f);
    EXPECT_CLOSE(of([](Tensor x) { return geglu(x, x + 1.0f); }, {1}), 1.6824f);
    EXPECT_CLOSE(of([](Tensor x) { return reglu(x, x + 1.0f); }, {1, -1}), 2, 0);
}

TEST_F(OneOp, OverRows) {
    EXPECT_CLOSE(of([](Tensor x) { return sum(x); }, {1, 2, 3}), 6);
    EXPECT_CLOSE(of([](Tensor x) { return sum_rows(x); }, {1, 2, 3}), 6);
    EXPECT_CLOSE(of([](Tensor x) { return mean(x); }, {1, 2, 3}), 2);
    EXPECT_CLOSE(of([](Tensor x) { return cumsum(x); }, {1, 2, 3}), 1, 3, 6);
    EXPECT_CLOSE(of([](Tensor x) { return cast(argmax(x), GGML_TYPE_F32); }, {1, 9, 3}), 1);
    EXPECT_CLOSE(of([](Tensor x) { return cast(argsort(x), GGML_TYPE_F32); }, {2, 9, 1}), 2, 0, 1);
    EXPECT_CLOSE(of([](Tensor x) { return cast(top_k(x, 1), GGML_TYPE_F32); }, {2, 9, 1}), 1);
    EXPECT_CLOSE(of([](Tensor x) { return soft_max(x); }, {0, 0}), 0.5f, 0.5f);
    EXPECT_CLOSE(of([](Tensor x) { return soft_max(x, Tensor(), 0.0f); }, {1, 5}), 0.5f, 0.5f);
    EXPECT_CLOSE(of([](Tensor x) { return norm(x, 0); }, {1, 3}), -1, 1);
    EXPECT_CLOSE(of([](Tensor x) { return rms_norm(x, 0); }, {3, 3}), 1, 1);
    EXPECT_CLOSE(of([](Tensor x) { return l2_norm(x, 0); }, {3, 4}), 0.6f, 0.8f);
    EXPECT_CLOSE(of(
                     [](Tensor x) {
                         return group_norm(reshape(x, {1, 1, 4, 1}), 2, 0);
                     },
                     {1, 3, 10, 30}),
                 -1, 1, -1, 1);
}

TEST_F(OneOp, ThatMoves) {
    EXPECT_CLOSE(of([](Tensor x) { return pad(x, {1, 0, 0, 0}); }, {1, 2}), 1, 2, 0);
    EXPECT_CLOSE(of(
                     [](Tensor x) {
                         return pad(x, {1, 0, 0, 0}, {2, 0, 0, 0});
                     },
                     {1, 2}),
                 0, 1, 2, 0, 0);
    EXPECT_CLOSE(of([](Tensor x) { return pad_reflect(x, 1, 1); }, {1, 2, 3}), 2, 1, 2, 3, 2);
    EXPECT_CLOSE(of([](Tensor x) { return roll(x, {1, 0, 0, 0}); }, {1, 2, 3}), 3, 1, 2);
    EXPECT_CLOSE(of([](Tensor x) { return repeat(x, {4, 1, 1, 1}); }, {1, 2}), 1, 2, 1, 2);
    EXPECT_CLOSE(of([](Tensor x) { return repeat_like(x, concat(x, x, 0)); }, {1, 2}), 1, 2, 1, 2);
    EXPECT_CLOSE(of([](Tensor x) { return concat(x, x, 0); }, {1, 2}), 1, 2, 1, 2);
    EXPECT_CLOSE(of([](Tensor x) { return diag(x); }, {1, 2}), 1, 0, 0, 2);
    EXPECT_CLOSE(of(
                     [](Tensor x) {
                         return contiguous(transpose(reshape(x, {2, 2, 1, 1})));
                     },
                     {1, 2, 3, 4}),
                 1, 3, 2, 4);
    EXPECT_CLOSE(of(
                     [](Tensor x) {
                         return contiguous(permute(reshape(x, {2, 2, 1, 1}), {1, 0, 2, 3}));
                     },
                     {1, 2, 3, 4}),
                 1, 3, 2, 4);
    EXPECT_CLOSE(of(
                     [](Tensor x) {
                         return contiguous(rows(reshape(x, {2, 3, 1, 1}), 1, 1));
                     },
                     {1, 2, 3, 4, 5, 6}),
                 3, 4);
    EXPECT_CLOSE(of(
                     [](Tensor x) {
                         return triangle(reshape(x, {2, 2, 1, 1}), GGML_TRI_TYPE_LOWER);
                     },
                     {1, 2, 3, 4}),
                 0, 0, 3, 0);
    EXPECT_CLOSE(of(
                     [](Tensor x) {
                         return diag_mask_zero(reshape(x, {2, 2, 1, 1}), 0);
                     },
                     {1, 2, 3, 4}),
                 1, 0, 3, 4);
    EXPECT_CLOSE(of(
                     [](Tensor x) {
                         return soft_max(diag_mask_inf(reshape(x, {2, 2, 1, 1}), 0));
                     },
                     {1, 2, 3, 3}),
                 1, 0, 0.5f, 0.5f);
    EXPECT_CLOSE(computed(context, arange(context, 0, 3)), 0, 1, 2);
}

TEST_F(OneOp, OfRowsThatAreNotThereIsRefused) {
    const Tensor m = matrix(2, 3);
    EXPECT_TRUE(rows(m, 1, 2));
    EXPECT_FALSE(rows(m, 2, 2));
    EXPECT_EQ(said(context.check()), "rows: 2 from 2 on of 'm', which has 3");
    Context other = must(Context::make());
    EXPECT_FALSE(rows(transpose(other.tensor(GGML_TYPE_F32, {2, 3}, "t")), 0, 1));
    EXPECT_THAT(said(other.check()), testing::HasSubstr("do not lie one after the other"));
}

TEST_F(OneOp, OnTwoMatrices) {
    const Tensor a = matrix(2, 2).as_input(), b = matrix(2, 2).as_input();
    const auto on = [&](const Tensor& y) {
        return computed(context, y, {a, b}, {{1, 2, 3, 4}, {5, 6, 7, 8}});
    };
    EXPECT_CLOSE(on(a + b), 6, 8, 10, 12);
    EXPECT_CLOSE(on(a - b), -4, -4, -4, -4);
    EXPECT_CLOSE(on(a * b), 5, 12, 21, 32);
    EXPECT_CLOSE(on(b / a), 5, 3, 7.0f / 3, 2);
    EXPECT_CLOSE(on(matmul(a, b)), 17, 39, 23, 53);
    EXPECT_CLOSE(on(outer_product(a, b)), 26, 38, 30, 44);
    EXPECT_CLOSE(on(copy(a * b, b)), 5, 12, 21, 32);
}

TEST_F(OneOp, WithIndices) {
    const Tensor table = matrix(2, 3).as_input(), ids = argmax(table);  // 1, 0, 1
    const auto on = [&](const Tensor& y) {
        return computed(context, y, {table}, {{1, 9, 8, 2, 3, 7}});
    };
    EXPECT_CLOSE(on(get_rows(table, ids)), 8, 2, 1, 9, 8, 2);
    const Tensor experts = reshape(table, {1, 2, 3, 1});
    const Tensor one = reshape(rows(contiguous(transpose(table)), 0, 1), {1, 1, 3, 1});  // 1, 8, 3
    EXPECT_CLOSE(on(matmul_id(experts, one, reshape(ids, {1, 3, 1, 1}))), 8, 2, 8, 72, 24, 6);
    EXPECT_CLOSE(on(add_id(reshape(table, {2, 1, 3, 1}), table, reshape(ids, {1, 3, 1, 1}))), 9, 11,
                 9, 11, 11, 9);
    EXPECT_CLOSE(on(set_rows(contiguous(table), table * 10.0f, ids)), 80, 20, 30, 70, 3, 7);
}

TEST_F(OneOp, OnImages) {
    const Tensor image = context.tensor(GGML_TYPE_F32, {4, 4, 1, 1}, "image").as_input();
    const Tensor kernel = context.tensor(GGML_TYPE_F32, {2, 2, 1, 1}, "kernel").as_input();
    std::vector<float> pixels(16);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i);
    const auto on = [&](const Tensor& y) {
        return computed(context, y + 0.0f * sum(image) + 0.0f * sum(kernel), {image, kernel},
                        {pixels, {1, 0, 0, 1}});
    };
    const Sweep by_two{.stride = {2, 2}};
    EXPECT_CLOSE(on(conv_2d(kernel, image, by_two)), 5, 9, 21, 25);
    EXPECT_CLOSE(on(conv_2d_direct(kernel, image, by_two)), 5, 9, 21, 25);
    EXPECT_CLOSE(on(conv_2d_depthwise(kernel, image, by_two)), 5, 9, 21, 25);
    EXPECT_CLOSE(on(sum_rows(im2col(kernel, image, by_two))), 10, 18, 42, 50);
    EXPECT_CLOSE(on(pool_2d(image, GGML_OP_POOL_MAX, {2, 2}, {2, 2})), 5, 7, 13, 15);
    EXPECT_CLOSE(on(pool_1d(reshape(kernel, {4, 1, 1, 1}), GGML_OP_POOL_AVG, 2, 2)), 0.5f, 0.5f);
    EXPECT_CLOSE(on(upscale(reshape(kernel, {2, 2, 1, 1}), 2)), 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1,
                 0, 0, 1, 1);
    EXPECT_EQ(interpolate(image, {2, 2, 1, 1}).extent(0), 2);
    EXPECT_EQ(conv_transpose_2d(cast(kernel, GGML_TYPE_F16), image, 2).extent(0), 8);
    EXPECT_EQ(conv_1d(reshape(kernel, {2, 1, 2, 1}), reshape(image, {16, 1, 1, 1})).extent(0), 15);
    EXPECT_EQ(conv_transpose_1d(reshape(kernel, {2, 2, 1, 1}), reshape(image, {16, 1, 1, 1}), 2)
                  .extent(0),
              32);
    EXPECT_EQ(timestep_embedding(reshape(kernel, {4, 1, 1, 1}), 8, 10000).extent(0), 8);
    EXPECT_TRUE(context.check()) << said(context.check());
}

TEST_F(OneOp, ForAttention) {
    const Tensor q = context.tensor(GGML_TYPE_F32, {32, 1, 2}, "q").as_input();
    const Tensor mask = context.tensor(GGML_TYPE_F16, {1, 1}, "mask");
    const Tensor positions = context.tensor(GGML_TYPE_I32, {1}, "positions");
    EXPECT_EQ(rope(reshape(q, {32, 2, 1, 1}), positions, Tensor(), {.dimensions = 32}).extent(1),
              2);
    EXPECT_EQ(flash_attention(q, q, q, mask, 1.0f).extent(1), 2);
    EXPECT_EQ(flash_attention(q, q, q, Tensor(), 1.0f).extent(0), 32);
    EXPECT_EQ(cross_entropy_loss(q, q).elements(), 1);
    EXPECT_EQ(
        count_equal(argmax(reshape(q, {32, 2, 1, 1})), argmax(reshape(q, {32, 2, 1, 1}))).type(),
        GGML_TYPE_I64);
    EXPECT_TRUE(context.check()) << said(context.check());
}

TEST_F(OneOp, WithoutAFunctionOfItsOwnIsReachedToo) {
    const Tensor x = vector(3).as_input();
    EXPECT_THAT(computed(context, op<ggml_sqr>(x), {x}, {{1, 2, 3}}), ElementsAre(1, 4, 9));
}

}  // namespace
}  // namespace heddle
