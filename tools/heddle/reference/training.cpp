#include <algorithm>
#include <cmath>
#include <numeric>

#include "ggml/op_list.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Every tile of the gradient is added up.
Values repeat_back(const Operands& in) {
    Values result(in.extent);
    in[0].for_each([&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        result(i0 % in.extent[0], i1 % in.extent[1], i2 % in.extent[2], i3 % in.extent[3]) +=
            in[0](i0, i1, i2, i3);
    });
    return result;
}

Values silu_back(const Operands& in) {
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           const double x = in[1](i0, i1, i2, i3);
                           const double sigmoid = 1 / (1 + std::exp(-x));
                           return in[0](i0, i1, i2, i3) * sigmoid * (1 + x * (1 - sigmoid));
                       });
}

Values rms_norm_back(const Operands& in) {
    Values result(in.extent);
    const double epsilon = in.real(0), n = double(in.extent[0]);
    for (std::int64_t r = 0; r < result.rows(); ++r) {
        const auto dy = in[0].row(r), x = in[1].row(r);
        const double squares = dot(x, x), together = dot(x, dy);
        for (std::size_t i = 0; i < x.size(); ++i) {
            result.row(r)[i] = (dy[i] - x[i] * together / (squares + n * epsilon)) /
                               std::sqrt(squares / n + epsilon);
        }
    }
    return result;
}

/// Rows that were taken several times get the sum of their gradients.
Values get_rows_back(const Operands& in) {
    Values result(in.extent);
    for (std::int64_t i = 0; i < in[1].count(); ++i) {
        const auto to = static_cast<std::int64_t>(in[1].data()[std::size_t(i)]);
        for (std::int64_t i0 = 0; i0 < in.extent[0]; ++i0) result(i0, to) += in[0](i0, i);
    }
    return result;
}

/// Logarithms of the shares of a row's soft-max.
std::vector<double> log_shares(std::span<const double> row) {
    const double largest = *std::ranges::max_element(row);
    double total = 0;
    for (const double value : row) total += std::exp(value - largest);
    std::vector<double> logs(row.begin(), row.end());
    for (double& value : logs) value -= largest + std::log(total);
    return logs;
}

Values cross_entropy_loss(const Operands& in) {
    double total = 0;
    for (std::int64_t r = 0; r < in[0].rows(); ++r)
        total += dot(in[1].row(r), log_shares(in[0].row(r)));
    return Values(in.extent, -total / double(in[0].rows()));
}

Values cross_entropy_loss_back(const Operands& in) {
    Values result(in.extent);
    for (std::int64_t r = 0; r < result.rows(); ++r) {
        const std::vector<double> logs = log_shares(in[1].row(r));
        for (std::size_t i = 0; i < logs.size(); ++i) {
            result.row(r)[i] =
                (std::exp(logs[i]) - in[2].row(r)[i]) * in[0](0) / double(result.rows());
        }
    }
    return result;
}

// ---- optimiser steps ---------------------------------------------------------------------------

/// Names of the numbers that AdamW is given as a tensor.
struct AdamW {
    const Values& p;
    double alpha = p(0), beta1 = p(1), beta2 = p(2), epsilon = p(3), decay = p(4);
    double correct1 = p(5), correct2 = p(6);
};

Values adamw_mean(const Operands& in) {
    const AdamW with{in[4]};
    Values m = in[2];
    for (std::size_t i = 0; i < m.data().size(); ++i) {
        m.data()[i] = m.data()[i] * with.beta1 + in[1].data()[i] * (1 - with.beta1);
    }
    return m;
}

Values adamw_variance(const Operands& in) {
    const AdamW with{in[4]};
    Values v = in[3];
    for (std::size_t i = 0; i < v.data().size(); ++i) {
        const double gradient = in[1].data()[i];
        v.data()[i] = v.data()[i] * with.beta2 + gradient * gradient * (1 - with.beta2);
    }
    return v;
}

Values opt_step_adamw(const Operands& in) {
    const AdamW with{in[4]};
    const Values m = adamw_mean(in), v = adamw_variance(in);
    Values weights = in[0];
    for (std::size_t i = 0; i < weights.data().size(); ++i) {
        const double size = std::sqrt(v.data()[i] * with.correct2) + with.epsilon;
        weights.data()[i] = weights.data()[i] * (1 - with.alpha * with.decay) -
                            with.alpha * m.data()[i] * with.correct1 / size;
    }
    return weights;
}

Values opt_step_sgd(const Operands& in) {
    const double alpha = in[2](0), decay = in[2](1);
    Values weights = in[0];
    for (std::size_t i = 0; i < weights.data().size(); ++i) {
        weights.data()[i] = weights.data()[i] * (1 - alpha * decay) - alpha * in[1].data()[i];
    }
    return weights;
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_REPEAT_BACK, repeat_back},
    {GGML_OP_SILU_BACK, silu_back},
    {GGML_OP_RMS_NORM_BACK, rms_norm_back},
    {GGML_OP_GET_ROWS_BACK, get_rows_back},
    {GGML_OP_CROSS_ENTROPY_LOSS, cross_entropy_loss},
    {GGML_OP_CROSS_ENTROPY_LOSS_BACK, cross_entropy_loss_back},
    {GGML_OP_OPT_STEP_ADAMW, opt_step_adamw, {{{2, adamw_mean}, {3, adamw_variance}}}},
    {GGML_OP_OPT_STEP_SGD, opt_step_sgd},
};

}  // namespace

std::span<const Definition> training_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
