// Graphs on joined devices: every rule gives what the CPU gives, or says why it cannot.

#include "ggml/ops.h"
#include "runtime/meta/test_support.hpp"

namespace heddle::meta {
namespace {

/// The same with two and three devices: simulated ones, and some together with the CPU.
class Rules : public testing::TestWithParam<int> {
protected:
    std::size_t count() const { return GetParam() == 2 ? 2 : 3; }
    std::vector<ggml_backend_dev_t> devices() const {
        return GetParam() == 4 ? some_devices(2, 1) : some_devices(count());
    }
    /// A cut of `extent` in pieces of `unit`, uneven where there are three devices.
    ggml_backend_meta_split_state along(int axis, std::int64_t extent,
                                        std::int64_t unit = 1) const {
        const std::int64_t units = extent / unit;
        if (count() == 2) return cut(axis, {units / 2 * unit, (units - units / 2) * unit});
        return cut(axis, {unit, units / 2 * unit, (units - units / 2 - 1) * unit});
    }
    Joined join(std::map<std::string, ggml_backend_meta_split_state> splits) const {
        return {devices(), std::move(splits)};
    }
};
INSTANTIATE_TEST_SUITE_P(Devices, Rules, testing::Values(2, 3, 4));

TEST_P(Rules, ColumnsThenRowsMakeASum) {
    const Joined joined = join({{"up", along(1, 12)}, {"down", along(0, 12)}});
    expect_same(joined, [](Model& m) {
        Tensor* x = m.input("x", {8, 5});
        Tensor* h = ggml_silu(m.context(), ggml_mul_mat(m.context(), m.weight("up", {8, 12}), x));
        Tensor* y = ggml_mul_mat(m.context(), m.weight("down", {12, 6}), h);
        m.result(ggml_add(m.context(), y, m.weight("bias", {6})));
        m.result(y);
    });
}

TEST_P(Rules, QuantizedWeightsAreCutInBlocks) {
    const Joined joined = join({{"up", along(1, 128, 32)}, {"down", along(0, 128, 32)}});
    const auto build = [](Model& m) {
        Tensor* x = m.input("x", {64, 3});
        Tensor* up = m.weight("up", {64, 128}, GGML_TYPE_Q8_0);
        Tensor* down = m.weight("down", {128, 6}, GGML_TYPE_Q4_0);
        Tensor* h = ggml_mul_mat(m.context(), up, x);
        m.result(ggml_mul_mat(m.context(), down, h));
    };
    expect_same(joined, build, 1e-3);
}

TEST_P(Rules, ProductsOfTokensThatAreCut) {
    const Joined joined = join({{"x", along(1, 7)}});
    expect_same(joined, [](Model& m) {
        Tensor* x = m.weight("x", {8, 7});
        Tensor* y = ggml_mul_mat(m.context(), m.weight("w", {8, 4}), x);
        m.result(ggml_soft_max(m.context(), y));
        m.result(ggml_argmax(m.context(), y));
        m.result(ggml_rms_norm(m.context(), y, 1e-5F));
        m.result(ggml_sum_rows(m.context(), y));
        m.result(ggml_argsort(m.context(), y, GGML_SORT_ORDER_ASC));
    });
}

TEST_P(Rules, BatchesOfMatrices) {
    const Joined joined = join({{"k", along(2, 4)}, {"q", along(2, 8, 2)}});
    expect_same(joined, [](Model& m) {
        Tensor* k = m.weight("k", {8, 5, 4});
        Tensor* q = m.weight("q", {8, 3, 8});
        Tensor* scores = ggml_mul_mat(m.context(), k, q);
        Tensor* mask = m.input("mask", {5, 3});
        m.result(ggml_soft_max_ext(m.context(), scores, mask, 0.5F, 0));
    });
}

TEST_P(Rules, ElementByElement) {
    const Joined joined = join({{"a", along(1, 6)}, {"b", along(1, 6)}});
    expect_same(joined, [](Model& m) {
        Tensor *a = m.weight("a", {4, 6, 2}), *b = m.weight("b", {4, 6, 2});
        Tensor* row = m.weight("row", {4});
        m.result(ggml_mul(m.context(), ggml_add(m.context(), a, b), row));
        m.result(ggml_scale_bias(m.context(), ggml_sub(m.context(), a, b), 2, 1));
        m.result(ggml_sqr(m.context(), ggml_gelu(m.context(), a)));
        m.result(ggml_swiglu_split(m.context(), a, b));
        m.result(ggml_repeat_4d(m.context(), a, 8, 12, 2, 3));
        m.result(ggml_concat(m.context(), a, b, 2));
        m.result(ggml_pad(m.context(), a, 1, 0, 2, 0));
        m.result(ggml_roll(m.context(), a, 1, 0, 1, 0));
        m.result(ggml_cont(m.context(), ggml_permute(m.context(), a, 1, 2, 0, 3)));
        m.result(ggml_cont(m.context(), ggml_transpose(m.context(), a)));
    });
}

TEST_P(Rules, GatesAndValuesInOneRow) {
    const auto halves = count() == 2 ? state_of(GGML_BACKEND_SPLIT_AXIS_1, {{2, {5, 3}}})
                                     : state_of(GGML_BACKEND_SPLIT_AXIS_1, {{2, {5, 0, 3}}});
    const Joined joined = join({{"w", halves}});
    expect_same(joined, [](Model& m) {
        Tensor* x = m.input("x", {4, 3});
        m.result(ggml_swiglu(m.context(), ggml_mul_mat(m.context(), m.weight("w", {4, 16}), x)));
    });
    const Joined other = join({{"w", along(1, 16)}});
    expect_refusal(
        other,
        [](Model& m) {
            Tensor* x = m.input("x", {4, 3});
            m.result(
                ggml_swiglu(m.context(), ggml_mul_mat(m.context(), m.weight("w", {4, 16}), x)));
        },
        "halves of its rows are not cut alike");
}

TEST_P(Rules, RowsOfATableAndBack) {
    const Joined joined = join({{"table", along(0, 8)}, {"cache", along(0, 8)}});
    expect_same(joined, [](Model& m) {
        Tensor* ids = m.input("ids", {3}, GGML_TYPE_I32);
        m.set_indices(ids, {4, 0, 2});
        Tensor* rows = ggml_get_rows(m.context(), m.weight("table", {8, 5}), ids);
        m.result(ggml_set_rows(m.context(), m.weight("cache", {8, 6}), rows, ids));
        m.result(rows);
    });
}

TEST_P(Rules, CopiesIntoACacheAndViewsOfIt) {
    const Joined joined = join({{"w", along(1, 8, 2)}, {"cache", along(0, 8, 2)}});
    expect_same(joined, [](Model& m) {
        Tensor* x = m.input("x", {4, 3});
        Tensor* heads = ggml_reshape_3d(
            m.context(), ggml_mul_mat(m.context(), m.weight("w", {4, 8}), x), 2, 4, 3);
        Tensor* cache = m.weight("cache", {8, 10});
        Tensor* rows = ggml_view_2d(m.context(), cache, 8, 3, cache->nb[1], 5 * cache->nb[1]);
        Tensor* written = ggml_cpy(m.context(), heads, rows);
        m.result(written);
        Tensor* all = ggml_view_3d(m.context(), cache, 2, 4, 10, 8, cache->nb[1], 0);
        m.result(ggml_cont(m.context(), ggml_permute(m.context(), all, 0, 2, 1, 3)));
        m.result(ggml_cont_2d(m.context(), all, 8, 10));
    });
}

TEST_P(Rules, FusedHeadsAreTakenApart) {
    // 8 query heads, 4 heads of keys and of values, of 2 elements.
    const auto fused = count() == 2
                           ? state_of(GGML_BACKEND_SPLIT_AXIS_1, {{1, {12, 4}}, {2, {6, 2}}})
                           : state_of(GGML_BACKEND_SPLIT_AXIS_1, {{1, {8, 0, 8}}, {2, {4, 0, 4}}});
    const Joined joined = join({{"wqkv", fused}});
    expect_same(joined, [](Model& m) {
        ggml_context* c = m.context();
        Tensor* x = m.input("x", {6, 5});
        Tensor* all = ggml_mul_mat(c, m.weight("wqkv", {6, 32}), x);
        const std::size_t row = all->nb[1];
        Tensor* positions = m.input("positions", {5}, GGML_TYPE_I32);
        m.set_indices(positions, {0, 1, 2, 3, 4});
        Tensor* q = ggml_view_3d(c, all, 2, 8, 5, 8, row, 0);
        Tensor* k = ggml_view_3d(c, all, 2, 4, 5, 8, row, 16 * 4);
        Tensor* v = ggml_view_3d(c, all, 2, 4, 5, 8, row, 24 * 4);
        q = ggml_rope(c, q, positions, 2, 0);
        k = ggml_rope(c, k, positions, 2, 0);
        const auto heads_last = [&](Tensor* t) { return ggml_permute(c, t, 0, 2, 1, 3); };
        Tensor* half_k = ggml_cast(c, heads_last(k), GGML_TYPE_F16);
        Tensor* half_v = ggml_cast(c, heads_last(v), GGML_TYPE_F16);
        m.result(ggml_flash_attn_ext(c, heads_last(q), half_k, half_v, nullptr, 0.7F, 0, 0));
    });
}

TEST_P(Rules, Experts) {
    const Joined joined = join({{"up", along(1, 12)},
                                {"down", along(0, 12)},
                                {"bias", state_of(GGML_BACKEND_SPLIT_AXIS_PARTIAL)}});
    expect_same(joined, [](Model& m) {
        ggml_context* c = m.context();
        Tensor* x = m.input("x", {8, 1, 5});
        Tensor* ids = m.input("ids", {2, 5}, GGML_TYPE_I32);
        m.set_indices(ids, {0, 2, 1, 0, 2, 1, 0, 1, 2, 0});
        Tensor* h = ggml_mul_mat_id(c, m.weight("up", {8, 12, 3}), x, ids);
        Tensor* y = ggml_mul_mat_id(c, m.weight("down", {12, 6, 3}), ggml_silu(c, h), ids);
        y = ggml_add_id(c, y, m.weight("bias", {6, 3}), ids);
        y = ggml_mul(c, y, m.input("shares", {1, 2, 5}));
        Tensor* first = ggml_view_2d(c, y, 6, 5, y->nb[2], 0);
        Tensor* second = ggml_view_2d(c, y, 6, 5, y->nb[2], y->nb[1]);
        m.result(ggml_add(c, first, second));
    });
}

TEST_P(Rules, SlidingProductsAndDeltaNets) {
    std::map<std::string, ggml_backend_meta_split_state> splits{
        {"signal", along(1, 6)}, {"kernel", along(1, 6)}, {"state", along(2, 4)}};
    for (const char* name : {"q", "k", "v", "g", "beta"}) splits[name] = along(1, 4);
    const Joined joined = join(splits);
    expect_same(joined, [](Model& m) {
        ggml_context* c = m.context();
        Tensor *signal = m.weight("signal", {7, 6, 2}), *kernel = m.weight("kernel", {3, 6});
        m.result(ggml_ssm_conv(c, signal, kernel));
        Tensor *q = m.weight("q", {8, 4, 3, 2}), *k = m.weight("k", {8, 4, 3, 2});
        Tensor *v = m.weight("v", {8, 4, 3, 2}), *g = m.weight("g", {1, 4, 3, 2});
        Tensor *beta = m.weight("beta", {1, 4, 3, 2}), *state = m.weight("state", {8, 8, 4, 2});
        Tensor* y = ggml_gated_delta_net(c, q, k, v, g, beta, state, 1);
        const std::size_t out = 6 * y->nb[1];
        m.result(ggml_scale(c, ggml_view_4d(c, y, 8, 4, 3, 2, 32, 128, 384, 0), 2));
        m.result(ggml_scale(c, ggml_view_4d(c, y, 8, 8, 4, 2, 32, 256, 1024, out), 2));
        m.result(y);
    });
}

TEST_P(Rules, DevicesWithoutAShareDoNothing) {
    const auto split = [&](int axis) {
        return count() == 2 ? cut(axis, {0, 12}) : cut(axis, {0, 12, 0});
    };
    const Joined joined = join({{"up", split(1)},
                                {"down", split(0)},
                                {"bias", state_of(GGML_BACKEND_SPLIT_AXIS_PARTIAL)}});
    expect_same(joined, [](Model& m) {
        ggml_context* c = m.context();
        Tensor* h = ggml_relu(c, ggml_mul_mat(c, m.weight("up", {8, 12}), m.input("x", {8, 5})));
        Tensor* y = ggml_mul_mat(c, m.weight("down", {12, 6}), h);
        m.result(ggml_add(c, ggml_scale(c, y, 2), m.weight("whole", {6})));
        Tensor* z = ggml_mul_mat(c, m.weight("down", {12, 6}), ggml_neg(c, h));
        m.result(ggml_add(c, z, m.weight("bias", {6})));
    });
}

TEST_P(Rules, InfinitiesAndNanComeThrough) {
    const Joined joined = join({{"up", along(1, 12)}, {"down", along(0, 12)}});
    const auto build = [](Model& m) {
        ggml_context* c = m.context();
        Tensor* h = ggml_mul_mat(c, m.weight("up", {8, 12}), m.input("x", {8, 2}));
        Tensor* huge = ggml_scale(c, h, 1e38F);
        m.result(ggml_mul_mat(c, m.weight("down", {12, 6}), ggml_mul(c, huge, huge)));
    };
    Model model;
    build(model);
    ASSERT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
    const Values got = model.read_results()[0], expected = reference(build)[0];
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(std::isfinite(got[i]), std::isfinite(expected[i]));
    }
}

TEST_P(Rules, LargeSumsAreAddedUpInParts) {
    const Joined joined =
        join({{"up", along(1, 12)}, {"down", along(0, 12)}, {"next", along(1, 9)}});
    expect_same(
        joined,
        [](Model& m) {
            ggml_context* c = m.context();
            Tensor* h = ggml_mul_mat(c, m.weight("up", {8, 12}), m.input("x", {8, 33}));
            Tensor* y = ggml_mul_mat(c, m.weight("down", {12, 1031}), h);
            m.result(y);
            // Every device goes on with what it has of the sum.
            m.result(ggml_mul_mat(c, m.weight("next", {1031, 9}), y));
        },
        1e-3);
}

TEST_P(Rules, SumsThatAreNotToBeComputedStayAsTheyAre) {
    const Joined joined = join({{"a", along(0, 12)}, {"b", along(0, 12)}});
    Model model;
    Tensor* y = model.result(
        ggml_mul_mat(model.context(), model.weight("a", {12, 3}), model.weight("b", {12, 2})));
    ASSERT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
    const Values ones(6, 1);
    sim::write(y, ones);
    y->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
    ASSERT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
    EXPECT_EQ(sim::read(y), ones);
}

// ---- refusals ----------------------------------------------------------------------------------

TEST_P(Rules, WhatCannotBeCutSoIsRefusedInWords) {
    const Joined joined = join({{"a", along(0, 8)}, {"t", along(1, 8)}, {"h", along(2, 4)}});
    const auto refuse = [&](const Build& build, const char* reason) {
        expect_refusal(joined, build, reason);
    };
    refuse(
        [](Model& m) {
            m.result(ggml_rms_norm(m.context(), m.weight("a", {8, 2}), 1e-5F));
        },
        "RMS_NORM: its rows must not be cut");
    refuse(
        [](Model& m) {
            m.result(ggml_sum(m.context(), m.weight("a", {8, 2})));
        },
        "on mirrored tensors only");
    refuse(
        [](Model& m) {
            m.result(ggml_mul_mat(m.context(), m.weight("a", {8, 2}), m.input("x", {8, 3})));
        },
        "'a' f32[8,2,1,1] axis 0");
    refuse(
        [](Model& m) {
            Tensor* t = m.weight("t", {4, 8});
            m.result(ggml_add(m.context(), t, m.input("x", {4, 8})));
        },
        "not cut alike");
    refuse(
        [](Model& m) {
            m.result(ggml_pad(m.context(), m.weight("a", {8, 2}), 1, 0, 0, 0));
        },
        "padded along the dimension that is cut");
    refuse(
        [](Model& m) {
            Tensor* a = m.weight("a", {8, 2});
            m.result(ggml_concat(m.context(), a, a, 0));
        },
        "joined along the dimension that is cut");
    refuse(
        [](Model& m) {
            Tensor* ids = m.input("ids", {1}, GGML_TYPE_I32);
            m.set_indices(ids, {0});
            m.result(ggml_get_rows(m.context(), m.weight("t", {4, 8}), ids));
        },
        "table must be mirrored");
    refuse(
        [](Model& m) {
            Tensor* h = m.weight("h", {4, 2, 4});
            m.result(ggml_soft_max_ext(m.context(), h, m.input("mask", {4, 2}), 1, 8));
        },
        "number of the head");
    refuse(
        [](Model& m) {
            Tensor* a = m.weight("a", {8, 2});
            m.result(ggml_scale(m.context(), ggml_view_2d(m.context(), a, 7, 2, a->nb[1], 4), 2));
        },
        "VIEW: its elements lie across the cuts");
}

TEST_P(Rules, SupportsOpKnowsTheRules) {
    const Joined joined = join({{"a", along(0, 8)}, {"t", along(1, 8)}});
    Model m;
    Tensor *a = m.weight("a", {8, 8}), *t = m.weight("t", {8, 8});
    ASSERT_NE(m.place_weights(joined.memory()), nullptr);
    ggml_context* c = m.context();
    Tensor* x = ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 4);
    Tensor* wide = ggml_new_tensor_2d(c, GGML_TYPE_F32, 4, 8);
    EXPECT_TRUE(ggml_backend_dev_supports_op(joined.device(), ggml_mul_mat(c, t, x)));
    EXPECT_TRUE(ggml_backend_dev_supports_op(joined.device(), ggml_mul_mat(c, a, x)));
    EXPECT_TRUE(ggml_backend_dev_supports_op(joined.device(), ggml_rms_norm(c, t, 1e-5F)));
    EXPECT_FALSE(ggml_backend_dev_supports_op(joined.device(), ggml_rms_norm(c, a, 1e-5F)));
    EXPECT_FALSE(ggml_backend_dev_supports_op(joined.device(), ggml_out_prod(c, a, wide)));
}

TEST_P(Rules, AnAddendNeedsASumThatIsNotUsedElsewhere) {
    const Joined joined = join({{"up", along(1, 12)},
                                {"down", along(0, 12)},
                                {"bias", state_of(GGML_BACKEND_SPLIT_AXIS_PARTIAL)}});
    expect_refusal(
        joined,
        [](Model& m) {
            ggml_context* c = m.context();
            Tensor* h = ggml_mul_mat(c, m.weight("up", {8, 12}), m.input("x", {8, 5}));
            Tensor* y = ggml_mul_mat(c, m.weight("down", {12, 6}), h);
            m.result(ggml_silu(c, y));
            m.result(ggml_add(c, y, m.weight("bias", {6})));
        },
        "put together before the addend");
    expect_refusal(
        joined,
        [](Model& m) {
            m.result(ggml_add(m.context(), m.input("x", {6, 2}), m.weight("bias", {6})));
        },
        "no such sum");
}

TEST_P(Rules, TensorsOfOthersAreRefused) {
    const Joined joined = join({});
    Model m;
    m.result(ggml_scale(m.context(), m.weight("w", {4}), 2));
    m.place_weights(ggml_backend_cpu_buffer_type());
    EXPECT_NE(m.run(joined.stream()), GGML_STATUS_SUCCESS);
    EXPECT_THAT(heddle_last_error(), testing::HasSubstr("has no memory of 'Meta("));
}

}  // namespace
}  // namespace heddle::meta
