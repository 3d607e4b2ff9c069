#include <algorithm>
#include <cmath>
#include <numbers>

#include "ggml/op_list.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

// ---- two operands ------------------------------------------------------------------------------

/// The second operand is tiled over the first.
template <class Combine>
Values broadcast(const Operands& in, Combine combine) {
    const Values &a = in[0], &b = in[1];
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           return combine(a(i0, i1, i2, i3), b(i0 % b.extent(0), i1 % b.extent(1),
                                                               i2 % b.extent(2), i3 % b.extent(3)));
                       });
}

Values add(const Operands& in) {
    return broadcast(in, [](double a, double b) { return a + b; });
}
Values sub(const Operands& in) {
    return broadcast(in, [](double a, double b) { return a - b; });
}
Values mul(const Operands& in) {
    return broadcast(in, [](double a, double b) { return a * b; });
}
Values div(const Operands& in) {
    return broadcast(in, [](double a, double b) { return a / b; });
}

Values add_id(const Operands& in) {
    const Values &a = in[0], &b = in[1], &ids = in[2];
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           const auto row = static_cast<std::int64_t>(ids(i1, i2));
                           return a(i0, i1, i2, i3) + b(i0, row);
                       });
}

/// Adds the second operand into a region of the first, whose place is given in bytes of floats.
Values acc(const Operands& in) {
    Values result = in[0];
    const Values& b = in[1];
    b.for_each([&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        const std::int64_t at =
            in.integer(3) + i1 * in.integer(0) + i2 * in.integer(1) + i3 * in.integer(2);
        result.data()[static_cast<std::size_t>(at / 4 + i0)] += b(i0, i1, i2, i3);
    });
    return result;
}

// ---- one operand -------------------------------------------------------------------------------

template <class Map>
Values map(const Operands& in, Map each) {
    Values result = in[0];
    std::ranges::transform(result.data(), result.data().begin(), each);
    return result;
}

Values sqr(const Operands& in) {
    return map(in, [](double x) { return x * x; });
}
Values square_root(const Operands& in) {
    return map(in, [](double x) { return std::sqrt(x); });
}
Values logarithm(const Operands& in) {
    return map(in, [](double x) { return std::log(x); });
}
Values sine(const Operands& in) {
    return map(in, [](double x) { return std::sin(x); });
}
Values cosine(const Operands& in) {
    return map(in, [](double x) { return std::cos(x); });
}
Values scale(const Operands& in) {
    return map(in, [&](double x) { return in.real(0) * x + in.real(1); });
}
Values clamp(const Operands& in) {
    return map(in, [&](double x) {
        return std::max(std::min(x, double{in.real(1)}), double{in.real(0)});
    });
}
Values leaky_relu(const Operands& in) {
    return map(in, [&](double x) { return x > 0 ? x : in.real(0) * x; });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) {
    const double c = std::sqrt(2 / std::numbers::pi);
    return 0.5 * x * (1 + std::tanh(c * x * (1 + 0.044715 * x * x)));
}
double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }
double gelu_quick(double x) { return x / (1 + std::exp(-1.702 * x)); }
double hard_sigmoid(double x) { return std::min(1.0, std::max(0.0, (x + 3) / 6)); }

double unary_of(const Operands& in, double x) {
    switch (static_cast<ggml_unary_op>(in.integer(0))) {
        case GGML_UNARY_OP_ABS:
            return std::abs(x);
        case GGML_UNARY_OP_SGN:
            return x > 0 ? 1 : x < 0 ? -1 : 0;
        case GGML_UNARY_OP_NEG:
            return -x;
        case GGML_UNARY_OP_STEP:
            return x > 0 ? 1 : 0;
        case GGML_UNARY_OP_TANH:
            return std::tanh(x);
        case GGML_UNARY_OP_ELU:
            return x > 0 ? x : std::expm1(x);
        case GGML_UNARY_OP_RELU:
            return x > 0 ? x : 0;
        case GGML_UNARY_OP_SIGMOID:
            return sigmoid(x);
        case GGML_UNARY_OP_GELU:
            return gelu(x);
        case GGML_UNARY_OP_GELU_QUICK:
            return gelu_quick(x);
        case GGML_UNARY_OP_SILU:
            return silu(x);
        case GGML_UNARY_OP_HARDSWISH:
            return x * hard_sigmoid(x);
        case GGML_UNARY_OP_HARDSIGMOID:
            return hard_sigmoid(x);
        case GGML_UNARY_OP_EXP:
            return std::exp(x);
        case GGML_UNARY_OP_EXPM1:
            return std::expm1(x);
        case GGML_UNARY_OP_SOFTPLUS:
            return x > 20 ? x : std::log1p(std::exp(x));
        case GGML_UNARY_OP_GELU_ERF:
            return gelu_erf(x);
        case GGML_UNARY_OP_XIELU: {
            const double below = in.real(1), above = in.real(2), beta = in.real(3);
            if (x > 0) return above * x * x + beta * x;
            return (std::expm1(std::min(x, double{in.real(4)})) - x) * below + beta * x;
        }
        case GGML_UNARY_OP_FLOOR:
            return std::floor(x);
        case GGML_UNARY_OP_CEIL:
            return std::ceil(x);
        case GGML_UNARY_OP_ROUND:
            return std::round(x);
        case GGML_UNARY_OP_TRUNC:
            return std::trunc(x);
        default:
            return std::nan("");
    }
}

Values unary(const Operands& in) {
    return map(in, [&](double x) { return unary_of(in, x); });
}

// ---- gated units -------------------------------------------------------------------------------

double glu_of(const Operands& in, double x, double g) {
    switch (static_cast<ggml_glu_op>(in.integer(0))) {
        case GGML_GLU_OP_REGLU:
            return x > 0 ? x * g : 0;
        case GGML_GLU_OP_GEGLU:
            return gelu(x) * g;
        case GGML_GLU_OP_SWIGLU:
            return silu(x) * g;
        case GGML_GLU_OP_SWIGLU_OAI: {
            const double alpha = in.real(2), limit = in.real(3);
            const double bounded = std::min(x, limit);
            return bounded / (1 + std::exp(-alpha * bounded)) * (std::clamp(g, -limit, limit) + 1);
        }
        case GGML_GLU_OP_GEGLU_ERF:
            return gelu_erf(x) * g;
        case GGML_GLU_OP_GEGLU_QUICK:
            return gelu_quick(x) * g;
        default:
            return std::nan("");
    }
}

/// Activation and factor are two tensors, or the two halves of every row of one.
Values glu(const Operands& in) {
    const Values& a = in[0];
    const std::int64_t half = in.extent[0];
    const bool is_swapped = in.integer(1) != 0;
    return make_values(
        in.extent, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
            if (in.has(1)) return glu_of(in, a(i0, i1, i2, i3), in[1](i0, i1, i2, i3));
            const double first = a(i0, i1, i2, i3), second = a(i0 + half, i1, i2, i3);
            return is_swapped ? glu_of(in, second, first) : glu_of(in, first, second);
        });
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_ADD, add},       {GGML_OP_SUB, sub},       {GGML_OP_MUL, mul},
    {GGML_OP_DIV, div},       {GGML_OP_ADD_ID, add_id}, {GGML_OP_ADD1, add},
    {GGML_OP_ACC, acc},       {GGML_OP_SQR, sqr},       {GGML_OP_SQRT, square_root},
    {GGML_OP_LOG, logarithm}, {GGML_OP_SIN, sine},      {GGML_OP_COS, cosine},
    {GGML_OP_SCALE, scale},   {GGML_OP_CLAMP, clamp},   {GGML_OP_LEAKY_RELU, leaky_relu},
    {GGML_OP_UNARY, unary},   {GGML_OP_GLU, glu},
};

}  // namespace

std::span<const Definition> elementwise_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
