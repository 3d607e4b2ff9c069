#include <cmath>

#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

Values diag(const Operands& in) {
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           return i0 == i1 ? in[0](i0, 0, i2, i3) : 0;
                       });
}

Values tri(const Operands& in) {
    const auto is_kept = [&](std::int64_t column, std::int64_t row) {
        switch (static_cast<ggml_tri_type>(in.integer(0))) {
            case GGML_TRI_TYPE_UPPER_DIAG:
                return column >= row;
            case GGML_TRI_TYPE_UPPER:
                return column > row;
            case GGML_TRI_TYPE_LOWER_DIAG:
                return column <= row;
            case GGML_TRI_TYPE_LOWER:
                return column < row;
        }
        return false;
    };
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           return is_kept(i0, i1) ? in[0](i0, i1, i2, i3) : 0;
                       });
}

Values fill(const Operands& in) { return Values(in.extent, in.real(0)); }

Values arange(const Operands& in) {
    return make_values(
        in.extent, [&](std::int64_t i, auto...) { return in.real(0) + in.real(2) * double(i); });
}

/// Cosines first, then sines; a column left over is zero.
Values timestep_embedding(const Operands& in) {
    const std::int64_t half = in.integer(0) / 2;
    const double period = in.integer(1);
    return make_values(in.extent, [&](std::int64_t j, std::int64_t i, auto...) {
        if (j >= 2 * half) return 0.0;
        const double frequency = std::exp(-std::log(period) * double(j % half) / double(half));
        const double angle = in[0](i) * frequency;
        return j < half ? std::cos(angle) : std::sin(angle);
    });
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_DIAG, diag},
    {GGML_OP_TRI, tri},
    {GGML_OP_FILL, fill},
    {GGML_OP_ARANGE, arange},
    {GGML_OP_TIMESTEP_EMBEDDING, timestep_embedding},
};

}  // namespace

std::span<const Definition> maker_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
