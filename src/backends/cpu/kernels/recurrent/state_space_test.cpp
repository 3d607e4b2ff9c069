#include "ops/state_space.hpp"

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

using ops::SsmConv;
using ops::SsmScan;

TEST(SsmConv, ConvolvesEachChannelCausally) {
    for (const auto& [taps, channels, tokens, sequences] :
         {Extents{4, 37, 9, 2}, Extents{3, 1, 1, 1}, Extents{4, 130, 1, 4}, Extents{1, 5, 6, 1},
          Extents{4, 8, 0, 2}, Extents{4, 33, 131, 1},  // more tokens than are taken at a time
          Extents{9, 16, 7, 2}, Extents{17, 16, 3, 1}}) {
        Workbench bench;
        Tensor* dense = bench.random(GGML_TYPE_F32, {taps - 1 + tokens, channels, sequences, 1});
        Tensor* whole =
            bench.random(GGML_TYPE_F32, {taps + 3 + tokens, channels + 2, sequences + 1, 1});
        Tensor* kernel = bench.random(GGML_TYPE_F32, {taps, channels, 1, 1});
        for (Tensor* x : {dense, bench.slice(whole, {2, 1, 1, 0}, extents_of(*dense))}) {
            Tensor* node = bench.node<SsmConv>({}, {x, kernel});
            std::vector<double> expected;
            for_elements(*node, [&](auto channel, auto token, auto sequence, auto) {
                double sum = 0;
                for (std::int64_t k = 0; k < kernel->ne[0]; ++k) {
                    sum +=
                        value_at(*x, token + k, channel, sequence) * value_at(*kernel, k, channel);
                }
                expected.push_back(sum);
            });
            expect_result(bench, *node, expected, 1e-6, 1e-6);
        }
    }
}

/// The operands of a scan. x, B and C are pieces of one projection, as models have them.
struct ScanCase {
    std::int64_t state, dims, heads, groups, tokens, sequences, pool;
    bool own_decays;
    std::int64_t snapshots = 1;

    std::vector<Tensor*> operands(Workbench& bench) const {
        const std::int64_t width = dims * heads + 2 * state * groups;
        Tensor* joint = bench.random(GGML_TYPE_F32, {width, tokens, sequences, 1});
        const auto piece = [&](std::int64_t from, std::int64_t n0, std::int64_t n1) {
            Tensor* view = bench.slice(joint, {from, 0, 0, 0}, {1, 1, 1, 1});
            const Extents extent{n0, n1, tokens, sequences};
            std::copy(extent.begin(), extent.end(), view->ne);
            view->nb[3] = joint->nb[2];
            view->nb[2] = joint->nb[1];
            view->nb[1] = view->nb[0] * static_cast<std::size_t>(n0);
            return view;
        };
        std::vector<double> ids;
        for (std::int64_t i = 0; i < sequences; ++i) {
            ids.push_back(static_cast<double>((i * 2 + 1) % pool));
        }
        return {bench.random(GGML_TYPE_F32, {state, dims, heads, pool}),
                piece(0, dims, heads),
                bench.random(GGML_TYPE_F32, {heads, tokens, sequences, 1}, -4, 24),
                bench.random(GGML_TYPE_F32, {own_decays ? state : 1, heads, 1, 1}, -1, -0.1),
                piece(dims * heads, state, groups),
                piece(dims * heads + state * groups, state, groups),
                bench.numbers(GGML_TYPE_I32, {sequences, 1, 1, 1}, ids)};
    }
};

Tensor* scan_node(Workbench& bench, const ScanCase& c) {
    const std::vector<Tensor*> src = c.operands(bench);
    return bench.node<SsmScan>(SsmScan::args(c.snapshots),
                               {src[0], src[1], src[2], src[3], src[4], src[5], src[6]});
}

/// What the memory of a result that is not written holds.
double untouched() {
    float value;
    std::memset(&value, 0x3C, sizeof value);
    return value;
}

std::vector<double> expected_scan(const Tensor& node, const ScanCase& c) {
    const Tensor &s = *node.src[0], &x = *node.src[1], &dt = *node.src[2], &a = *node.src[3],
                 &b = *node.src[4], &bc = *node.src[5], &ids = *node.src[6];
    std::vector<double> expected(static_cast<std::size_t>(element_count(node)), untouched());
    const std::int64_t outputs = element_count(x), head = c.state * c.dims;
    for (std::int64_t i = 0; i < c.sequences; ++i) {
        for (std::int64_t h = 0; h < c.heads; ++h) {
            const std::int64_t g = h / (c.heads / c.groups);
            for (std::int64_t d = 0; d < c.dims; ++d) {
                std::vector<double> state;
                for (std::int64_t n = 0; n < c.state; ++n) {
                    state.push_back(value_at(s, n, d, h, std::int64_t(value_at(ids, i))));
                }
                for (std::int64_t t = 0; t < c.tokens; ++t) {
                    const double z = value_at(dt, h, t, i);
                    const double delta = z > 20 ? z : std::log1p(std::exp(z));
                    double y = 0;
                    for (std::int64_t n = 0; n < c.state; ++n) {
                        double& value = state[static_cast<std::size_t>(n)];
                        const double rate = value_at(a, c.own_decays ? n : 0, h);
                        value = value * std::exp(delta * rate) +
                                value_at(b, n, g, t, i) * value_at(x, d, h, t, i) * delta;
                        y += value * value_at(bc, n, g, t, i);
                    }
                    expected[static_cast<std::size_t>(((i * c.tokens + t) * c.heads + h) * c.dims +
                                                      d)] = y;
                    const std::int64_t slot = c.tokens - 1 - t;
                    if (slot >= c.snapshots) continue;
                    const std::int64_t at =
                        outputs + ((slot * c.sequences + i) * c.heads + h) * head + d * c.state;
                    std::copy(state.begin(), state.end(), expected.begin() + at);
                }
            }
        }
    }
    return expected;
}

TEST(SsmScan, FollowsTheRecurrenceOfBothKindsOfDecay) {
    for (const ScanCase& c : {
             ScanCase{16, 1, 10, 1, 5, 2, 3, true}, ScanCase{13, 3, 4, 2, 6, 2, 4, true},
             ScanCase{128, 4, 6, 2, 7, 1, 1, false}, ScanCase{19, 5, 4, 4, 3, 3, 5, false},
             ScanCase{32, 2, 4, 1, 6, 2, 2, false, 4}, ScanCase{83, 6, 2, 1, 70, 1, 1, false},
             ScanCase{16, 9, 2, 2, 45, 1, 1, false, 36},
             ScanCase{32, 2, 4, 1, 2, 2, 2, false, 4},  // fewer tokens than snapshots
             ScanCase{8, 2, 2, 1, 0, 1, 1, false},      // no token: nothing is written
         }) {
        Workbench bench;
        Tensor* node = scan_node(bench, c);
        ASSERT_NE(node, nullptr);
        expect_result(bench, *node, expected_scan(*node, c), 2e-5, 2e-5);
    }
}

TEST(SsmScan, RefusesStatesThatThePoolDoesNotHave) {
    for (const double id : {-1.0, 2.0}) {
        Workbench bench;
        Tensor* node = scan_node(bench, {8, 2, 2, 1, 3, 2, 2, false});
        set_name(*node->src[0], "pool");
        set_values(*node->src[6], {1, id});
        const Result<> done = run_node(*node, 2);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().message, "ssm_scan: sequence 1 starts from state " +
                                            std::to_string(static_cast<int>(id)) + " of " +
                                            describe(*node->src[0]));
    }
}

TEST(SsmScan, DeclinesGroupsThatDoNotDivideTheHeads) {
    Workbench bench;
    EXPECT_EQ(objection_to(*scan_node(bench, {8, 2, 4, 3, 3, 1, 1, false})),
              "heads do not divide into the groups of B and C");
}

}  // namespace
}  // namespace heddle::cpu
