#include "ops/repeat.hpp"

#include <cstring>

#include "backends/cpu/kernels/movement/copy_units.hpp"

namespace heddle::cpu {
namespace {

std::string_view repeat_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != node.type) return "x and the result differ in type";
    if (block_size(x.type) != 1) return "blocks cannot be tiled";
    if (!can_repeat(x, node)) return "tiles of x do not fill the result";
    return {};
}

/// Two axes for each dimension, one within the tile and one from tile to tile; the second one does
/// not move in x.
Copy tiling(const Tensor& node) {
    const Tensor& x = *node.src[0];
    Layout from, to;
    from.data = static_cast<std::byte*>(x.data);
    to.data = static_cast<std::byte*>(node.data);
    from.unit = to.unit = size_of(x.type);
    for (int d = 0; d < kMaxDims; ++d) {
        const auto from_stride = static_cast<std::int64_t>(x.nb[d]);
        const auto to_stride = static_cast<std::int64_t>(node.nb[d]);
        const std::int64_t tile = x.ne[d], repeats = node.ne[d] / tile;
        from.add({tile, from_stride});
        from.add({repeats, 0});
        to.add({tile, to_stride});
        to.add({repeats, to_stride * tile});
    }
    from.close();
    to.close();
    return Copy::of_bits(x.type, from, to);
}

void repeat(const Tensor& node, const Task& task) {
    if (!is_empty(node)) run_copy(tiling(node), task);
}

Demand repeat_demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    return {.tasks = worthwhile_tasks(2.0 * static_cast<double>(byte_size(node)), 0,
                                      element_count(node), threads)};
}

std::string_view repeat_back_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "only f32";
    if (!can_repeat(node, x)) return "tiles of the result do not fill x";
    if (!has_dense_rows(x) || !has_dense_rows(node)) return "rows are not dense";
    return {};
}

/// Adds the tiles that lie side by side in one row of x to a row of the result.
void add_tiles(const float* x, float* y, std::int64_t n, std::int64_t repeats) {
    if (n == 1) {
        double sum = y[0];
        for (std::int64_t r = 0; r < repeats; ++r) sum += static_cast<double>(x[r]);
        y[0] = static_cast<float>(sum);
        return;
    }
    for (std::int64_t r = 0; r < repeats; ++r) {
        for (std::int64_t i = 0; i < n; ++i) y[i] += x[r * n + i];
    }
}

/// Rows of the result are independent of each other. Tiles are added in the order in which they
/// lie.
void repeat_back(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        float* y = row_at<float>(node, row);
        std::memset(y, 0, static_cast<std::size_t>(node.ne[0]) * sizeof(float));
        for (std::int64_t i3 = row.i3; i3 < x.ne[3]; i3 += node.ne[3]) {
            for (std::int64_t i2 = row.i2; i2 < x.ne[2]; i2 += node.ne[2]) {
                for (std::int64_t i1 = row.i1; i1 < x.ne[1]; i1 += node.ne[1]) {
                    add_tiles(at<const float>(x, 0, i1, i2, i3), y, node.ne[0],
                              x.ne[0] / node.ne[0]);
                }
            }
        }
    });
}

}  // namespace

extern const Kernel kRepeat{.name = "repeat",
                            .op = ops::Repeat::id,
                            .objection = repeat_objection,
                            .run = repeat,
                            .demand = repeat_demand};
extern const Kernel kRepeatBack{.name = "repeat_back",
                                .op = ops::RepeatBack::id,
                                .objection = repeat_back_objection,
                                .run = repeat_back};

}  // namespace heddle::cpu
