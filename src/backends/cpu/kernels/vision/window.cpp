#include "ops/window.hpp"

#include <cstring>

#include "backends/cpu/kernel.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
namespace {

std::string_view rows_objection(const Tensor& node, Type type) {
    const Tensor& x = *node.src[0];
    if (x.type != type || node.type != type) return type == GGML_TYPE_F32 ? "only f32" : "only f16";
    if (x.nb[0] != size_of(type) || node.nb[0] != size_of(type)) return "rows are not dense";
    return {};
}

std::string_view part_objection(const Tensor& node) { return rows_objection(node, GGML_TYPE_F32); }

/// A row is all channels of a pixel; those outside of the image are zero.
void part(const Tensor& node, const Task& task) {
    const auto [across, down, width] = unpack<ops::WinPart::Params>(node);
    const Tensor& x = *node.src[0];
    const std::size_t size = row_size(x.type, x.ne[0]);
    for_rows(node, task.share(row_count(node)),
             [&, across = across, width = width](const Row& row) {
                 const std::int64_t i1 = row.i3 % across * width + row.i1;
                 const std::int64_t i2 = row.i3 / across * width + row.i2;
                 if (i1 < x.ne[1] && i2 < x.ne[2]) {
                     std::memcpy(row_at(node, row), at(x, 0, i1, i2), size);
                 } else {
                     std::memset(row_at(node, row), 0, size);
                 }
             });
}

/// Windows that cover `extent`.
std::int64_t window_count(std::int64_t extent, std::int64_t width) {
    return (extent + width - 1) / width;
}

std::string_view unpart_objection(const Tensor& node) {
    const std::int64_t width = unpack<ops::WinUnpart::Params>(node).width;
    const Tensor& x = *node.src[0];
    const std::int64_t windows =
        window_count(node.ne[1], width) * window_count(node.ne[2], width) * node.ne[3];
    if (x.ne[0] < node.ne[0] || x.ne[1] < width || x.ne[2] < width || x.ne[3] < windows) {
        return "x has too few windows for the image";
    }
    return rows_objection(node, GGML_TYPE_F32);
}

void unpart(const Tensor& node, const Task& task) {
    const std::int64_t width = unpack<ops::WinUnpart::Params>(node).width;
    const std::int64_t across = window_count(node.ne[1], width);
    const Tensor& x = *node.src[0];
    const std::size_t size = row_size(node.type, node.ne[0]);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        const std::int64_t window = row.i2 / width * across + row.i1 / width;
        std::memcpy(row_at(node, row), at(x, 0, row.i1 % width, row.i2 % width, window), size);
    });
}

std::string_view get_objection(const Tensor& node) { return rows_objection(node, GGML_TYPE_F16); }

void get_rel_pos(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    const std::size_t size = row_size(x.type, x.ne[0]);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        std::memcpy(row_at(node, row), at(x, 0, node.ne[1] - 1 - row.i1 + row.i2), size);
    });
}

std::string_view add_objection(const Tensor& node) {
    if (const auto text = rows_objection(node, GGML_TYPE_F32); !text.empty()) return text;
    for (const int slot : {1, 2}) {
        if (node.src[slot]->type != GGML_TYPE_F32) return "only f32";
        if (!is_contiguous(*node.src[slot])) return "positions are not contiguous";
    }
    return node.ne[3] == 1 ? "" : "there are no positions for dimension 3 of x";
}

/// x and the result may be the same memory.
void add_rel_pos(const Tensor& node, const Task& task) {
    const Tensor &x = *node.src[0], &pw = *node.src[1], &ph = *node.src[2];
    const std::int64_t n = pw.ne[0];
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        const std::int64_t query = row.i2 * node.ne[1] + row.i1;
        const float* w = static_cast<const float*>(pw.data) + query * n;
        const float* h = static_cast<const float*>(ph.data) + query * n;
        const float* from = row_at<const float>(x, row);
        float* to = row_at<float>(node, row);
        for (std::int64_t i = 0; i < n; ++i, from += n, to += n) {
            for (std::int64_t j = 0; j < n; ++j) to[j] = from[j] + w[j] + h[i];
        }
    });
}

}  // namespace

extern const Kernel kWinPart{
    .name = "win_part", .op = GGML_OP_WIN_PART, .objection = part_objection, .run = part};

extern const Kernel kWinUnpart{
    .name = "win_unpart", .op = GGML_OP_WIN_UNPART, .objection = unpart_objection, .run = unpart};

extern const Kernel kGetRelPos{.name = "get_rel_pos",
                               .op = GGML_OP_GET_REL_POS,
                               .objection = get_objection,
                               .run = get_rel_pos};

extern const Kernel kAddRelPos{.name = "add_rel_pos",
                               .op = GGML_OP_ADD_REL_POS,
                               .objection = add_objection,
                               .run = add_rel_pos};

}  // namespace heddle::cpu
