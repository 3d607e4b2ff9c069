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

/// Sets bytes to zero. Padding is mostly a few bytes wide, less than a call is worth.
void clear(std::byte* to, std::size_t n) {
    if (n > 32) {
        std::memset(to, 0, n);
    } else if (n >= 16) {
        std::memset(to, 0, 16);
        std::memset(to + n - 16, 0, 16);
    } else if (n >= 8) {
        std::memset(to, 0, 8);
        std::memset(to + n - 8, 0, 8);
    } else if (n >= 4) {
        std::memset(to, 0, 4);
        std::memset(to + n - 4, 0, 4);
    } else {
        for (std::size_t i = 0; i < n; ++i) to[i] = std::byte{0};
    }
}

/// Copies bytes. Rows of images are often short, too.
void copy_bytes(const std::byte* from, std::byte* to, std::size_t n) {
    if (n < 16 || n > 128) {
        std::memcpy(to, from, n);
        return;
    }
    for (std::size_t i = 0; i + 16 < n; i += 16) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + n - 16, from + n - 16, 16);
}

/// What of a row comes from x: all of x, less what negative padding cuts off. The same for all
/// rows.
struct Inside {
    std::int64_t skipped;  ///< bytes of x
    std::int64_t stride;   ///< in x
    std::int64_t count;
    std::size_t size;             ///< of an element
    std::size_t begin, end, all;  ///< bytes of the result's row

    Inside(const Tensor& x, const Tensor& node, std::int64_t before)
        : stride(static_cast<std::int64_t>(x.nb[0])), size(size_of(x.type)) {
        const std::int64_t first = std::clamp<std::int64_t>(before, 0, node.ne[0]);
        const std::int64_t last = std::clamp<std::int64_t>(before + x.ne[0], first, node.ne[0]);
        skipped = (first - before) * stride;
        count = last - first;
        begin = static_cast<std::size_t>(first) * size;
        end = static_cast<std::size_t>(last) * size;
        all = static_cast<std::size_t>(node.ne[0]) * size;
    }

    /// `from` is null where all of the row is padding.
    void fill_row(std::byte* to, const std::byte* from) const {
        if (from == nullptr || count == 0) {
            std::memset(to, 0, all);
            return;
        }
        const auto dense = static_cast<std::int64_t>(size);
        clear(to, begin);
        if (stride == dense) {
            copy_bytes(from + skipped, to + begin, end - begin);
        } else {
            move_units(from + skipped, stride, to + begin, dense, count, size);
        }
        clear(to + end, all - end);
    }
};

std::int64_t wrap(std::int64_t i, std::int64_t n) {
    const std::int64_t rest = i % n;
    return rest < 0 ? rest + n : rest;
}

/// A row of `extent` elements in which a row of x goes on and on.
void continue_row(std::byte* to, std::int64_t extent, const std::byte* from, const Tensor& x,
                  std::int64_t before) {
    const std::size_t size = size_of(x.type);
    const auto stride = static_cast<std::int64_t>(x.nb[0]);
    std::int64_t position = wrap(-before, x.ne[0]);
    for (std::int64_t i = 0; i < extent; position = 0) {
        const std::int64_t n = std::min(x.ne[0] - position, extent - i);
        move_units(from + position * stride, stride, to + static_cast<std::size_t>(i) * size,
                   static_cast<std::int64_t>(size), n, size);
        i += n;
    }
}

void pad(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    const auto params = unpack<ops::Pad::Params>(node);
    const auto before = [&](std::size_t d) { return std::int64_t{params.amount[d].before}; };
    const Inside inside(x, node, before(0));
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        std::int64_t i1 = row.i1 - before(1), i2 = row.i2 - before(2), i3 = row.i3 - before(3);
        std::byte* to = row_at(node, row);
        if (params.circular != 0) {
            i1 = wrap(i1, x.ne[1]), i2 = wrap(i2, x.ne[2]), i3 = wrap(i3, x.ne[3]);
            continue_row(to, node.ne[0], at(x, 0, i1, i2, i3), x, before(0));
            return;
        }
        const bool has_row =
            i1 >= 0 && i1 < x.ne[1] && i2 >= 0 && i2 < x.ne[2] && i3 >= 0 && i3 < x.ne[3];
        inside.fill_row(to, has_row ? at(x, 0, i1, i2, i3) : nullptr);
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
