#include <algorithm>
#include <cmath>

#include "ggml/op_list.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

Values ssm_conv(const Operands& in) {
    const Values &signal = in[0], &kernel = in[1];
    return make_values(in.extent, [&](std::int64_t i, std::int64_t t, std::int64_t s, auto) {
        double total = 0;
        for (std::int64_t k = 0; k < kernel.extent(0); ++k) {
            total += signal(t + k, i, s) * kernel(k, i);
        }
        return total;
    });
}

// ---- selective scan ----------------------------------------------------------------------------

/// The result holds y, then the states after the last tokens, the newest first. Snapshots for which
/// there were too few tokens stay as they were.
Values ssm_scan(const Operands& in) {
    const Values &pool = in[0], &x = in[1], &dt = in[2], &decay = in[3], &b = in[4], &c = in[5];
    const auto& [head_dim, heads, tokens, sequences] = x.extent();
    const std::int64_t size = pool.extent(0), group = heads / b.extent(1), slots = in.integer(0);
    Values result = in.before;
    const std::int64_t snapshot = size * head_dim * heads * sequences;
    for (std::int64_t s = 0; s < sequences; ++s) {
        const auto origin = static_cast<std::int64_t>(in[6](s));
        for (std::int64_t h = 0; h < heads; ++h) {
            for (std::int64_t d = 0; d < head_dim; ++d) {
                std::vector<double> state(static_cast<std::size_t>(size));
                for (std::int64_t n = 0; n < size; ++n)
                    state[std::size_t(n)] = pool(n, d, h, origin);
                for (std::int64_t t = 0; t < tokens; ++t) {
                    const double step = std::log1p(std::exp(double{dt(h, t, s)}));
                    double y = 0;
                    for (std::int64_t n = 0; n < size; ++n) {
                        const double rate = decay(decay.extent(0) == 1 ? 0 : n, h);
                        double& value = state[std::size_t(n)];
                        value = value * std::exp(step * rate) +
                                b(n, h / group, t, s) * x(d, h, t, s) * step;
                        y += value * c(n, h / group, t, s);
                    }
                    result(d + head_dim * (h + heads * (t + tokens * s))) = y;
                    const std::int64_t slot = tokens - 1 - t;
                    if (slot >= slots) continue;
                    const std::int64_t at =
                        x.count() + slot * snapshot + size * (d + head_dim * (h + heads * s));
                    std::ranges::copy(state, result.data().begin() + at);
                }
            }
        }
    }
    return result;
}

// ---- linear attention with a matrix as state ---------------------------------------------------

/// A square matrix of one head.
struct Matrix {
    std::int64_t n;
    double* data;
    double& operator()(std::int64_t i, std::int64_t j) const { return data[i * n + j]; }
};

/// Runs `step` for every token of every head; results go before the final states. Tokens of one
/// sequence follow each other.
template <class Step>
Values run_heads(const Operands& in, const Values& tokens_like, const Values& states, Step step) {
    const auto& [size, heads, tokens, ignored] = tokens_like.extent();
    const std::int64_t sequences = states.extent(1), per_sequence = tokens / sequences;
    Values result(in.extent);
    double* const state_data = result.data().data() + size * heads * tokens;
    std::ranges::copy(states.data(), state_data);
    for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t h = 0; h < heads; ++h) {
            const std::int64_t sequence = t / per_sequence;
            const Matrix state{size, state_data + (sequence * heads + h) * size * size};
            double* const y = result.data().data() + (t * heads + h) * size;
            step(state, y, h, t);
        }
    }
    return result;
}

/// State (key, value); the bonus counts the current token differently from what is kept of it.
Values rwkv_wkv6(const Operands& in) {
    const Values &k = in[0], &v = in[1], &r = in[2], &bonus = in[3], &decay = in[4];
    return run_heads(in, k, in[5], [&](Matrix state, double* y, std::int64_t h, std::int64_t t) {
        for (std::int64_t i = 0; i < state.n; ++i) {
            for (std::int64_t j = 0; j < state.n; ++j) {
                const double kv = k(i, h, t) * v(j, h, t);
                y[j] += r(i, h, t) * (bonus(i, h) * kv + state(i, j));
                state(i, j) = state(i, j) * decay(i, h, t) + kv;
            }
        }
    });
}

/// State (value, key).
Values rwkv_wkv7(const Operands& in) {
    const Values &r = in[0], &w = in[1], &k = in[2], &v = in[3], &a = in[4], &b = in[5];
    return run_heads(in, k, in[6], [&](Matrix state, double* y, std::int64_t h, std::int64_t t) {
        for (std::int64_t i = 0; i < state.n; ++i) {
            double removed = 0;
            for (std::int64_t j = 0; j < state.n; ++j) removed += a(j, h, t) * state(i, j);
            for (std::int64_t j = 0; j < state.n; ++j) {
                state(i, j) =
                    state(i, j) * w(j, h, t) + v(i, h, t) * k(j, h, t) + removed * b(j, h, t);
                y[i] += state(i, j) * r(j, h, t);
            }
        }
    });
}

/// State (key, value).
Values gated_linear_attn(const Operands& in) {
    const Values &k = in[0], &v = in[1], &q = in[2], &gate = in[3];
    return run_heads(in, k, in[4], [&](Matrix state, double* y, std::int64_t h, std::int64_t t) {
        for (std::int64_t i = 0; i < state.n; ++i) {
            for (std::int64_t j = 0; j < state.n; ++j) {
                state(i, j) = state(i, j) * gate(i, h, t) + k(i, h, t) * v(j, h, t);
                y[j] += q(i, h, t) * in.real(0) * state(i, j);
            }
        }
    });
}

/// State (value, key): decayed, corrected by what it predicts wrongly, then read.
Values gated_delta_net(const Operands& in) {
    const Values &q = in[0], &k = in[1], &v = in[2], &gate = in[3], &beta = in[4], &states = in[5];
    const auto& [size, heads, tokens, sequences] = v.extent();
    const std::int64_t slots = in.integer(0), matrix = size * size;
    Values result = in.before;
    double* const snapshots = result.data().data() + v.count();
    for (std::int64_t s = 0; s < sequences; ++s) {
        const std::int64_t sk = s / (sequences / k.extent(3)), sq = s / (sequences / q.extent(3));
        for (std::int64_t h = 0; h < heads; ++h) {
            const std::int64_t hk = h % k.extent(1), hq = h % q.extent(1);
            const std::int64_t place = (s * heads + h) * matrix;
            std::vector<double> memory(states.data().begin() + place,
                                       states.data().begin() + place + matrix);
            const Matrix state{size, memory.data()};
            if (tokens == 0 && slots == 1) std::ranges::copy(memory, snapshots + place);
            for (std::int64_t t = 0; t < tokens; ++t) {
                for (std::int64_t j = 0; j < size; ++j) {
                    double predicted = 0, y = 0;
                    for (std::int64_t i = 0; i < size; ++i) {
                        state(j, i) *= std::exp(gate(gate.extent(0) == 1 ? 0 : i, h, t, s));
                        predicted += state(j, i) * k(i, hk, t, sk);
                    }
                    const double correction = beta(0, h, t, s) * (v(j, h, t, s) - predicted);
                    for (std::int64_t i = 0; i < size; ++i) {
                        state(j, i) += correction * k(i, hk, t, sk);
                        y += state(j, i) * q(i, hq, t, sq);
                    }
                    result.data()[std::size_t(((s * tokens + t) * heads + h) * size + j)] =
                        y / std::sqrt(double(size));
                }
                const std::int64_t slot = tokens - 1 - t;
                if (slot >= slots) continue;
                std::ranges::copy(memory, snapshots + slot * matrix * heads * sequences + place);
            }
        }
    }
    return result;
}

// ---- hyper-connections -------------------------------------------------------------------------

/// A soft-max whose rows and columns are then made to sum to one by turns.
Values dsv4_hc_comb(const Operands& in) {
    const Values &mixes = in[0], &scale = in[1], &base = in[2];
    const double epsilon = in.real(0);
    const std::int64_t n = in.extent[0];
    Values c = make_values(in.extent, [&](std::int64_t d, std::int64_t s, std::int64_t t, auto) {
        const std::int64_t at = 2 * n + d + n * s;
        return mixes(at, t) * scale(2) + base(at);
    });
    for (std::int64_t t = 0; t < in.extent[2]; ++t) {
        const auto scale_sources = [&] {
            for (std::int64_t s = 0; s < n; ++s) {
                double total = epsilon;
                for (std::int64_t d = 0; d < n; ++d) total += c(d, s, t);
                for (std::int64_t d = 0; d < n; ++d) c(d, s, t) /= total;
            }
        };
        const auto scale_targets = [&] {
            for (std::int64_t d = 0; d < n; ++d) {
                double total = epsilon;
                for (std::int64_t s = 0; s < n; ++s) total += c(d, s, t);
                for (std::int64_t s = 0; s < n; ++s) c(d, s, t) /= total;
            }
        };
        for (std::int64_t s = 0; s < n; ++s) {
            double total = 0;
            for (std::int64_t d = 0; d < n; ++d) total += c(d, s, t) = std::exp(c(d, s, t));
            for (std::int64_t d = 0; d < n; ++d) c(d, s, t) = c(d, s, t) / total + epsilon;
        }
        scale_targets();
        for (int i = 1; i < in.integer(1); ++i) scale_sources(), scale_targets();
    }
    return c;
}

Values dsv4_hc_pre(const Operands& in) {
    return make_values(in.extent, [&](std::int64_t i, std::int64_t t, auto...) {
        double total = 0;
        for (std::int64_t h = 0; h < in[0].extent(1); ++h) total += in[0](i, h, t) * in[1](h, t);
        return total;
    });
}

Values dsv4_hc_post(const Operands& in) {
    const Values &x = in[0], &residual = in[1], &post = in[2], &comb = in[3];
    return make_values(in.extent, [&](std::int64_t i, std::int64_t d, std::int64_t t, auto) {
        double total = x(i, t) * post(d, t);
        for (std::int64_t s = 0; s < residual.extent(1); ++s) {
            total += residual(i, s, t) * comb(d, s, t);
        }
        return total;
    });
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_SSM_CONV, ssm_conv},
    {GGML_OP_SSM_SCAN, ssm_scan},
    {GGML_OP_RWKV_WKV6, rwkv_wkv6},
    {GGML_OP_RWKV_WKV7, rwkv_wkv7},
    {GGML_OP_GATED_LINEAR_ATTN, gated_linear_attn},
    {GGML_OP_GATED_DELTA_NET, gated_delta_net},
    {GGML_OP_DSV4_HC_COMB, dsv4_hc_comb},
    {GGML_OP_DSV4_HC_PRE, dsv4_hc_pre},
    {GGML_OP_DSV4_HC_POST, dsv4_hc_post},
};

}  // namespace

std::span<const Definition> recurrent_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
