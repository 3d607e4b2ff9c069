// Convolutions, patches, pooling, windows.

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "ops/conv_builders.hpp"
#include "ops/convolution.hpp"
#include "ops/im2col.hpp"
#include "ops/pool.hpp"
#include "ops/window.hpp"

using namespace heddle;
using capi::node;

namespace {

/// What `compose` makes in the context, for chains of several nodes.
template <class Compose>
ggml_tensor* chain(ggml_context* ctx, std::string_view name, Compose&& compose) noexcept {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(capi::require(ctx, name, "the context"));
        return compose(*ctx);
    });
}

}  // namespace

// ---- patches -----------------------------------------------------------------------------------

ggml_tensor* ggml_im2col(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0, int s1, int p0,
                         int p1, int d0, int d1, bool is_2D, ggml_type dst_type) {
    return node<ops::Im2col>(ctx, {{{{s0, s1}, {p0, p1}, {d0, d1}}, is_2D ? 1 : 0}, dst_type},
                             {a, b});
}

ggml_tensor* ggml_im2col_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int64_t* ne,
                              int s0, int s1, int p0, int p1, int d0, int d1, bool is_2D) {
    return chain(ctx, "im2col_back", [&](Context& context) -> Result<Tensor*> {
        HEDDLE_TRY(capi::require(ne, "im2col_back", "the shape"));
        return build<ops::Im2colBack>(
            context,
            {{{{s0, s1}, {p0, p1}, {d0, d1}}, is_2D ? 1 : 0}, {ne[0], ne[1], ne[2], ne[3]}},
            {a, b});
    });
}

ggml_tensor* ggml_im2col_3d(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int64_t IC, int s0,
                            int s1, int s2, int p0, int p1, int p2, int d0, int d1, int d2,
                            ggml_type dst_type) {
    return node<ops::Im2col3d>(
        ctx,
        {{{{s0, s1, s2}, {p0, p1, p2}, {d0, d1, d2}}, static_cast<std::int32_t>(IC)}, IC, dst_type},
        {a, b});
}

ggml_tensor* ggml_col2im_1d(ggml_context* ctx, ggml_tensor* a, int s0, int oc, int p0) {
    return node<ops::Col2im1d>(ctx, {s0, oc, p0}, {a});
}

// ---- convolutions of one node ------------------------------------------------------------------

ggml_tensor* ggml_conv_transpose_1d(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0,
                                    int p0, int d0) {
    return node<ops::ConvTranspose1d>(ctx, {{s0}, {p0}, {d0}}, {a, b});
}

ggml_tensor* ggml_conv_2d_direct(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0, int s1,
                                 int p0, int p1, int d0, int d1) {
    return node<ops::Conv2d>(ctx, {{s0, s1}, {p0, p1}, {d0, d1}}, {a, b});
}

ggml_tensor* ggml_conv_3d_direct(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0, int s1,
                                 int s2, int p0, int p1, int p2, int d0, int d1, int d2,
                                 int n_channels, int n_batch, int n_channels_out) {
    return node<ops::Conv3d>(
        ctx, {{{s0, s1, s2}, {p0, p1, p2}, {d0, d1, d2}}, n_channels, n_batch, n_channels_out},
        {a, b});
}

ggml_tensor* ggml_conv_2d_dw_direct(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int stride0,
                                    int stride1, int pad0, int pad1, int dilation0, int dilation1) {
    return node<ops::Conv2dDw>(ctx, {{stride0, stride1}, {pad0, pad1}, {dilation0, dilation1}},
                               {a, b});
}

ggml_tensor* ggml_conv_transpose_2d_p0(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b,
                                       int stride) {
    return node<ops::ConvTranspose2d>(ctx, {stride}, {a, b});
}

// ---- convolutions of several nodes -------------------------------------------------------------

ggml_tensor* ggml_conv_1d(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0, int p0,
                          int d0) {
    return chain(ctx, "conv_1d", [&](Context& context) {
        return conv_1d(context, a, b, {{s0}, {p0}, {d0}});
    });
}

ggml_tensor* ggml_conv_1d_ph(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s, int d) {
    return chain(ctx, "conv_1d_ph",
                 [&](Context& context) { return conv_1d_half_padded(context, a, b, s, d); });
}

ggml_tensor* ggml_conv_1d_dw(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0, int p0,
                             int d0) {
    return chain(ctx, "conv_1d_dw", [&](Context& context) {
        return conv_1d_depthwise(context, a, b, {{s0}, {p0}, {d0}});
    });
}

ggml_tensor* ggml_conv_1d_dw_ph(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0, int d0) {
    return chain(ctx, "conv_1d_dw_ph", [&](Context& context) {
        return conv_1d_depthwise_half_padded(context, a, b, s0, d0);
    });
}

ggml_tensor* ggml_conv_2d(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0, int s1, int p0,
                          int p1, int d0, int d1) {
    return chain(ctx, "conv_2d", [&](Context& context) {
        return conv_2d(context, a, b, {{s0, s1}, {p0, p1}, {d0, d1}});
    });
}

ggml_tensor* ggml_conv_2d_sk_p0(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return chain(ctx, "conv_2d_sk_p0",
                 [&](Context& context) { return conv_2d_tiled(context, a, b); });
}

ggml_tensor* ggml_conv_2d_s1_ph(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return chain(ctx, "conv_2d_s1_ph",
                 [&](Context& context) { return conv_2d_half_padded(context, a, b); });
}

ggml_tensor* ggml_conv_2d_dw(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int s0, int s1,
                             int p0, int p1, int d0, int d1) {
    return chain(ctx, "conv_2d_dw", [&](Context& context) {
        return conv_2d_depthwise(context, a, b, {{s0, s1}, {p0, p1}, {d0, d1}});
    });
}

ggml_tensor* ggml_conv_3d(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int64_t IC, int s0,
                          int s1, int s2, int p0, int p1, int p2, int d0, int d1, int d2) {
    return chain(ctx, "conv_3d", [&](Context& context) {
        return conv_3d(context, a, b, IC, {{s0, s1, s2}, {p0, p1, p2}, {d0, d1, d2}});
    });
}

// ---- pooling -----------------------------------------------------------------------------------

ggml_tensor* ggml_pool_1d(ggml_context* ctx, ggml_tensor* a, ggml_op_pool op, int k0, int s0,
                          int p0) {
    return node<ops::Pool1d>(ctx, {static_cast<std::int32_t>(op), k0, s0, p0}, {a});
}

ggml_tensor* ggml_pool_2d(ggml_context* ctx, ggml_tensor* a, ggml_op_pool op, int k0, int k1,
                          int s0, int s1, float p0, float p1) {
    return node<ops::Pool2d>(ctx, ops::Pool2d::args(op, {k0, k1}, {s0, s1}, {p0, p1}), {a});
}

ggml_tensor* ggml_pool_2d_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* af, ggml_op_pool op,
                               int k0, int k1, int s0, int s1, float p0, float p1) {
    return node<ops::Pool2dBack>(ctx, ops::Pool2dBack::args(op, {k0, k1}, {s0, s1}, {p0, p1}),
                                 {a, af});
}

// ---- windows and relative positions ------------------------------------------------------------

ggml_tensor* ggml_win_part(ggml_context* ctx, ggml_tensor* a, int w) {
    return node<ops::WinPart>(ctx, ops::WinPart::params(a, w), {a});
}

ggml_tensor* ggml_win_unpart(ggml_context* ctx, ggml_tensor* a, int w0, int h0, int w) {
    return node<ops::WinUnpart>(ctx, {{w}, w0, h0}, {a});
}

ggml_tensor* ggml_get_rel_pos(ggml_context* ctx, ggml_tensor* a, int qh, int kh) {
    return node<ops::GetRelPos>(ctx, {{}, qh, kh}, {a});
}

ggml_tensor* ggml_add_rel_pos(ggml_context* ctx, ggml_tensor* a, ggml_tensor* pw, ggml_tensor* ph) {
    return node<ops::AddRelPos>(ctx, {0}, {a, pw, ph});
}

ggml_tensor* ggml_add_rel_pos_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* pw,
                                      ggml_tensor* ph) {
    return capi::node_in_place<ops::AddRelPos>(ctx, {1}, {a, pw, ph});
}
