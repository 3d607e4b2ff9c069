#pragma once

#include <algorithm>

#include "backends/cpu/kernel.hpp"

/// Walking tensors element by element, in stretches as long as their layouts allow.
namespace heddle::cpu {

/// Whether elements of `size` bytes follow each other without gaps, in logical order.
inline bool is_packed(const Tensor& t, std::size_t size) {
    return t.nb[0] == size && t.nb[1] == t.nb[0] * static_cast<std::size_t>(t.ne[0]) &&
           t.nb[2] == t.nb[1] * static_cast<std::size_t>(t.ne[1]) &&
           t.nb[3] == t.nb[2] * static_cast<std::size_t>(t.ne[2]);
}

inline bool is_packed(const Tensor& t) { return is_packed(t, size_of(t.type)); }

/// Whether the elements of each row follow each other. A single one does whatever its stride says.
inline bool has_packed_rows(const Tensor& t) { return t.nb[0] == size_of(t.type) || t.ne[0] <= 1; }

/// Whether elements of the same index lie at the same distance from the start of both.
inline bool has_same_layout(const Tensor& a, const Tensor& b) {
    return a.type == b.type && std::equal(a.ne, a.ne + kMaxDims, b.ne) &&
           std::equal(a.nb, a.nb + kMaxDims, b.nb);
}

inline std::int64_t count_elements(const Tensor& t) {
    return t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3];
}

inline bool is_float(Type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

/// This task's part of `n` elements that are cut anywhere; parts begin at whole cache lines.
inline Range share_elements(const Task& task, std::int64_t n) {
    constexpr std::int64_t unit = 64;
    if (task.count == 1) return {0, n};
    const Range units = task.share((n + unit - 1) / unit);
    return {units.begin * unit, std::min(units.end * unit, n)};
}

/// Calls `body(x, y, n)` for stretches of elements of this task's share. x and y have the same
/// extents and type, and packed rows.
template <class Body>
void for_spans(const Tensor& x, const Tensor& y, const Task& task, Body&& body) {
    if (is_packed(x) && is_packed(y)) {
        const Range range = share_elements(task, count_elements(y));
        if (range.begin >= range.end) return;
        const std::size_t offset = static_cast<std::size_t>(range.begin) * size_of(y.type);
        body(static_cast<const std::byte*>(x.data) + offset,
             static_cast<std::byte*>(y.data) + offset, range.end - range.begin);
        return;
    }
    for_rows(y, task.share(row_count(y)), [&](const Row& row) {
        body(row_at<const std::byte>(x, row), row_at(y, row), y.ne[0]);
    });
}

/// What a node wants that is computed by `for_spans`, with so many operations per element.
inline Demand spans_demand(const Tensor& node, int threads, double flops_per_element) {
    if (threads <= 1) return {};
    constexpr std::int64_t least = 1024;  // elements of a piece
    const std::int64_t n = element_count(node);
    const bool is_whole = is_packed(node) && (node.src[0] == nullptr || is_packed(*node.src[0]));
    const std::int64_t pieces = is_whole ? n / least : row_count(node);
    double bytes = static_cast<double>(byte_size(node));
    if (node.src[0] != nullptr) bytes += static_cast<double>(byte_size(*node.src[0]));
    return {.tasks = worthwhile_tasks(bytes, flops_per_element * static_cast<double>(n), pieces,
                                      threads)};
}

/// Why a node y = f(x) cannot be computed by `for_spans`.
inline std::string_view objection_to_map(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != node.type) return "the result does not have the type of x";
    if (!is_float(x.type)) return "x is not f32, f16 or bf16";
    if (!same_shape(x, node)) return "the result does not have the extents of x";
    if (!has_packed_rows(x) || !has_packed_rows(node)) return "rows are not dense";
    return {};
}

}  // namespace heddle::cpu
