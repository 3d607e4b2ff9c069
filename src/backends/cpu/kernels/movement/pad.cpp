#include "ops/pad.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/movement/copy_units.hpp"

namespace heddle::cpu {
namespace {

std::string_view pad_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    const auto params = unpack<ops::Pad::Params>(node);
    if (x.type != node.type) return "x and the result differ in type";
    if (block_size(x.type) != 1) return "blocks cannot be padded";
    if (node.nb[0] != size_of(node.type)) return "rows of the result are not dense";
    for (int d = 0; d < kMaxDims; ++d) {
        const auto [before, after] = params.amount[static_cast<std::size_t>(d)];
        if (node.ne[d] != x.ne[d] + before + after) return "the extents are not those of padded x";
    }
    if (params.circular != 0 && is_empty(x) && !is_empty(node))
        return "x is empty: nothing goes on";
    return {};
}

/// A row of x, or one that is all padding.
struct PaddedRow {
    std::byte* to;
    const std::byte* from;  ///< null: zeros
    std::int64_t extent;    ///< of `to`
};

void fill_row(const PaddedRow& row, const Tensor& x, std::int64_t before) {
    const std::size_t size = size_of(x.type);
    // What of the row comes from x: all of it, less what negative padding cuts off.
    const std::int64_t begin = std::clamp<std::int64_t>(before, 0, row.extent);
    const std::int64_t end = std::clamp<std::int64_t>(before + x.ne[0], begin, row.extent);
    if (row.from == nullptr || begin == end) {
        std::memset(row.to, 0, static_cast<std::size_t>(row.extent) * size);
        return;
    }
    const auto bytes = [size](std::int64_t n) { return static_cast<std::size_t>(n) * size; };
    const auto stride = static_cast<std::int64_t>(x.nb[0]);
    std::memset(row.to, 0, bytes(begin));
    move_units(row.from + (begin - before) * stride, stride, row.to + bytes(begin),
               static_cast<std::int64_t>(size), end - begin, size);
    std::memset(row.to + bytes(end), 0, bytes(row.extent - end));
}

std::int64_t wrap(std::int64_t i, std::int64_t n) {
    const std::int64_t rest = i % n;
    return rest < 0 ? rest + n : rest;
}

void continue_row(const PaddedRow& row, const Tensor& x, std::int64_t before) {
    const std::size_t size = size_of(x.type);
    const auto stride = static_cast<std::int64_t>(x.nb[0]);
    std::int64_t position = wrap(-before, x.ne[0]);
    for (std::int64_t i = 0; i < row.extent; position = 0) {
        const std::int64_t n = std::min(x.ne[0] - position, row.extent - i);
        move_units(row.from + position * stride, stride,
                   row.to + static_cast<std::size_t>(i) * size, static_cast<std::int64_t>(size), n,
                   size);
        i += n;
    }
}

void pad(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    const auto params = unpack<ops::Pad::Params>(node);
    const auto before = [&](std::size_t d) { return std::int64_t{params.amount[d].before}; };
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        std::int64_t i1 = row.i1 - before(1), i2 = row.i2 - before(2), i3 = row.i3 - before(3);
        std::byte* to = row_at(node, row);
        if (params.circular != 0) {
            i1 = wrap(i1, x.ne[1]), i2 = wrap(i2, x.ne[2]), i3 = wrap(i3, x.ne[3]);
            continue_row({to, at(x, 0, i1, i2, i3), node.ne[0]}, x, before(0));
            return;
        }
        const bool inside =
            i1 >= 0 && i1 < x.ne[1] && i2 >= 0 && i2 < x.ne[2] && i3 >= 0 && i3 < x.ne[3];
        fill_row({to, inside ? at(x, 0, i1, i2, i3) : nullptr, node.ne[0]}, x, before(0));
    });
}

std::string_view reflect_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    const auto [before, after] = unpack<ops::PadReflect1d::Params>(node);
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "only f32";
    if (!has_dense_rows(x) || node.nb[0] != sizeof(float)) return "rows are not dense";
    if (before < 0 || after < 0 || before >= x.ne[0] || after >= x.ne[0]) {
        return "the padding is negative or not less than a row";
    }
    for (int d = 0; d < kMaxDims; ++d) {
        if (node.ne[d] != x.ne[d] + (d == 0 ? std::int64_t{before} + after : 0)) {
            return "the extents are not those of padded x";
        }
    }
    return {};
}

void reflect(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    const auto [before, after] = unpack<ops::PadReflect1d::Params>(node);
    const std::int64_t n = x.ne[0];
    for_rows(node, task.share(row_count(node)),
             [&, before = before, after = after](const Row& row) {
                 const float* from = row_at<const float>(x, row);
                 float* to = row_at<float>(node, row) + before;
                 std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
                 for (std::int64_t i = 1; i <= before; ++i) to[-i] = from[i];
                 for (std::int64_t i = 0; i < after; ++i) to[n + i] = from[n - 2 - i];
             });
}

}  // namespace

extern const Kernel kPad{.name = "pad", .op = ops::Pad::id, .objection = pad_objection, .run = pad};
extern const Kernel kPadReflect1d{.name = "pad_reflect_1d",
                                  .op = ops::PadReflect1d::id,
                                  .objection = reflect_objection,
                                  .run = reflect};

}  // namespace heddle::cpu
