#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Values diag_mask(const Operands& in, double masked) {
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           return i0 > in.integer(0) + i1 ? masked : in[0](i0, i1, i2, i3);
                       });
}
Values diag_mask_inf(const Operands& in) { return diag_mask(in, -kInfinity); }
Values diag_mask_zero(const Operands& in) { return diag_mask(in, 0); }

// ---- soft-max ----------------------------------------------------------------------------------

/// The factor of the mask for a head, which makes attention fade with distance.
double slope(double max_bias, std::int64_t head, std::int64_t heads) {
    if (max_bias <= 0) return 1;
    const double power = std::exp2(std::floor(std::log2(double(heads))));
    if (double(head) < power) return std::pow(std::exp2(-max_bias / power), double(head + 1));
    return std::pow(std::exp2(-max_bias / 2 / power), 2 * (double(head) - power) + 1);
}

/// Turns logits into shares. A sink takes a share of its own and gives nothing. Gives the sum the
/// shares were divided by.
double soft_max_row(std::span<double> row, std::optional<double> sink) {
    double largest = sink.value_or(-kInfinity);
    for (const double value : row) largest = std::max(largest, value);
    double total = sink ? std::exp(*sink - largest) : 0;
    for (double& value : row) total += value = std::exp(value - largest);
    for (double& value : row) value /= total;
    return total;
}

Values soft_max(const Operands& in) {
    Values result = in[0];
    const double factor = in.real(0), max_bias = in.real(1);
    result.for_each([&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        double& value = result(i0, i1, i2, i3);
        value *= factor;
        if (!in.has(1)) return;
        const Values& mask = in[1];
        value += slope(max_bias, i2, result.extent(2)) *
                 mask(i0, i1, i2 % mask.extent(2), i3 % mask.extent(3));
    });
    for (std::int64_t r = 0; r < result.rows(); ++r) {
        std::optional<double> sink;
        if (in.has(2)) sink = in[2](r / result.extent(1) % result.extent(2));
        soft_max_row(result.row(r), sink);
    }
    return result;
}

/// The second operand is what the forward op gave.
Values soft_max_back(const Operands& in) {
    Values result = in[0];
    for (std::int64_t r = 0; r < result.rows(); ++r) {
        const auto dy = in[0].row(r), y = in[1].row(r);
        const double dot = std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
        for (std::size_t i = 0; i < y.size(); ++i) {
            result.row(r)[i] = in.real(0) * y[i] * (dy[i] - dot);
        }
    }
    return result;
}

// ---- rotary positions --------------------------------------------------------------------------

/// Parameters of a rotation, and the angle it turns each pair by.
struct Rotation {
    const Operands& in;
    std::int64_t dims = in.integer(1);
    int mode = in.integer(2);
    double base = in.real(5), scale = in.real(6), extrapolation = in.real(7);
    double magnitude = in.real(8);
    std::int64_t offset = in.integer(15);

    bool is_vision() const { return mode == GGML_ROPE_TYPE_VISION; }
    bool has_sections() const { return (mode & GGML_ROPE_TYPE_MROPE) != 0; }
    std::int64_t pairs() const { return is_vision() ? dims : dims / 2; }

    struct Place {
        double position;
        std::int64_t exponent;
    };

    /// Which of a token's positions pair `p` follows.
    Place place(std::int64_t token, std::int64_t p) const {
        const Values& positions = in[1];
        if (!has_sections()) return {positions(token), p};
        const std::int64_t tokens = in[0].extent(2);
        const std::int64_t s[4] = {in.integer(11), in.integer(12), in.integer(13), in.integer(14)};
        const std::int64_t sector = p % (s[0] + s[1] + s[2] + s[3]);
        const auto of = [&](int which) { return positions(token + which * tokens); };
        if (mode == GGML_ROPE_TYPE_IMROPE) {
            if (sector % 3 == 1 && sector < 3 * s[1]) return {of(1), p};
            if (sector % 3 == 2 && sector < 3 * s[2]) return {of(2), p};
            if (sector % 3 == 0 && sector < 3 * s[0]) return {of(0), p};
            return {of(3), p};
        }
        int which = 0;
        std::int64_t begin = 0;
        while (which < 3 && sector >= begin + s[which]) begin += s[which++];
        return {of(which), is_vision() ? sector - begin : p};
    }

    /// How much of pair `p` keeps its angle where longer contexts are interpolated.
    double ramp(std::int64_t p) const {
        const double context = in.integer(4);
        const auto turn = [&](double rotations) {
            return double(dims) * std::log(context / (2 * std::numbers::pi * rotations)) /
                   (2 * std::log(base));
        };
        const double low = std::max(0.0, std::floor(turn(in.real(9))));
        const double high = std::min(double(dims - 1), std::ceil(turn(in.real(10))));
        return 1 - std::clamp((double(p) - low) / std::max(0.001, high - low), 0.0, 1.0);
    }

    /// Cosine and sine for pair `p` of a token, times the magnitude.
    std::pair<double, double> turn(std::int64_t token, std::int64_t p) const {
        const auto [position, exponent] = place(token, p);
        const double factor = in.has(2) ? in[2](p) : 1;
        const double plain =
            position * std::pow(base, -2.0 * double(exponent) / double(dims)) / factor;
        double angle = scale * plain, size = magnitude;
        if (extrapolation != 0) {
            const double mix = ramp(p) * extrapolation;
            angle = angle * (1 - mix) + plain * mix;
            size *= 1 + 0.1 * std::log(1 / scale);
        }
        return {size * std::cos(angle), size * std::sin(angle)};
    }
};

Values rotate(const Operands& in, double direction) {
    const Rotation rotation{in};
    const Values& x = in[0];
    Values result = x;
    const bool is_adjacent = rotation.mode == GGML_ROPE_TYPE_NORMAL;
    for (std::int64_t i3 = 0; i3 < x.extent(3); ++i3) {
        for (std::int64_t i2 = 0; i2 < x.extent(2); ++i2) {
            for (std::int64_t p = 0; p < rotation.pairs(); ++p) {
                const auto [cosine, plain_sine] = rotation.turn(i2, p);
                const double sine = direction * plain_sine;
                const std::int64_t first = rotation.offset + (is_adjacent ? 2 * p : p);
                const std::int64_t second = first + (is_adjacent ? 1 : rotation.pairs());
                for (std::int64_t i1 = 0; i1 < x.extent(1); ++i1) {
                    const double a = x(first, i1, i2, i3), b = x(second, i1, i2, i3);
                    result(first, i1, i2, i3) = a * cosine - b * sine;
                    result(second, i1, i2, i3) = a * sine + b * cosine;
                }
            }
        }
    }
    return result;
}

Values rope(const Operands& in) { return rotate(in, 1); }
Values rope_back(const Operands& in) { return rotate(in, -1); }

// ---- attention ---------------------------------------------------------------------------------

/// The logits of one query over all keys; keys that are masked out have -inf.
std::vector<double> logits(const Operands& in, std::int64_t t, std::int64_t h, std::int64_t s) {
    const Values &q = in[0], &k = in[1];
    const double factor = in.real(0), max_bias = in.real(1), cap = in.real(2);
    const std::int64_t group = q.extent(2) / k.extent(2);
    std::vector<double> logit(std::size_t(k.extent(1)));
    for (std::int64_t j = 0; j < k.extent(1); ++j) {
        double& z = logit[std::size_t(j)];
        double bias = 0;
        if (in.has(3)) {
            const Values& mask = in[3];
            bias = mask(j, t, h % mask.extent(2), s % mask.extent(3));
            // A masked key does not count, whatever it holds.
            if (bias == -kInfinity) {
                z = -kInfinity;
                continue;
            }
        }
        for (std::int64_t d = 0; d < q.extent(0); ++d) z += q(d, t, h, s) * k(d, j, h / group, s);
        z *= factor;
        if (cap != 0) z = cap * std::tanh(z / cap);
        z += slope(max_bias, h, q.extent(2)) * bias;
    }
    return logit;
}

Values flash_attn_ext(const Operands& in) {
    const Values &q = in[0], &v = in[2];
    Values result(in.extent);
    const std::int64_t group = q.extent(2) / v.extent(2);
    for (std::int64_t s = 0; s < q.extent(3); ++s) {
        for (std::int64_t h = 0; h < q.extent(2); ++h) {
            for (std::int64_t t = 0; t < q.extent(1); ++t) {
                std::vector<double> share = logits(in, t, h, s);
                const bool is_all_masked =
                    std::ranges::all_of(share, [](double z) { return z == -kInfinity; });
                if (is_all_masked) continue;
                soft_max_row(share, in.has(4) ? std::optional(in[4](h)) : std::nullopt);
                for (std::int64_t j = 0; j < v.extent(1); ++j) {
                    if (share[std::size_t(j)] == 0) continue;
                    for (std::int64_t d = 0; d < v.extent(0); ++d) {
                        result(d, h, t, s) += share[std::size_t(j)] * v(d, j, h / group, s);
                    }
                }
            }
        }
    }
    return result;
}

Values lightning_indexer(const Operands& in) {
    const Values &q = in[0], &k = in[1], &weights = in[2], &mask = in[3];
    return make_values(in.extent, [&](std::int64_t j, std::int64_t t, auto, std::int64_t s) {
        double total = mask(j, t, 0, s % mask.extent(3));
        for (std::int64_t h = 0; h < q.extent(1); ++h) {
            double dot = 0;
            for (std::int64_t d = 0; d < q.extent(0); ++d) dot += q(d, h, t, s) * k(d, 0, j, s);
            total += weights(h, t, 0, s) * std::max(0.0, dot);
        }
        return total;
    });
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_DIAG_MASK_INF, diag_mask_inf},
    {GGML_OP_DIAG_MASK_ZERO, diag_mask_zero},
    {GGML_OP_SOFT_MAX, soft_max},
    {GGML_OP_SOFT_MAX_BACK, soft_max_back},
    {GGML_OP_ROPE, rope},
    {GGML_OP_ROPE_BACK, rope_back},
    {GGML_OP_FLASH_ATTN_EXT, flash_attn_ext},
    {GGML_OP_LIGHTNING_INDEXER, lightning_indexer},
};

}  // namespace

std::span<const Definition> attention_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
