#include <cstring>

#include "backends/cpu/kernels/vision/sliding_volume.hpp"
#include "ops/im2col.hpp"

namespace heddle::cpu {
namespace {

/// The gradient of patches, and where those were taken from.
struct Folding {
    const Tensor& dy;
    SlidingVolume volume;  ///< of the result
    bool is_2d;

    explicit Folding(const Tensor& node) : dy(*node.src[0]) {
        const auto params = unpack<ops::Im2colBack::Params>(node);
        const Tensor& kernel = *node.src[1];
        is_2d = params.is_2d != 0;
        const int channels = is_2d ? 2 : 1;
        volume.width = sliding_axis(params.window, 0, node, kernel.ne[0], dy.ne[1]);
        if (is_2d) {
            volume.height = sliding_axis(params.window, 1, node, kernel.ne[1], dy.ne[2]);
        }
        volume.channels = node.ne[channels];
        volume.batches = node.ne[channels + 1];
    }
};

std::string_view objection(const Tensor& node) {
    const Folding folding(node);
    const Tensor &dy = folding.dy, &kernel = *node.src[1];
    if (dy.type != GGML_TYPE_F32) return "dy is not f32";
    if (kernel.type != GGML_TYPE_F32 && kernel.type != GGML_TYPE_F16) {
        return "the kernel is not f32 or f16";
    }
    if (node.nb[0] != sizeof(float)) return "rows of the result are not dense";
    const bool fits = dy.ne[0] == folding.volume.patch_size() &&
                      dy.ne[folding.is_2d ? 3 : 2] == folding.volume.batches &&
                      (folding.is_2d || node.ne[3] == 1);
    return fits ? "" : "dy does not have the patches of the result";
}

/// Adds what the taps of the kernel's row `tap_y` saw in row `y` of the result.
void add_row(const Folding& folding, float* to, std::int64_t position_y, std::int64_t tap_y,
             std::int64_t channel, std::int64_t batch) {
    const SlidingVolume::Axis& width = folding.volume.width;
    const std::int64_t row = (channel * folding.volume.height.taps + tap_y) * width.taps;
    for (std::int64_t tap = 0; tap < width.taps; ++tap) {
        const Range inside = positions_inside(width, tap);
        for (std::int64_t x = inside.begin; x < inside.end; ++x) {
            const float* from = folding.is_2d
                                    ? at<const float>(folding.dy, row + tap, x, position_y, batch)
                                    : at<const float>(folding.dy, row + tap, x, batch);
            to[width.source(x, tap)] += *from;
        }
    }
}

void run(const Tensor& node, const Task& task) {
    const Folding folding(node);
    const SlidingVolume::Axis& height = folding.volume.height;
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        float* to = row_at<float>(node, row);
        std::memset(to, 0, static_cast<std::size_t>(node.ne[0]) * sizeof(float));
        if (!folding.is_2d) return add_row(folding, to, 0, 0, row.i1, row.i2);
        for (std::int64_t tap = 0; tap < height.taps; ++tap) {
            const std::int64_t way = row.i1 - height.source(0, tap);
            if (way < 0 || way % height.stride != 0) continue;
            const std::int64_t position = way / height.stride;
            if (position < height.positions) {
                add_row(folding, to, position, tap, row.i2, row.i3);
            }
        }
    });
}

}  // namespace

extern const Kernel kIm2colBack{
    .name = "im2col_back", .op = GGML_OP_IM2COL_BACK, .objection = objection, .run = run};

}  // namespace heddle::cpu
