// Views, copies, rows by index, and tensors put together from others.

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ops/concat.hpp"
#include "ops/copy_builders.hpp"
#include "ops/pad.hpp"
#include "ops/repeat.hpp"
#include "ops/roll.hpp"
#include "ops/rows.hpp"
#include "ops/view_builders.hpp"

using namespace heddle;
using capi::node, capi::node_in_place;

namespace {

/// The tensor that `build` makes in the context of a C caller.
template <class Build>
Tensor* made_in(ggml_context* ctx, std::string_view function, Build build) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(capi::require(ctx, function, "the context"));
        return build(*ctx);
    });
}

Tensor* reshaped(ggml_context* ctx, Tensor* a, std::initializer_list<std::int64_t> extents) {
    return made_in(ctx, "reshape",
                   [&](Context& context) { return reshape_nd(context, a, extents); });
}

Tensor* viewed(ggml_context* ctx, Tensor* a, std::initializer_list<std::int64_t> extents,
               std::initializer_list<std::size_t> strides, std::size_t offset) {
    return made_in(ctx, "view",
                   [&](Context& context) { return view_nd(context, a, extents, strides, offset); });
}

Tensor* made_contiguous(ggml_context* ctx, Tensor* a, std::initializer_list<std::int64_t> extents) {
    return made_in(ctx, "cont", [&](Context& context) { return cont_nd(context, a, extents); });
}

Tensor* padded(ggml_context* ctx, Tensor* a, const std::array<ops::Pad::Amount, kMaxDims>& amount,
               bool circular) {
    return node<ops::Pad>(ctx, {.amount = amount, .circular = circular}, {a});
}

}  // namespace

// ---- the same memory seen in another way -------------------------------------------------------

ggml_tensor* ggml_reshape(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return made_in(ctx, "reshape", [&](Context& context) { return reshape_like(context, a, b); });
}
ggml_tensor* ggml_reshape_1d(ggml_context* ctx, ggml_tensor* a, int64_t ne0) {
    return reshaped(ctx, a, {ne0});
}
ggml_tensor* ggml_reshape_2d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1) {
    return reshaped(ctx, a, {ne0, ne1});
}
ggml_tensor* ggml_reshape_3d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1,
                             int64_t ne2) {
    return reshaped(ctx, a, {ne0, ne1, ne2});
}
ggml_tensor* ggml_reshape_4d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1,
                             int64_t ne2, int64_t ne3) {
    return reshaped(ctx, a, {ne0, ne1, ne2, ne3});
}

ggml_tensor* ggml_view_1d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, size_t offset) {
    return viewed(ctx, a, {ne0}, {}, offset);
}
ggml_tensor* ggml_view_2d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1, size_t nb1,
                          size_t offset) {
    return viewed(ctx, a, {ne0, ne1}, {nb1}, offset);
}
ggml_tensor* ggml_view_3d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1, int64_t ne2,
                          size_t nb1, size_t nb2, size_t offset) {
    return viewed(ctx, a, {ne0, ne1, ne2}, {nb1, nb2}, offset);
}
ggml_tensor* ggml_view_4d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1, int64_t ne2,
                          int64_t ne3, size_t nb1, size_t nb2, size_t nb3, size_t offset) {
    return viewed(ctx, a, {ne0, ne1, ne2, ne3}, {nb1, nb2, nb3}, offset);
}

ggml_tensor* ggml_permute(ggml_context* ctx, ggml_tensor* a, int axis0, int axis1, int axis2,
                          int axis3) {
    return node<ops::Permute>(ctx, {.axis = {axis0, axis1, axis2, axis3}}, {a});
}
ggml_tensor* ggml_transpose(ggml_context* ctx, ggml_tensor* a) {
    return node<ops::Transpose>(ctx, {}, {a});
}

// ---- copies ------------------------------------------------------------------------------------

ggml_tensor* ggml_dup(ggml_context* ctx, ggml_tensor* a) { return node<ops::Dup>(ctx, {}, {a}); }
ggml_tensor* ggml_dup_inplace(ggml_context* ctx, ggml_tensor* a) {
    return node_in_place<ops::Dup>(ctx, {}, {a});
}
ggml_tensor* ggml_cpy(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::Cpy>(ctx, {}, {a, b});
}
ggml_tensor* ggml_cast(ggml_context* ctx, ggml_tensor* a, ggml_type type) {
    return made_in(ctx, "cast", [&](Context& context) { return cast(context, a, type); });
}

ggml_tensor* ggml_cont(ggml_context* ctx, ggml_tensor* a) { return node<ops::Cont>(ctx, {}, {a}); }
ggml_tensor* ggml_cont_1d(ggml_context* ctx, ggml_tensor* a, int64_t ne0) {
    return made_contiguous(ctx, a, {ne0});
}
ggml_tensor* ggml_cont_2d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1) {
    return made_contiguous(ctx, a, {ne0, ne1});
}
ggml_tensor* ggml_cont_3d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1,
                          int64_t ne2) {
    return made_contiguous(ctx, a, {ne0, ne1, ne2});
}
ggml_tensor* ggml_cont_4d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1, int64_t ne2,
                          int64_t ne3) {
    return made_contiguous(ctx, a, {ne0, ne1, ne2, ne3});
}

// ---- rows by index -----------------------------------------------------------------------------

ggml_tensor* ggml_get_rows(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::GetRows>(ctx, {}, {a, b});
}
ggml_tensor* ggml_get_rows_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_tensor* c) {
    return made_in(ctx, "get_rows_back",
                   [&](Context& context) { return get_rows_back_like(context, a, b, c); });
}
ggml_tensor* ggml_set_rows(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_tensor* c) {
    return node<ops::SetRows>(ctx, {}, {b, c, a});
}

// ---- larger tensors from smaller ones ----------------------------------------------------------

ggml_tensor* ggml_repeat(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return made_in(ctx, "repeat", [&](Context& context) { return repeat_like(context, a, b); });
}
ggml_tensor* ggml_repeat_4d(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1,
                            int64_t ne2, int64_t ne3) {
    return node<ops::Repeat>(ctx, {.params = {}, .extent = {ne0, ne1, ne2, ne3}}, {a});
}
ggml_tensor* ggml_repeat_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return made_in(ctx, "repeat_back",
                   [&](Context& context) { return repeat_back_like(context, a, b); });
}

ggml_tensor* ggml_concat(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int dim) {
    return node<ops::Concat>(ctx, {.dim = dim}, {a, b});
}

ggml_tensor* ggml_pad(ggml_context* ctx, ggml_tensor* a, int p0, int p1, int p2, int p3) {
    return padded(ctx, a, {{{0, p0}, {0, p1}, {0, p2}, {0, p3}}}, false);
}
ggml_tensor* ggml_pad_circular(ggml_context* ctx, ggml_tensor* a, int p0, int p1, int p2, int p3) {
    return padded(ctx, a, {{{0, p0}, {0, p1}, {0, p2}, {0, p3}}}, true);
}
ggml_tensor* ggml_pad_ext(ggml_context* ctx, ggml_tensor* a, int lp0, int rp0, int lp1, int rp1,
                          int lp2, int rp2, int lp3, int rp3) {
    return padded(ctx, a, {{{lp0, rp0}, {lp1, rp1}, {lp2, rp2}, {lp3, rp3}}}, false);
}
ggml_tensor* ggml_pad_ext_circular(ggml_context* ctx, ggml_tensor* a, int lp0, int rp0, int lp1,
                                   int rp1, int lp2, int rp2, int lp3, int rp3) {
    return padded(ctx, a, {{{lp0, rp0}, {lp1, rp1}, {lp2, rp2}, {lp3, rp3}}}, true);
}
ggml_tensor* ggml_pad_reflect_1d(ggml_context* ctx, ggml_tensor* a, int p0, int p1) {
    return node<ops::PadReflect1d>(ctx, {.before = p0, .after = p1}, {a});
}

ggml_tensor* ggml_roll(ggml_context* ctx, ggml_tensor* a, int shift0, int shift1, int shift2,
                       int shift3) {
    return node<ops::Roll>(ctx, {.shift = {shift0, shift1, shift2, shift3}}, {a});
}
