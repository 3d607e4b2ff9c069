#pragma once

#include "ops/descriptor.hpp"
#include "ops/operands.hpp"

/// What descriptors of ops on elements, rows and matrices have in common.
namespace heddle::ops {

/// Dense rows, evenly spaced, however far apart.
inline Result<> need_padded_rows(std::string_view role, const Tensor& x) {
    if (is_padded_rows(x)) return ok();
    return invalid(role, " ", describe(x), " is not dense but for a pitch between rows");
}

inline Result<> need_dense_rows(std::string_view role, const Tensor& x) {
    if (has_dense_rows(x)) return ok();
    return invalid("rows of ", role, " ", describe(x), " are not dense");
}

/// One dimension of an operand, for comparison with one of another.
struct Dimension {
    std::string_view role;
    const Tensor& tensor;
    int number;

    std::int64_t extent() const { return tensor.ne[number]; }
};

namespace detail {

/// By value: what the cold path is given must not have to be in memory on the other one.
[[gnu::cold, gnu::noinline]] inline Error dimensions_differ(Dimension a, Dimension b) {
    return invalid(a.role, " ", describe(a.tensor), " in dimension ", a.number, " and ", b.role,
                   " ", describe(b.tensor), " in dimension ", b.number, " differ");
}

[[gnu::cold, gnu::noinline]] inline Error no_multiple(Dimension whole, Dimension part) {
    return invalid(whole.role, " ", describe(whole.tensor), " in dimension ", whole.number,
                   " is not a multiple of ", part.role, " ", describe(part.tensor),
                   " in dimension ", part.number);
}

}  // namespace detail

[[gnu::always_inline]] inline Result<> need_equal(Dimension a, Dimension b) {
    if (a.extent() == b.extent()) return ok();
    return detail::dimensions_differ(a, b);
}

/// `whole` is a multiple of `part`, and there is a part. Most are equal, or the part is 1: a
/// division costs more than all the rest.
[[gnu::always_inline]] inline Result<> need_multiple(Dimension whole, Dimension part) {
    const std::int64_t n = whole.extent(), of = part.extent();
    if (of == 1 || (of > 0 && (n == of || n % of == 0))) return ok();
    return detail::no_multiple(whole, part);
}

/// How many elements `x` has, as costs are counted.
inline double count_of(const Tensor& x) { return static_cast<double>(element_count(x)); }

/// So many operations for each element of `x`, while the operands and the result move once.
inline Cost cost_per_element(const Tensor& x, double flops, const Tensor& node) {
    return {.flops = flops * count_of(x), .bytes = bytes_touched(node)};
}

}  // namespace heddle::ops
