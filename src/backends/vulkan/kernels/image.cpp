// UPSCALE in all modes, POOL_1D, POOL_2D and POOL_2D_BACK.

#include "backends/gpu/conditions/image.hpp"

#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"

namespace heddle::vulkan {
namespace {

void record_upscale(const Tensor& node, Recorder& recorder) {
    const auto word = unpack<ops::Upscale::Params>(node).mode;
    int mode = ops::Upscale::interpolation_of(word);
    constexpr int antialiased = 3;  // as shaders/image.comp has it
    if (mode == GGML_SCALE_MODE_BILINEAR && (word & GGML_SCALE_FLAG_ANTIALIAS) != 0) {
        mode = antialiased;
    }
    Arguments a = arguments(node);
    const Tensor& x = *node.src[0];
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        a.f[d] = static_cast<float>(node.ne[d]) / static_cast<float>(x.ne[d]);
    }
    a.f[4] = 0.5f;
    if ((word & GGML_SCALE_FLAG_ALIGN_CORNERS) != 0) {
        a.f[4] = 0;
        for (std::size_t d = 0; d < 2; ++d) {
            if (node.ne[d] <= 1 || x.ne[d] <= 1) continue;
            a.f[d] = static_cast<float>(node.ne[d] - 1) / static_cast<float>(x.ne[d] - 1);
        }
    }
    recorder.run_elements({.shader = Shader::image, .values = {mode, type_of(&x), type_of(&node)}},
                          a, element_count(node));
}

/// As shaders/pool.comp has them.
enum Function { pool_1d, pool_2d, pool_2d_back };

void record_pool(const Tensor& node, Recorder& recorder, int function, std::int32_t op,
                 const Arguments& a) {
    recorder.run_elements({.shader = Shader::pool,
                           .values = {function, op == GGML_OP_POOL_MAX ? 1 : 0,
                                      type_of(node.src[0]), type_of(node.src[1]), type_of(&node)}},
                          a, element_count(node));
}

void record_pool_1d(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Pool1d::Params>(node);
    Arguments a = arguments(node);
    a.i[0] = params.taps, a.i[2] = params.stride, a.i[4] = params.padding;
    record_pool(node, recorder, pool_1d, params.op, a);
}

template <int kFunction>
void record_pool_2d(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Pool2dRule::Params>(node);
    Arguments a = arguments(node);
    for (std::size_t d = 0; d < 2; ++d) {
        a.i[d] = params.taps[d];
        a.i[2 + d] = params.stride[d];
        a.i[4 + d] = static_cast<std::int32_t>(params.padding[d]);
    }
    a.f[0] = static_cast<float>(params.taps[0]) * static_cast<float>(params.taps[1]);
    record_pool(node, recorder, kFunction, params.op, a);
}

using namespace gpu::image;

constexpr Kernel kKernels[] = {
    {"upscale", GGML_OP_UPSCALE, upscale_objection, record_upscale},
    {"pool_1d", GGML_OP_POOL_1D, pool_1d_objection, record_pool_1d},
    {"pool_2d", GGML_OP_POOL_2D, pool_2d_objection, record_pool_2d<pool_2d>},
    {"pool_2d_back", GGML_OP_POOL_2D_BACK, pool_2d_back_objection, record_pool_2d<pool_2d_back>},
};

}  // namespace

std::span<const Kernel> image_kernels() { return kKernels; }

}  // namespace heddle::vulkan
