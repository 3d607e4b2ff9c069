#include "ops/im2col.hpp"

#include <algorithm>

#include "backends/cpu/kernels/vision/patches.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
namespace {

SlidingVolume volume_2d(const Tensor& node) {
    const auto [window, is_2d] = unpack<ops::Im2col::Params>(node);
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    const int channels = is_2d != 0 ? 2 : 1;  // the dimension; that of batches is the next
    SlidingVolume volume{.data = &x,
                         .width = sliding_axis(window, 0, x, kernel.ne[0], node.ne[1]),
                         .height = {},
                         .depth = {},
                         .channels = x.ne[channels],
                         .batches = x.ne[channels + 1],
                         .channel_pitch = x.nb[channels],
                         .batch_pitch = x.nb[channels + 1]};
    if (is_2d != 0) volume.height = sliding_axis(window, 1, x, kernel.ne[1], node.ne[2]);
    return volume;
}

SlidingVolume volume_3d(const Tensor& node) {
    const auto [window, channels] = unpack<ops::Im2col3d::Params>(node);
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    const std::int64_t batches = x.ne[3] / channels;
    const std::int64_t depth = batches > 0 ? node.ne[3] / batches : 0;
    return {.data = &x,
            .width = sliding_axis(window, 0, x, kernel.ne[0], node.ne[1]),
            .height = sliding_axis(window, 1, x, kernel.ne[1], node.ne[2]),
            .depth = sliding_axis(window, 2, x, kernel.ne[2], depth),
            .channels = channels,
            .batches = batches,
            .channel_pitch = x.nb[3],
            .batch_pitch = x.nb[3] * static_cast<std::size_t>(channels)};
}

/// The rows of the result are the patches of one batch after the other.
template <SlidingVolume (*kVolume)(const Tensor&)>
void run(const Tensor& node, const Task& task) {
    if (is_empty(node)) return;
    const SlidingVolume volume = kVolume(node);
    const std::int64_t pixels = volume.pixels();
    const Range rows = task.share(row_count(node));
    for (std::int64_t row = rows.begin; row < rows.end;) {
        const std::int64_t batch = row / pixels, first = row % pixels;
        const std::int64_t count = std::min(pixels - first, rows.end - row);
        std::byte* to =
            static_cast<std::byte*>(node.data) + static_cast<std::size_t>(row) * node.nb[1];
        gather_patches(volume, batch, {first, first + count}, node.type, to, node.nb[1]);
        row += count;
    }
}

template <SlidingVolume (*kVolume)(const Tensor&)>
std::string_view objection(const Tensor& node) {
    if (!is_contiguous(node)) return "the result is not contiguous";
    return patches_objection(kVolume(node), node.type);
}

}  // namespace

extern const Kernel kIm2col{.name = "im2col",
                            .op = GGML_OP_IM2COL,
                            .objection = objection<volume_2d>,
                            .run = run<volume_2d>};

extern const Kernel kIm2col3d{.name = "im2col_3d",
                              .op = GGML_OP_IM2COL_3D,
                              .objection = objection<volume_3d>,
                              .run = run<volume_3d>};

}  // namespace heddle::cpu
