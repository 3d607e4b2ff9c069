#include "ggml/op_list.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

/// Rows of the first operand times rows of the second. The first has fewer matrices: each serves a
/// group of consecutive ones.
Values mul_mat(const Operands& in) {
    const Values &a = in[0], &b = in[1];
    const std::int64_t group2 = b.extent(2) / a.extent(2), group3 = b.extent(3) / a.extent(3);
    return make_values(in.extent,
                       [&](std::int64_t i, std::int64_t j, std::int64_t i2, std::int64_t i3) {
                           double total = 0;
                           for (std::int64_t p = 0; p < a.extent(0); ++p) {
                               total += a(p, i, i2 / group2, i3 / group3) * b(p, j, i2, i3);
                           }
                           return total;
                       });
}

/// Each token multiplies with the experts that its ids name.
Values mul_mat_id(const Operands& in) {
    const Values &experts = in[0], &b = in[1], &ids = in[2];
    return make_values(in.extent, [&](std::int64_t i, std::int64_t e, std::int64_t t, auto) {
        const auto expert = static_cast<std::int64_t>(ids(e, t));
        double total = 0;
        for (std::int64_t p = 0; p < experts.extent(0); ++p) {
            total += experts(p, i, expert) * b(p, e % b.extent(1), t);
        }
        return total;
    });
}

Values out_prod(const Operands& in) {
    const Values &a = in[0], &b = in[1];
    const std::int64_t group2 = b.extent(2) / a.extent(2), group3 = b.extent(3) / a.extent(3);
    return make_values(in.extent,
                       [&](std::int64_t i, std::int64_t j, std::int64_t i2, std::int64_t i3) {
                           double total = 0;
                           for (std::int64_t p = 0; p < a.extent(1); ++p) {
                               total += a(i, p, i2 / group2, i3 / group3) * b(j, p, i2, i3);
                           }
                           return total;
                       });
}

/// Forward substitution with the lower triangle of the first operand.
Values solve_tri(const Operands& in) {
    const Values& a = in[0];
    Values x = in[1];
    in[1].for_each([&](std::int64_t c, std::int64_t r, std::int64_t i2, std::int64_t i3) {
        for (std::int64_t t = 0; t < r; ++t) x(c, r, i2, i3) -= a(t, r, i2, i3) * x(c, t, i2, i3);
        x(c, r, i2, i3) /= a(r, r, i2, i3);
    });
    return x;
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_MUL_MAT, mul_mat},
    {GGML_OP_MUL_MAT_ID, mul_mat_id},
    {GGML_OP_OUT_PROD, out_prod},
    {GGML_OP_SOLVE_TRI, solve_tri},
};

}  // namespace

std::span<const Definition> product_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
