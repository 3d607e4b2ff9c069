#include <algorithm>

#include "ggml/op_list.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

/// Views are not computed: they show the memory they lie in.
Values shown(const Operands& in) { return in.before; }

/// Element number e of the source becomes element number e of the result, whatever the shapes.
Values copied(const Operands& in) { return in[0].reshaped(in.extent); }

/// Puts the second operand into a region of the first, whose place is given in bytes.
Values set(const Operands& in) {
    Values result = in[0];
    constexpr std::int64_t kElement = 4;  // F32 and I32 only
    const Values& b = in[1];
    b.for_each([&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        const std::int64_t at =
            in.integer(3) + i1 * in.integer(0) + i2 * in.integer(1) + i3 * in.integer(2);
        result.data()[std::size_t(at / kElement + i0)] = b(i0, i1, i2, i3);
    });
    return result;
}

Values get_rows(const Operands& in) {
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           const auto row = static_cast<std::int64_t>(in[1](i1, i2, i3));
                           return in[0](i0, row, i2, i3);
                       });
}

/// Rows that no index names keep what they hold.
Values set_rows(const Operands& in) {
    const Values &rows = in[0], &indices = in[1];
    Values result = in.before;
    rows.for_each([&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        const double to = indices(i1, i2 % indices.extent(1), i3 % indices.extent(2));
        result(i0, static_cast<std::int64_t>(to), i2, i3) = rows(i0, i1, i2, i3);
    });
    return result;
}

Values repeat(const Operands& in) {
    const Values& a = in[0];
    return make_values(
        in.extent, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
            return a(i0 % a.extent(0), i1 % a.extent(1), i2 % a.extent(2), i3 % a.extent(3));
        });
}

Values concat(const Operands& in) {
    const Values &a = in[0], &b = in[1];
    const auto dim = std::size_t(in.integer(0));
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           Extents at{i0, i1, i2, i3};
                           if (at[dim] < a.extent(dim)) return a(i0, i1, i2, i3);
                           at[dim] -= a.extent(dim);
                           return b(at[0], at[1], at[2], at[3]);
                       });
}

std::int64_t wrapped(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

Values pad(const Operands& in) {
    const Values& a = in[0];
    const bool is_circular = in.integer(8) != 0;
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           Extents at{i0, i1, i2, i3};
                           for (std::size_t d = 0; d < kMaxDims; ++d) {
                               at[d] -= in.integer(2 * d);
                               if (is_circular) at[d] = wrapped(at[d], a.extent(d));
                               if (at[d] < 0 || at[d] >= a.extent(d)) return 0.0;
                           }
                           return a(at[0], at[1], at[2], at[3]);
                       });
}

/// The edge itself is not repeated.
Values pad_reflect_1d(const Operands& in) {
    const std::int64_t n = in[0].extent(0);
    return make_values(in.extent,
                       [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                           std::int64_t j = i0 - in.integer(0);
                           if (j < 0) j = -j;
                           if (j >= n) j = 2 * (n - 1) - j;
                           return in[0](j, i1, i2, i3);
                       });
}

Values roll(const Operands& in) {
    const Values& a = in[0];
    return make_values(
        in.extent, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
            return a(
                wrapped(i0 - in.integer(0), a.extent(0)), wrapped(i1 - in.integer(1), a.extent(1)),
                wrapped(i2 - in.integer(2), a.extent(2)), wrapped(i3 - in.integer(3), a.extent(3)));
        });
}

// ---- windows and relative positions of image models --------------------------------------------

Values win_part(const Operands& in) {
    const Values& a = in[0];
    const std::int64_t across = in.integer(0), window = in.integer(2);
    return make_values(in.extent,
                       [&](std::int64_t c, std::int64_t x, std::int64_t y, std::int64_t w) {
                           const std::int64_t i1 = w % across * window + x;
                           const std::int64_t i2 = w / across * window + y;
                           if (i1 >= a.extent(1) || i2 >= a.extent(2)) return 0.0;
                           return a(c, i1, i2);
                       });
}

Values win_unpart(const Operands& in) {
    const std::int64_t window = in.integer(0);
    const std::int64_t across = (in.extent[1] + window - 1) / window;
    return make_values(in.extent, [&](std::int64_t c, std::int64_t x, std::int64_t y, auto) {
        return in[0](c, x % window, y % window, y / window * across + x / window);
    });
}

Values get_rel_pos(const Operands& in) {
    return make_values(in.extent, [&](std::int64_t c, std::int64_t i1, std::int64_t i2, auto) {
        return in[0](c, in.extent[1] - 1 - i1 + i2);
    });
}

/// Rows are queries; the two tables vary with the fast and the slow half of the key's index.
Values add_rel_pos(const Operands& in) {
    Values result = in[0];
    const Values &fast = in[1], &slow = in[2];
    const std::int64_t n = fast.extent(0);
    for (std::int64_t query = 0; query < fast.rows(); ++query) {
        for (std::int64_t key = 0; key < n * n; ++key) {
            result.row(query)[std::size_t(key)] +=
                fast.row(query)[std::size_t(key % n)] + slow.row(query)[std::size_t(key / n)];
        }
    }
    return result;
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_RESHAPE, shown},
    {GGML_OP_VIEW, shown},
    {GGML_OP_PERMUTE, shown},
    {GGML_OP_TRANSPOSE, shown},
    {GGML_OP_DUP, copied},
    {GGML_OP_CPY, copied},
    {GGML_OP_CONT, copied},
    {GGML_OP_SET, set},
    {GGML_OP_GET_ROWS, get_rows},
    {GGML_OP_SET_ROWS, set_rows},
    {GGML_OP_REPEAT, repeat},
    {GGML_OP_CONCAT, concat},
    {GGML_OP_PAD, pad},
    {GGML_OP_PAD_REFLECT_1D, pad_reflect_1d},
    {GGML_OP_ROLL, roll},
    {GGML_OP_WIN_PART, win_part},
    {GGML_OP_WIN_UNPART, win_unpart},
    {GGML_OP_GET_REL_POS, get_rel_pos},
    {GGML_OP_ADD_REL_POS, add_rel_pos},
};

}  // namespace

std::span<const Definition> movement_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
