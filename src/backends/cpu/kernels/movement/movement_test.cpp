#include "backends/cpu/kernels/movement/test_support.hpp"
#include "ops/acc_set.hpp"
#include "ops/concat.hpp"
#include "ops/pad.hpp"
#include "ops/repeat.hpp"
#include "ops/roll.hpp"

namespace heddle::cpu {
namespace {

/// The elements of a tensor with the extents of `node`, from a function of their place.
template <class F>
std::vector<double> elements(const Tensor& node, F f) {
    std::vector<double> values;
    for_elements(node, [&](auto... i) { values.push_back(f(Extents{i...})); });
    return values;
}

double element(const Tensor& t, const Extents& i) { return value_at(t, i[0], i[1], i[2], i[3]); }

// ---- concat ------------------------------------------------------------------------------------

void expect_concat(Workbench& bench, Tensor* x, Tensor* y, std::size_t dim) {
    Tensor* node = bench.node<ops::Concat>({static_cast<std::int32_t>(dim)}, {x, y});
    expect_exactly(bench, *node, elements(*node, [&](Extents i) {
                       const std::int64_t first = extents_of(*x)[dim];
                       if (i[dim] < first) return element(*x, i);
                       i[dim] -= first;
                       return element(*y, i);
                   }));
}

TEST(Concat, JoinsAlongEachDimension) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I8,
                            GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_I64}) {
        for (std::size_t dim = 0; dim < kMaxDims; ++dim) {
            SCOPED_TRACE(testing::Message() << name_of(type) << " along " << dim);
            Workbench bench;
            Extents extent{11, 5, 3, 2};
            Tensor* x = bench.random(type, extent, -99, 99);
            extent[dim] = 7;
            Tensor* y = bench.random(type, extent, -99, 99);
            expect_concat(bench, x, y, dim);
            // And both with gaps, one of them permuted.
            Extents larger = extent;
            for (std::int64_t& n : larger) n = 2 * n;
            Tensor* gaps =
                bench.slice(bench.random(type, larger), {1, 0, 1, 0}, extent, {2, 1, 1, 1});
            Tensor* turned =
                bench.permuted(bench.random(type, {3, 2, 11, 5}, -99, 99), {2, 3, 0, 1});
            expect_concat(bench, turned, gaps, dim);
        }
    }
}

TEST(Concat, JoinsBlocks) {
    for (std::size_t dim = 0; dim < kMaxDims; ++dim) {
        Workbench bench;
        Extents extent{64, 3, 2, 2};
        Tensor* x = bench.permuted(bench.random(GGML_TYPE_Q4_0, {64, 2, 3, 2}), {0, 2, 1, 3});
        if (dim > 0) extent[dim] = 4;
        Tensor* y = bench.random(GGML_TYPE_Q4_0, extent);
        expect_concat(bench, x, y, dim);
    }
}

TEST(Concat, OneOperandMayBeEmpty) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {3, 2, 1, 1});
    Tensor* nothing = bench.tensor(GGML_TYPE_F32, {3, 0, 1, 1});
    expect_concat(bench, x, nothing, 1);
    expect_concat(bench, nothing, x, 1);
}

// ---- repeat ------------------------------------------------------------------------------------

TEST(Repeat, TilesInEveryDimension) {
    for (const Type type :
         {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32, GGML_TYPE_I16}) {
        for (const Extents& times :
             {Extents{1, 1, 1, 1}, Extents{2, 1, 1, 1}, Extents{1, 2, 1, 1}, Extents{1, 1, 3, 1},
              Extents{1, 1, 1, 2}, Extents{2, 3, 2, 2}}) {
            for (const Extents& extent :
                 {Extents{10, 5, 4, 3}, Extents{1, 5, 1, 3}, Extents{1, 1, 1, 1}}) {
                SCOPED_TRACE(testing::Message() << describe(extent) << " x " << describe(times));
                Workbench bench;
                Tensor* whole = bench.random(type, {10, 5, 8, 3}, -99, 99);
                Tensor* x = bench.slice(whole, {}, extent, {1, 1, 2, 1});
                Extents tiled = extent;
                for (std::size_t d = 0; d < kMaxDims; ++d) tiled[d] *= times[d];
                Tensor* y = bench.node<ops::Repeat>({{}, tiled}, {x});
                expect_exactly(bench, *y, elements(*y, [&](Extents i) {
                                   for (std::size_t d = 0; d < kMaxDims; ++d) i[d] %= extent[d];
                                   return element(*x, i);
                               }));
            }
        }
    }
}

TEST(RepeatBack, AddsUpTheTiles) {
    for (const Extents& times : {Extents{1, 1, 1, 1}, Extents{7, 1, 1, 1}, Extents{1, 2, 1, 1},
                                 Extents{1, 1, 3, 1}, Extents{2, 3, 2, 2}}) {
        for (const Extents& extent : {Extents{8, 6, 4, 2}, Extents{1, 6, 4, 2}}) {
            SCOPED_TRACE(testing::Message() << describe(extent) << " x " << describe(times));
            Workbench bench;
            Extents tiled = extent;
            for (std::size_t d = 0; d < kMaxDims; ++d) tiled[d] *= times[d];
            const Extents swapped{tiled[0], tiled[2], tiled[1], tiled[3]};
            Tensor* x = bench.permuted(bench.random(GGML_TYPE_F32, swapped), {0, 2, 1, 3});
            Tensor* y = bench.node<ops::RepeatBack>({{}, extent}, {x});
            std::vector<double> expected(static_cast<std::size_t>(element_count(*y)));
            for_elements(
                *x, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                    const std::int64_t place =
                        i0 % extent[0] +
                        extent[0] * (i1 % extent[1] +
                                     extent[1] * (i2 % extent[2] + extent[2] * (i3 % extent[3])));
                    expected[static_cast<std::size_t>(place)] += value_at(*x, i0, i1, i2, i3);
                });
            // At most 24 terms below 1, each sum rounded.
            run_afresh(bench, *y, [&] { expect_close(*y, expected, 0, 24 * 24 * 0x1p-24); });
        }
    }
}

// ---- pad, roll ---------------------------------------------------------------------------------

std::int64_t modulo(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

void expect_pad(Workbench& bench, Tensor* x, const ops::Pad::Params& params) {
    Tensor* y = bench.node<ops::Pad>(params, {x});
    expect_exactly(bench, *y, elements(*y, [&](Extents i) {
                       bool inside = true;
                       for (std::size_t d = 0; d < kMaxDims; ++d) {
                           i[d] -= params.amount[d].before;
                           if (params.circular != 0) i[d] = modulo(i[d], x->ne[d]);
                           inside = inside && i[d] >= 0 && i[d] < x->ne[d];
                       }
                       return inside ? element(*x, i) : 0.0;
                   }));
}

TEST(Pad, FillsWithZerosOrGoesOnPeriodically) {
    for (const std::int32_t circular : {0, 1}) {
        SCOPED_TRACE(circular);
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {11, 4, 3, 2});
        Tensor* turned = bench.permuted(x, {2, 1, 0, 3});
        Tensor* part = bench.slice(x, {1, 1, 0, 0}, {5, 3, 3, 1}, {2, 1, 1, 1});
        for (Tensor* operand : {x, turned, part}) {
            expect_pad(bench, operand, {{{{0, 1}, {0, 0}, {0, 0}, {0, 0}}}, circular});
            expect_pad(bench, operand, {{{{0, 0}, {0, 2}, {0, 1}, {0, 1}}}, circular});
            expect_pad(bench, operand, {{{{3, 2}, {1, 0}, {2, 3}, {1, 1}}}, circular});
        }
        expect_pad(bench, x, {{{{11, 12}, {4, 4}, {0, 0}, {0, 0}}}, circular});
    }
}

TEST(Pad, WritesPaddingOfEveryWidth) {
    Workbench bench;
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_F32}) {
        Tensor* x = bench.random(type, {5, 3, 1, 1});
        for (std::int32_t width = 0; width <= 20; ++width) {
            expect_pad(bench, x, {{{{width, 20 - width}, {0, 0}, {0, 0}, {0, 0}}}, 0});
        }
    }
}

TEST(Pad, NegativeAmountsCutOff) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {11, 4, 3, 2});
    expect_pad(bench, x, {{{{-2, 0}, {0, -1}, {0, 0}, {0, 0}}}, 0});
    expect_pad(bench, x, {{{{-2, 5}, {-1, -1}, {1, -2}, {0, 0}}}, 0});
    expect_pad(bench, x, {{{{-12, 5}, {0, 0}, {0, 0}, {0, 0}}}, 0});
    expect_pad(bench, x, {{{{5, -12}, {0, 0}, {0, 0}, {0, 0}}}, 0});
}

TEST(PadReflect, DoesNotRepeatTheEnds) {
    Workbench bench;
    for (const ops::PadReflect1d::Params params :
         {ops::PadReflect1d::Params{0, 0}, {10, 9}, {12, 12}}) {
        Tensor* x = bench.random(GGML_TYPE_F32, {13, 3, 2, 2});
        Tensor* y = bench.node<ops::PadReflect1d>(params, {x});
        expect_exactly(bench, *y, elements(*y, [&](Extents i) {
                           const std::int64_t j = i[0] - params.before, n = x->ne[0];
                           i[0] = j < 0 ? -j : j < n ? j : 2 * (n - 1) - j;
                           return element(*x, i);
                       }));
    }
}

TEST(Roll, ShiftsRoundInEveryDimension) {
    Workbench bench;
    for (const std::array<std::int32_t, 4> shift :
         {std::array{0, 0, 0, 0}, std::array{3, -2, 1, -1}, std::array{-9, 3, 0, 2}}) {
        Tensor* x = bench.permuted(bench.random(GGML_TYPE_F32, {10, 4, 5, 3}), {0, 2, 1, 3});
        Tensor* y = bench.node<ops::Roll>({shift}, {x});
        expect_exactly(bench, *y, elements(*y, [&](Extents i) {
                           for (std::size_t d = 0; d < kMaxDims; ++d)
                               i[d] = modulo(i[d] - shift[d], x->ne[d]);
                           return element(*x, i);
                       }));
    }
}

TEST(Roll, DeclinesBlocks) {
    Workbench bench;
    Tensor* x = bench.tensor(GGML_TYPE_Q8_0, {64, 2, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::Roll>({{1, 0, 0, 0}}, {x})), "blocks cannot be rolled");
}

// ---- set, acc ----------------------------------------------------------------------------------

/// What `a` looks like once `join(old, new)` was done where the region is.
template <class Join>
std::vector<double> joined(const Tensor& a, const Tensor& b, const ops::Region& region, Join join) {
    std::vector<double> expected = values_of(a);
    for_elements(b, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        const std::size_t offset = region.offset + static_cast<std::size_t>(i0) * 4 +
                                   static_cast<std::size_t>(i1) * region.nb1 +
                                   static_cast<std::size_t>(i2) * region.nb2 +
                                   static_cast<std::size_t>(i3) * region.nb3;
        expected[offset / 4] = join(expected[offset / 4], value_at(b, i0, i1, i2, i3));
    });
    return expected;
}

template <Descriptor D, class Join>
void expect_region(Type type, Join join) {
    Workbench bench;
    Tensor* a = bench.random(type, {12, 10, 8, 3}, -99, 99);
    const std::vector<double> before = values_of(*a);
    Tensor* dense = bench.random(type, {6, 5, 4, 3}, -99, 99);
    Tensor* gaps =
        bench.slice(bench.random(type, {9, 6, 4, 3}, -99, 99), {2, 1, 0, 0}, {6, 5, 4, 3});
    for (Tensor* b : {dense, gaps}) {
        for (const ops::Region& region :
             {ops::Region{a->nb[1], a->nb[2], a->nb[3], 52}, ops::Region{24, 120, 480, 1000}}) {
            const std::vector<double> expected = joined(*a, *b, region, join);
            Tensor* y = bench.node<D>(D::at(region, false), {a, b});
            run_afresh(bench, *y, [&] { expect_close(*y, expected, 1e-6, 1e-6); });
            Tensor* in_place = bench.node_in_place<D>(D::at(region, true), {a, b});
            for_each_way([&](int tasks) {
                set_values(*a, before);
                ASSERT_TRUE(run_node(*in_place, tasks));
                expect_close(*a, expected, 1e-6, 1e-6);
                bench.expect_intact();
            });
            set_values(*a, before);
        }
    }
}

TEST(Set, ReplacesARegion) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_I32}) {
        expect_region<ops::Set>(type, [](double, double b) { return b; });
    }
}

TEST(Acc, AddsToARegion) {
    expect_region<ops::Acc>(GGML_TYPE_F32, [](double a, double b) { return a + b; });
}

TEST(Set, DeclinesARegionThatReachesPastTheResult) {
    Workbench bench;
    Tensor* a = bench.tensor(GGML_TYPE_F32, {8, 4, 1, 1});
    Tensor* b = bench.tensor(GGML_TYPE_F32, {4, 2, 1, 1});
    // No builder makes such a node, but its parameters can be written to.
    Tensor& node = *bench.node<ops::Set>(ops::Set::at({32, 0, 0, 80}, false), {a, b});
    const auto refusal = [&](const ops::Region& region) {
        const auto params = ops::Set::at(region, false).params;
        set_params(node, &params, sizeof params);
        return objection_to(node);
    };
    const std::string outside = "the region is not made of elements of the result";
    EXPECT_EQ(refusal({32, 0, 0, 80}), "");
    EXPECT_EQ(refusal({32, 0, 0, 84}), outside);
    EXPECT_EQ(refusal({116, 0, 0, 0}), outside);
    EXPECT_EQ(refusal({30, 0, 0, 0}), outside);
    EXPECT_EQ(refusal({std::size_t{1} << 31, 0, 0, 0}), outside);
}

}  // namespace
}  // namespace heddle::cpu
