#pragma once

#include <string_view>

#include "core/error.hpp"
#include "core/tensor.hpp"

/// What shape rules ask of an operand, each with its refusal. `role` is the operand's name in the
/// descriptor: users know their tensors by name, and by which argument they were.
namespace heddle {

inline Result<> need_type(std::string_view role, const Tensor& x, Type type) {
    if (x.type != type) return invalid(role, " ", describe(x), " is not ", name_of(type));
    return ok();
}

inline Result<> need_contiguous(std::string_view role, const Tensor& x) {
    if (!is_contiguous(x)) return invalid(role, " ", describe(x), " is not contiguous");
    return ok();
}

inline Result<> need_matrix(std::string_view role, const Tensor& x) {
    if (!is_matrix(x)) return invalid(role, " ", describe(x), " is not a matrix");
    return ok();
}

inline Result<> need_vector(std::string_view role, const Tensor& x) {
    if (!is_vector(x)) return invalid(role, " ", describe(x), " is not a vector");
    return ok();
}

inline Result<> need_extent(std::string_view role, const Tensor& x, int dimension, std::int64_t n) {
    if (x.ne[dimension] == n) return ok();
    return invalid(role, " ", describe(x), " does not have extent ", n, " in dimension ",
                   dimension);
}

inline Result<> need_extents(std::string_view role, const Tensor& x, const Extents& extent) {
    if (extents_of(x) == extent) return ok();
    return invalid(role, " ", describe(x), " does not have the extents ", describe(extent));
}

inline Result<> need_same_shape(std::string_view role, const Tensor& x, std::string_view other_role,
                                const Tensor& other) {
    if (same_shape(x, other)) return ok();
    return invalid(role, " ", describe(x), " does not have the extents of ", other_role, " ",
                   describe(other));
}

/// A parameter that counts or divides: at least `least`.
inline Result<> need_at_least(std::string_view parameter, std::int64_t value, std::int64_t least) {
    if (value < least) return invalid(parameter, " ", value, " is below ", least);
    return ok();
}

}  // namespace heddle
