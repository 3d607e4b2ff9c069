// Which kernels take which products and attentions, and what they say when they decline. Needs no
// device.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "backends/cuda/kernels/attention/attention.hpp"
#include "backends/cuda/kernels/products/products.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/flash_attn.hpp"

namespace heddle::cuda {
namespace {

Tensor dense(Type type, std::array<std::int64_t, 4> ne, Op op = GGML_OP_NONE) {
    Tensor t{};
    t.type = type;
    t.op = op;
    t.nb[0] = size_of(type);
    t.nb[1] = row_size(type, ne[0]);
    for (int d = 0; d < 4; ++d) t.ne[d] = ne[static_cast<std::size_t>(d)];
    for (int d = 2; d < 4; ++d) t.nb[d] = t.nb[d - 1] * static_cast<std::size_t>(t.ne[d - 1]);
    return t;
}

/// The first kernel that takes a node, or the sentence of the last one.
std::string choice(std::span<const Kernel> kernels, const Tensor& node) {
    std::string_view reason = "no kernel";
    for (const Kernel& kernel : kernels) {
        if (kernel.op != node.op) continue;
        reason = kernel.objection(node);
        if (reason.empty()) return kernel.name;
    }
    return std::string(reason);
}

struct ProductNode {
    Tensor a, b, node;

    ProductNode(Type type, std::int64_t depth, std::int64_t rows, std::int64_t columns)
        : a(dense(type, {depth, rows, 1, 1})),
          b(dense(GGML_TYPE_F32, {depth, columns, 1, 1})),
          node(dense(GGML_TYPE_F32, {rows, columns, 1, 1}, GGML_OP_MUL_MAT)) {
        node.src[0] = &a;
        node.src[1] = &b;
    }
    std::string chosen() const { return choice(products_kernels(), node); }
};

TEST(ChoiceOfProducts, FewColumnsOfBlockFormatsGoToIntegerDotProducts) {
    for (const Type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_IQ4_XS}) {
        EXPECT_EQ(ProductNode(type, 4096, 100, 1).chosen(), "gemv_int8");
        EXPECT_EQ(ProductNode(type, 4096, 100, 2).chosen(), "gemv_int8");
        EXPECT_EQ(ProductNode(type, 4096, 100, 3).chosen(), "gemm_wgmma_few");
        EXPECT_EQ(ProductNode(type, 4096, 100, 8).chosen(), "gemm_wgmma_few");
        EXPECT_EQ(ProductNode(type, 4096, 100, 9).chosen(), "gemm_wgmma");
    }
}

TEST(ChoiceOfProducts, WarpGroupsTakeBlocksOfOneMatrixWhoseRowsTheCopyEngineReads) {
    const auto words = [](const ProductNode& node) { return kGemmWgmma.objection(node.node); };
    EXPECT_EQ(words(ProductNode(GGML_TYPE_IQ2_S, 4096, 100, 40)), "");
    EXPECT_EQ(words(ProductNode(GGML_TYPE_F16, 4096, 100, 40)), "weights are no blocks");
    EXPECT_EQ(words(ProductNode(GGML_TYPE_Q4_0, 0, 100, 40)), "an operand is empty");
    EXPECT_EQ(words(ProductNode(GGML_TYPE_Q4_0, 32, 100, 40)),
              "rows of the weights do not begin at multiples of 16 bytes");
    EXPECT_EQ(ProductNode(GGML_TYPE_Q4_0, 32, 100, 40).chosen(), "gemm_mma");
    ProductNode two(GGML_TYPE_Q4_0, 256, 100, 40);
    two.a.ne[2] = 2;
    EXPECT_EQ(words(two), "there are several matrices of weights");
    ProductNode many(GGML_TYPE_Q4_0, 256, 100, 40);
    many.node.ne[1] = std::int64_t{1} << 31;
    EXPECT_EQ(words(many), "more rows, columns or bytes of a row than 32 bits count");
}

TEST(ChoiceOfProducts, FormatsWithoutAnIntegerDotProductAreDecoded) {
    EXPECT_EQ(ProductNode(GGML_TYPE_IQ2_S, 4096, 100, 1).chosen(), "gemm_wgmma_few");
    EXPECT_EQ(ProductNode(GGML_TYPE_Q8_K, 4096, 100, 9).chosen(), "gemm_generic");
}

TEST(ChoiceOfProducts, RowsThatBeginInTheMiddleOfAWordAreDecoded) {
    // A block of q6_K has 210 bytes: of three, every second row begins at an odd half-word.
    EXPECT_EQ(ProductNode(GGML_TYPE_Q6_K, 768, 100, 1).chosen(), "gemv_decode");
    EXPECT_EQ(ProductNode(GGML_TYPE_Q6_K, 512, 100, 1).chosen(), "gemv_int8");
    ProductNode view(GGML_TYPE_Q4_0, 4096, 100, 1);
    Tensor root = view.a;
    view.a.view_src = &root;
    view.a.view_offs = 18;
    EXPECT_EQ(view.chosen(), "gemv_decode");
}

TEST(ChoiceOfProducts, OddDepthsOfFloatsAreDecoded) {
    EXPECT_EQ(ProductNode(GGML_TYPE_F16, 4096, 100, 1).chosen(), "gemv_float");
    EXPECT_EQ(ProductNode(GGML_TYPE_F16, 65, 100, 1).chosen(), "gemv_decode");
    EXPECT_EQ(ProductNode(GGML_TYPE_F32, 65, 100, 40).chosen(), "gemm_generic");
    EXPECT_EQ(ProductNode(GGML_TYPE_F16, 65, 100, 40).chosen(), "gemm_mma");
}

TEST(ChoiceOfProducts, DeclineInWordsWhatNoKernelCanRead) {
    ProductNode integers(GGML_TYPE_I32, 64, 4, 1);
    EXPECT_EQ(integers.chosen(), "the type of the weights has no decoder");
    ProductNode halves(GGML_TYPE_Q4_0, 64, 4, 1);
    halves.b = dense(GGML_TYPE_F16, {64, 1, 1, 1});
    EXPECT_EQ(halves.chosen(), "b is neither f32 nor, with f16 weights, f16");
    ProductNode gaps(GGML_TYPE_F32, 64, 4, 1);
    gaps.a.nb[0] = 8;
    EXPECT_EQ(gaps.chosen(), "rows of the weights are not dense");
    ProductNode wide(GGML_TYPE_F32, 64, 4, 1);
    wide.b.nb[0] = 8;
    EXPECT_EQ(wide.chosen(), "rows of b are not dense");
    ProductNode result(GGML_TYPE_F32, 64, 4, 1);
    result.node.type = GGML_TYPE_F16;
    EXPECT_EQ(result.chosen(), "the result is not dense f32");
}

struct AttentionNode {
    Tensor q, k, v, mask, node;

    AttentionNode(Type type, std::int64_t size)
        : q(dense(GGML_TYPE_F32, {size, 3, 8, 1})),
          k(dense(type, {size, 50, 2, 1})),
          v(k),
          mask(dense(GGML_TYPE_F16, {50, 3, 1, 1})),
          node(dense(GGML_TYPE_F32, {size, 8, 3, 1}, GGML_OP_FLASH_ATTN_EXT)) {
        node.src[0] = &q;
        node.src[1] = &k;
        node.src[2] = &v;
        node.src[3] = &mask;
    }
    std::string chosen() const { return choice(attention_kernels(), node); }
};

TEST(ChoiceOfAttention, TensorCoresForHeadsUpTo128OfF16AndBlockFormats) {
    EXPECT_EQ(AttentionNode(GGML_TYPE_F16, 128).chosen(), "attention_mma");
    EXPECT_EQ(AttentionNode(GGML_TYPE_Q8_0, 64).chosen(), "attention_mma");
    EXPECT_EQ(AttentionNode(GGML_TYPE_F32, 128).chosen(), "attention_generic");
    EXPECT_EQ(AttentionNode(GGML_TYPE_F16, 576).chosen(), "attention_generic");
}

TEST(ChoiceOfAttention, WarpGroupsTakeManyRowsOfCommonHeads) {
    AttentionNode many(GGML_TYPE_F16, 128);
    many.q = dense(GGML_TYPE_F32, {128, 512, 8, 1});
    many.k = many.v = dense(GGML_TYPE_F16, {128, 64, 2, 1});
    many.mask = dense(GGML_TYPE_F16, {64, 512, 1, 1});
    many.node.ne[2] = 512;
    const ops::FlashAttnExt::Params params{0.1F, 0, 0, GGML_PREC_DEFAULT};
    std::memcpy(many.node.op_params, &params, sizeof params);
    EXPECT_EQ(many.chosen(), "attention_wgmma");
    const auto words = [](const AttentionNode& node) {
        return kAttentionWgmma.objection(node.node);
    };
    const auto changed = [&](auto change) {
        AttentionNode copy = many;
        copy.node.src[0] = &copy.q, copy.node.src[1] = &copy.k, copy.node.src[2] = &copy.v;
        copy.node.src[3] = &copy.mask;
        change(copy);
        return words(copy);
    };
    EXPECT_EQ(changed([](AttentionNode& n) { n.k.ne[0] = n.v.ne[0] = n.q.ne[0] = 96; }), "");
    EXPECT_EQ(changed([](AttentionNode& n) { n.k.ne[0] = n.q.ne[0] = 264; }),
              "a head size is above 256");
    EXPECT_EQ(changed([](AttentionNode& n) { n.q.ne[1] = 8; }), "too few rows");
    EXPECT_EQ(changed([](AttentionNode& n) { n.q.nb[1] += 4; }),
              "rows of q do not begin at multiples of 16 bytes");
    EXPECT_EQ(changed([](AttentionNode& n) {
                  const ops::FlashAttnExt::Params negative{-0.1F, 0, 0, GGML_PREC_DEFAULT};
                  std::memcpy(n.node.op_params, &negative, sizeof negative);
              }),
              "the scale is not positive");
    EXPECT_EQ(changed([](AttentionNode& n) { n.mask.nb[1] += 2; }),
              "rows of the mask are no multiples of 16 bytes");
}

TEST(ChoiceOfAttention, FewRowsOverHalvesAndQ8_0AreReadOnce) {
    const auto one_query = [](Type type, std::int64_t size) {
        AttentionNode one(type, size);
        one.q.ne[1] = one.node.ne[2] = 1;  // four heads of it share keys
        return one.chosen();
    };
    EXPECT_EQ(one_query(GGML_TYPE_F16, 128), "attention_token");
    EXPECT_EQ(one_query(GGML_TYPE_Q8_0, 64), "attention_decode");
    EXPECT_EQ(one_query(GGML_TYPE_F16, 256), "attention_decode");
    EXPECT_EQ(one_query(GGML_TYPE_Q4_0, 128), "attention_mma");
    EXPECT_EQ(one_query(GGML_TYPE_F16, 320), "attention_generic");
    AttentionNode odd(GGML_TYPE_F16, 128);
    odd.q.ne[1] = odd.node.ne[2] = 1;
    odd.k.nb[1] += 2;
    EXPECT_EQ(odd.chosen(), "attention_mma");
}

TEST(ChoiceOfAttention, LongCachesAndThoseOfBlocksComeThroughRings) {
    const auto chosen = [](Type type, std::int64_t size, std::int64_t keys) {
        AttentionNode one(type, size);
        one.q.ne[1] = one.node.ne[2] = 1;
        one.k = dense(type, {size, 2, keys, 1});  // heads of a token lie side by side
        std::swap(one.k.ne[1], one.k.ne[2]);
        std::swap(one.k.nb[1], one.k.nb[2]);
        one.v = one.k;
        one.mask = dense(GGML_TYPE_F16, {keys, 1, 1, 1});
        return one.chosen();
    };
    EXPECT_EQ(chosen(GGML_TYPE_F16, 128, 4095), "attention_token");
    EXPECT_EQ(chosen(GGML_TYPE_F16, 128, 4096), "attention_ring");
    EXPECT_EQ(chosen(GGML_TYPE_F16, 256, 4096), "attention_ring");
    EXPECT_EQ(chosen(GGML_TYPE_Q8_0, 128, 256), "attention_ring");
    EXPECT_EQ(chosen(GGML_TYPE_Q8_0, 96, 256), "attention_decode");
    for (const Type type :
         {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL})
        EXPECT_EQ(chosen(type, 128, 256), "attention_ring");
}

TEST(ChoiceOfAttention, RingsTakeWhatTheCopyEngineCanReadAsItLies) {
    const auto chosen = [](auto change) {
        AttentionNode one(GGML_TYPE_Q5_1, 64);
        one.q.ne[1] = one.node.ne[2] = 1;
        one.k = one.v = dense(GGML_TYPE_Q5_1, {64, 64, 2, 1});
        one.mask = dense(GGML_TYPE_F16, {64, 3, 1, 1});
        change(one);
        return one.chosen();
    };
    EXPECT_EQ(chosen([](AttentionNode&) {}), "attention_ring");
    // A mask of 17 keys has rows of 34 bytes.
    EXPECT_EQ(chosen([](AttentionNode& n) {
                  n.k = n.v = dense(GGML_TYPE_Q5_1, {64, 17, 2, 1});
                  n.mask = dense(GGML_TYPE_F16, {17, 3, 1, 1});
              }),
              "attention_mma");
    EXPECT_EQ(chosen([](AttentionNode& n) { n.mask.nb[1] += 2; }), "attention_mma");
    EXPECT_EQ(chosen([](AttentionNode& n) { n.q.nb[2] += 4; }), "attention_mma");
}

TEST(ChoiceOfAttention, DeclinesInWords) {
    EXPECT_EQ(AttentionNode(GGML_TYPE_F16, 12).chosen(), "a head size is no multiple of 8");
    EXPECT_EQ(AttentionNode(GGML_TYPE_F16, 584).chosen(), "a head size is above 576");
    AttentionNode half(GGML_TYPE_F16, 64);
    half.q.type = GGML_TYPE_F16;
    EXPECT_EQ(half.chosen(), "q is not f32");
    AttentionNode many(GGML_TYPE_F16, 64);
    many.q.ne[1] = std::int64_t{1} << 30;
    EXPECT_EQ(many.chosen(), "more rows than 32 bits count");
    AttentionNode lengths(GGML_TYPE_F16, 64);
    lengths.v.ne[1] = 49;
    EXPECT_EQ(lengths.chosen(), "k and v differ in length");
    AttentionNode heads(GGML_TYPE_F16, 64);
    heads.v.ne[2] = 3;
    EXPECT_EQ(heads.chosen(), "heads of k or v do not divide those of q");
    AttentionNode small(GGML_TYPE_F16, 64);
    small.mask.ne[0] = 49;
    EXPECT_EQ(small.chosen(), "the mask is too small");
    AttentionNode gaps(GGML_TYPE_F16, 64);
    gaps.k.nb[0] = 4;
    EXPECT_EQ(gaps.chosen(), "rows of q, k or v are not dense");
}

TEST(ChoiceOfAttention, KeysAreSplitToFillTheDeviceAndNoFurther) {
    const DeviceFacts device{132, 900, 232448};
    AttentionNode one(GGML_TYPE_F16, 128);
    one.q.ne[1] = one.mask.ne[1] = one.node.ne[2] = 1;
    const auto splits = [&](std::int64_t keys) {
        one.k.ne[1] = one.v.ne[1] = one.mask.ne[0] = keys;
        const AttentionArguments a = attention_arguments(one.node, 64, 64, device, nullptr);
        EXPECT_GE(a.splits * a.share, keys);
        EXPECT_LT((a.splits - 1) * a.share, std::max<std::int64_t>(keys, 1));
        EXPECT_LE(attention_blocks(a, 64), 2 * device.multiprocessors);
        return a.splits;
    };
    EXPECT_EQ(splits(0), 1);
    EXPECT_EQ(splits(64), 1);
    EXPECT_EQ(splits(256), 2);
    EXPECT_GT(splits(32768), 60);
}

}  // namespace
}  // namespace heddle::cuda
