/// Ops that move, join or make elements. Part of `heddle/heddle.hpp`.
#pragma once

#include <array>

#include "../../ggml/ops_layout.h"
#include "op.hpp"

namespace heddle::api {

// ---- the same elements, seen differently: nothing is computed ----------------------------------

inline Tensor transpose(const Tensor& x) { return op<ggml_transpose>(x); }
inline Tensor reshape(const Tensor& x, std::array<std::int64_t, 4> extents) {
    return op<ggml_reshape_4d>(x, extents[0], extents[1], extents[2], extents[3]);
}
/// Dimension i of `x` becomes dimension `axes[i]`.
inline Tensor permute(const Tensor& x, std::array<int, 4> axes) {
    return op<ggml_permute>(x, axes[0], axes[1], axes[2], axes[3]);
}
/// Part of the memory of `x`: `strides` in bytes for dimensions 1 to 3, from byte `offset` on.
inline Tensor view(const Tensor& x, std::array<std::int64_t, 4> extents,
                   std::array<std::size_t, 3> strides, std::size_t offset = 0) {
    return op<ggml_view_4d>(x, extents[0], extents[1], extents[2], extents[3], strides[0],
                            strides[1], strides[2], offset);
}
/// `count` rows (dimension 1) from row `begin` on. Elements of a row lie one after the other.
inline Tensor rows(const Tensor& x, std::int64_t begin, std::int64_t count) {
    if (!x) return x;
    if (begin < 0 || count < 1 || begin > x.extent(1) - count) {
        return x.scope().refuse(text("rows: ", count, " from ", begin, " on of '", x.name(),
                                     "', which has ", x.extent(1)));
    }
    if (x.stride(0) != ggml_type_size(x.type())) {
        return x.scope().refuse(text("rows: elements of '", x.name(),
                                     "' do not lie one after the other; contiguous() makes them"));
    }
    return view(x, {x.extent(0), count, x.extent(2), x.extent(3)},
                {x.stride(1), x.stride(2), x.stride(3)},
                static_cast<std::size_t>(begin) * x.stride(1));
}

// ---- copies ------------------------------------------------------------------------------------

inline Tensor contiguous(const Tensor& x) { return op<ggml_cont>(x); }
inline Tensor cast(const Tensor& x, ggml_type type) { return op<ggml_cast>(x, type); }
/// The elements of `x`, converted, into the memory of `target`.
inline Tensor copy(const Tensor& x, const Tensor& target) { return op<ggml_cpy>(x, target); }

// ---- joining, tiling, padding ------------------------------------------------------------------

inline Tensor concat(const Tensor& a, const Tensor& b, int dimension) {
    return op<ggml_concat>(a, b, dimension);
}
/// `x` side by side until it has these extents.
inline Tensor repeat(const Tensor& x, std::array<std::int64_t, 4> extents) {
    return op<ggml_repeat_4d>(x, extents[0], extents[1], extents[2], extents[3]);
}
inline Tensor repeat_like(const Tensor& x, const Tensor& shape) {
    return op<ggml_repeat>(x, shape);
}
/// Zeros behind the last element of each dimension.
inline Tensor pad(const Tensor& x, std::array<int, 4> behind) {
    return op<ggml_pad>(x, behind[0], behind[1], behind[2], behind[3]);
}
/// Zeros before the first and behind the last element of each dimension.
inline Tensor pad(const Tensor& x, std::array<int, 4> before, std::array<int, 4> behind) {
    return op<ggml_pad_ext>(x, before[0], behind[0], before[1], behind[1], before[2], behind[2],
                            before[3], behind[3]);
}
/// Rows continued by their own mirror image.
inline Tensor pad_reflect(const Tensor& x, int before, int behind) {
    return op<ggml_pad_reflect_1d>(x, before, behind);
}
/// y[i] = x[i - shift], around the ends of each dimension.
inline Tensor roll(const Tensor& x, std::array<int, 4> shift) {
    return op<ggml_roll>(x, shift[0], shift[1], shift[2], shift[3]);
}

// ---- matrices, and elements from nothing -------------------------------------------------------

inline Tensor diag(const Tensor& x) { return op<ggml_diag>(x); }  ///< a vector as a diagonal
/// The part of `x` on one side of the diagonal, zeros elsewhere.
inline Tensor triangle(const Tensor& x, ggml_tri_type part) { return op<ggml_tri>(x, part); }
/// `x` with every element replaced by `value`.
inline Tensor fill(const Tensor& x, float value) { return op<ggml_fill>(x, value); }
/// start, start + step, ... as long as it is below `stop`.
inline Tensor arange(Context& context, float start, float stop, float step = 1.0f) {
    return detail::build(context.scope(),
                         [&](ggml_context* c) { return ggml_arange(c, start, stop, step); });
}

}  // namespace heddle::api
