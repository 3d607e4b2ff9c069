#include "backends/cpu/kernels/test_support.hpp"
#include "ops/recurrent.hpp"

namespace heddle::cpu {
namespace {

using ops::GatedDeltaNet;
using ops::GatedLinearAttn;
using ops::RwkvWkv6;
using ops::RwkvWkv7;

/// Extents of a recurrence with a matrix for each head.
struct Shape {
    std::int64_t size, heads, tokens, sequences;

    Extents operand() const { return {size, heads, tokens, 1}; }
    Extents state() const { return {size * size * heads, sequences, 1, 1}; }
};

/// Head sizes that fill vectors, and such that do not; tokens for one run and for several.
const Shape kShapes[] = {{64, 3, 6, 2}, {8, 2, 5, 1}, {16, 2, 4, 4},  {13, 3, 9, 3}, {1, 2, 3, 1},
                         {33, 1, 2, 1}, {4, 2, 0, 2}, {64, 1, 70, 1}, {39, 2, 33, 1}};

/// Decays from mild to so strong that the product of a few is not a number to divide by; some are
/// 0, and some negative.
Tensor* decays(Workbench& bench, const Extents& extents) {
    Tensor* made = bench.random(GGML_TYPE_F32, extents, -0.2, 1);
    std::vector<double> values = values_of(*made);
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % 41 == 5) values[i] = 0;
        if (i % 97 == 50) values[i] = 1e-30;
    }
    set_values(*made, values);
    return made;
}

/// The definition: `step(h, t, matrix, y)` for every token, matrix and output in double.
template <class Step>
std::vector<double> expected_of(const Shape& c, const Tensor& state, Step&& step) {
    std::vector<double> expected(
        static_cast<std::size_t>(c.size * c.heads * (c.tokens + c.size * c.sequences)));
    const std::vector<double> initial = values_of(state);
    const std::int64_t elements = c.size * c.size, count = c.tokens / c.sequences;
    for (std::int64_t sequence = 0; sequence < c.sequences; ++sequence) {
        for (std::int64_t h = 0; h < c.heads; ++h) {
            const auto from = (sequence * c.heads + h) * elements;
            std::vector<double> matrix(initial.begin() + from, initial.begin() + from + elements);
            for (std::int64_t t = sequence * count; t < (sequence + 1) * count; ++t) {
                std::vector<double> y(static_cast<std::size_t>(c.size));
                step(h, t, matrix, y);
                std::copy(y.begin(), y.end(), expected.begin() + (t * c.heads + h) * c.size);
            }
            std::copy(matrix.begin(), matrix.end(),
                      expected.begin() + c.size * c.heads * c.tokens + from);
        }
    }
    return expected;
}

std::size_t cell(const Shape& c, std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(row * c.size + column);
}

TEST(RwkvWkv6, FollowsItsRecurrence) {
    for (const Shape& c : kShapes) {
        Workbench bench;
        const auto operand = [&] { return bench.random(GGML_TYPE_F32, c.operand()); };
        Tensor *k = operand(), *v = operand(), *r = operand(), *td = decays(bench, c.operand());
        Tensor* tf = bench.random(GGML_TYPE_F32, {c.size, c.heads, 1, 1});
        Tensor* state = bench.random(GGML_TYPE_F32, c.state());
        Tensor* node = bench.node<RwkvWkv6>({}, {k, v, r, tf, td, state});
        const auto step = [&](auto h, auto t, std::vector<double>& m, std::vector<double>& y) {
            for (std::int64_t i = 0; i < c.size; ++i) {
                for (std::int64_t j = 0; j < c.size; ++j) {
                    const double kv = value_at(*k, i, h, t) * value_at(*v, j, h, t);
                    double& cell_value = m[cell(c, i, j)];
                    y[static_cast<std::size_t>(j)] +=
                        value_at(*r, i, h, t) * (value_at(*tf, i, h) * kv + cell_value);
                    cell_value = cell_value * value_at(*td, i, h, t) + kv;
                }
            }
        };
        expect_result(bench, *node, expected_of(c, *state, step), 1e-5, 1e-5);
    }
}

TEST(GatedLinearAttn, FollowsItsRecurrence) {
    for (const Shape& c : kShapes) {
        Workbench bench;
        const auto operand = [&] { return bench.random(GGML_TYPE_F32, c.operand()); };
        Tensor *k = operand(), *v = operand(), *q = operand(), *g = decays(bench, c.operand());
        Tensor* state = bench.random(GGML_TYPE_F32, c.state());
        const float scale = 0.37f;
        Tensor* node = bench.node<GatedLinearAttn>({scale}, {k, v, q, g, state});
        const auto step = [&](auto h, auto t, std::vector<double>& m, std::vector<double>& y) {
            for (std::int64_t i = 0; i < c.size; ++i) {
                for (std::int64_t j = 0; j < c.size; ++j) {
                    double& cell_value = m[cell(c, i, j)];
                    cell_value = cell_value * value_at(*g, i, h, t) +
                                 value_at(*k, i, h, t) * value_at(*v, j, h, t);
                    y[static_cast<std::size_t>(j)] += value_at(*q, i, h, t) * scale * cell_value;
                }
            }
        };
        expect_result(bench, *node, expected_of(c, *state, step), 1e-5, 1e-5);
    }
}

TEST(RwkvWkv7, FollowsItsRecurrence) {
    for (const Shape& c : kShapes) {
        Workbench bench;
        // Small enough that states do not grow without limit.
        const auto operand = [&] { return bench.random(GGML_TYPE_F32, c.operand(), -0.3, 0.3); };
        Tensor *r = operand(), *w = decays(bench, c.operand()), *k = operand(), *v = operand(),
               *a = operand(), *b = operand();
        Tensor* state = bench.random(GGML_TYPE_F32, c.state());
        Tensor* node = bench.node<RwkvWkv7>({}, {r, w, k, v, a, b, state});
        const auto step = [&](auto h, auto t, std::vector<double>& m, std::vector<double>& y) {
            for (std::int64_t i = 0; i < c.size; ++i) {
                double sa = 0;
                for (std::int64_t j = 0; j < c.size; ++j) {
                    sa += value_at(*a, j, h, t) * m[cell(c, i, j)];
                }
                for (std::int64_t j = 0; j < c.size; ++j) {
                    double& cell_value = m[cell(c, i, j)];
                    cell_value = cell_value * value_at(*w, j, h, t) +
                                 value_at(*v, i, h, t) * value_at(*k, j, h, t) +
                                 sa * value_at(*b, j, h, t);
                    y[static_cast<std::size_t>(i)] += cell_value * value_at(*r, j, h, t);
                }
            }
        };
        expect_result(bench, *node, expected_of(c, *state, step), 1e-5, 1e-5);
    }
}

TEST(MatrixStates, DeclineTokensThatDoNotDivideIntoSequences) {
    Workbench bench;
    const auto operand = [&] { return bench.random(GGML_TYPE_F32, {8, 2, 5, 1}); };
    Tensor *k = operand(), *tf = bench.random(GGML_TYPE_F32, {8, 2, 1, 1});
    Tensor* short_tf = bench.random(GGML_TYPE_F32, {8, 1, 1, 1});
    Tensor* two = bench.random(GGML_TYPE_F32, {8 * 8 * 2, 2, 1, 1});
    Tensor* one = bench.random(GGML_TYPE_F32, {8 * 8 * 2, 1, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<RwkvWkv6>({}, {k, k, k, tf, k, two})),
              "tokens do not divide into the sequences of the state");
    EXPECT_EQ(objection_to(*bench.node<RwkvWkv6>({}, {k, k, k, short_tf, k, one})),
              "tf has fewer values than there are keys");
    EXPECT_EQ(objection_to(*bench.node<RwkvWkv7>({}, {short_tf, k, k, k, k, k, one})),
              "r has fewer values than there are keys");
    EXPECT_EQ(objection_to(*bench.node<GatedLinearAttn>({1}, {k, k, k, k, two})),
              "tokens do not divide into the sequences of the state");
}

// ---- gated delta net ---------------------------------------------------------------------------

struct NetCase {
    std::int64_t size, heads, tokens, sequences;
    std::int64_t key_heads, key_sequences, snapshots;
    bool own_gates;
    bool permuted = false;

    Tensor* node(Workbench& bench) const {
        const auto rows = [&](std::int64_t n, std::int64_t batches, double scale) {
            if (!permuted) {
                return bench.random(GGML_TYPE_F32, {size, n, tokens, batches}, -scale, scale);
            }
            Tensor* made = bench.random(GGML_TYPE_F32, {size, tokens, n, batches}, -scale, scale);
            return bench.permuted(made, {0, 2, 1, 3});
        };
        const double unit = 1 / std::sqrt(static_cast<double>(size));  // keys of about length 1
        Tensor *q = rows(key_heads, key_sequences, unit), *k = rows(key_heads, key_sequences, unit);
        Tensor* v = rows(heads, sequences, 1);
        Tensor* g = bench.random(GGML_TYPE_F32, {own_gates ? size : 1, heads, tokens, sequences},
                                 -3, -0.001);
        Tensor* beta = bench.random(GGML_TYPE_F32, {1, heads, tokens, sequences}, 0, 1);
        Tensor* state = bench.random(GGML_TYPE_F32, {size, size, heads, sequences});
        return bench.node<GatedDeltaNet>(GatedDeltaNet::args(snapshots), {q, k, v, g, beta, state});
    }
};

double untouched() {
    float value;
    std::memset(&value, 0x3C, sizeof value);
    return value;
}

/// One token of one head.
void step_net(const Tensor& node, const NetCase& c, std::int64_t h, std::int64_t t, std::int64_t s,
              std::vector<double>& m, std::vector<double>& y) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2], &g = *node.src[3];
    const std::int64_t kh = h % c.key_heads, ks = s / (c.sequences / c.key_sequences);
    const double beta = value_at(*node.src[4], 0, h, t, s);
    for (std::int64_t j = 0; j < c.size; ++j) {
        double* row = m.data() + j * c.size;
        double recalled = 0;
        for (std::int64_t i = 0; i < c.size; ++i) {
            row[i] *= std::exp(value_at(g, c.own_gates ? i : 0, h, t, s));
            recalled += row[i] * value_at(k, i, kh, t, ks);
        }
        const double delta = beta * (value_at(v, j, h, t, s) - recalled);
        double sum = 0;
        for (std::int64_t i = 0; i < c.size; ++i) {
            row[i] += delta * value_at(k, i, kh, t, ks);
            sum += row[i] * value_at(q, i, kh, t, ks);
        }
        y[static_cast<std::size_t>(j)] = sum / std::sqrt(static_cast<double>(c.size));
    }
}

std::vector<double> expected_net(const Tensor& node, const NetCase& c) {
    std::vector<double> expected(static_cast<std::size_t>(element_count(node)), untouched());
    const std::vector<double> initial = values_of(*node.src[5]);
    const std::int64_t elements = c.size * c.size, units = c.heads * c.sequences;
    const std::int64_t states = c.size * c.heads * c.tokens * c.sequences;
    for (std::int64_t unit = 0; unit < units; ++unit) {
        const std::int64_t h = unit % c.heads, s = unit / c.heads;
        std::vector<double> m(initial.begin() + unit * elements,
                              initial.begin() + (unit + 1) * elements);
        const auto keep = [&](std::int64_t slot) {
            std::copy(m.begin(), m.end(),
                      expected.begin() + states + (slot * units + unit) * elements);
        };
        if (c.tokens == 0 && c.snapshots == 1) keep(0);
        for (std::int64_t t = 0; t < c.tokens; ++t) {
            std::vector<double> y(static_cast<std::size_t>(c.size));
            step_net(node, c, h, t, s, m, y);
            std::copy(y.begin(), y.end(),
                      expected.begin() + ((s * c.tokens + t) * c.heads + h) * c.size);
            if (const std::int64_t slot = c.tokens - 1 - t; slot < c.snapshots) keep(slot);
        }
    }
    return expected;
}

TEST(GatedDeltaNet, FollowsItsRecurrence) {
    for (const NetCase& c : {
             NetCase{32, 4, 5, 2, 4, 2, 1, false}, NetCase{32, 4, 5, 2, 2, 1, 1, true},
             NetCase{13, 6, 7, 4, 3, 2, 3, false, true},
             NetCase{128, 2, 40, 1, 1, 1, 2, true, true}, NetCase{64, 2, 75, 1, 1, 1, 1, false},
             NetCase{20, 1, 70, 1, 1, 1, 40, true}, NetCase{65, 1, 34, 1, 1, 1, 1, true},
             NetCase{160, 1, 3, 1, 1, 1, 2, false},
             NetCase{16, 2, 2, 2, 2, 2, 4, false},  // fewer tokens than snapshots
             NetCase{1, 3, 4, 1, 3, 1, 1, false},
             NetCase{8, 2, 0, 2, 2, 2, 1, false},  // no token: the state as it was
             NetCase{8, 2, 0, 2, 2, 2, 3, true},   // no token: nothing is written
         }) {
        Workbench bench;
        Tensor* node = c.node(bench);
        ASSERT_NE(node, nullptr);
        expect_result(bench, *node, expected_net(*node, c), 2e-5, 1e-5);
    }
}

}  // namespace
}  // namespace heddle::cpu
