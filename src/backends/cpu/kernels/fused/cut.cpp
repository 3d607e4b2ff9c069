#include "backends/cpu/kernels/fused/cut.hpp"

#include <array>

#include "ggml/op_list.h"
#include "ops/rope.hpp"

namespace heddle::cpu {
namespace {

/// Whether rows of `t` are equally spaced; `pitch` is how far.
bool find_pitch(const Tensor& t, std::size_t& pitch) {
    bool found = false;
    std::size_t next = 0;
    for (int d = 1; d < kMaxDims; ++d) {
        if (t.ne[d] == 1) continue;
        if (found && t.nb[d] != next) return false;
        if (!found) pitch = t.nb[d];
        found = true;
        next = t.nb[d] * static_cast<std::size_t>(t.ne[d]);
    }
    if (!found) pitch = t.nb[1];
    return true;
}

bool has_rows_of(const Tensor& t, const Tensor& node) {
    return t.ne[1] == node.ne[1] && t.ne[2] == node.ne[2] && t.ne[3] == node.ne[3];
}

bool is_single_row(const Tensor& t) { return t.ne[1] * t.ne[2] * t.ne[3] == 1; }

/// Row i of the result depends on row i of each operand, or on the only row there is.
NodeCut cut_into_rows(const Tensor& node) {
    NodeCut cut;
    cut.result.kind = Cut::Kind::rows;
    if (!find_pitch(node, cut.result.pitch)) return {};
    for (int slot = 0; slot < kMaxSources; ++slot) {
        const Tensor* source = node.src[slot];
        if (source == nullptr) continue;
        if (slot >= kCutSources) return {};
        Cut& its = cut.source[slot];
        if (has_rows_of(*source, node)) {
            its.kind = Cut::Kind::rows;
            if (!find_pitch(*source, its.pitch)) return {};
        } else if (is_single_row(*source)) {
            its.kind = Cut::Kind::whole;
        } else {
            return {};
        }
    }
    cut.units = row_count(node);
    return cut;
}

Cut along(const Tensor& t, int dimension) {
    return {Cut::Kind::dimension, dimension, t.nb[dimension]};
}

/// Into tokens. Where a token has four positions, they lie apart.
NodeCut cut_rope(const Tensor& node) {
    const bool apart = ops::Rotation::has_four_positions(unpack<ops::Rotation::Params>(node).mode);
    if (node.ne[3] != 1 || apart) return {};
    return {.units = node.ne[2],
            .result = along(node, 2),
            .source = {along(*node.src[0], 2), along(*node.src[1], 0)}};
}

/// Into rows that are written. The table stays whole.
NodeCut cut_set_rows(const Tensor& node) {
    const Tensor &x = *node.src[0], &rows = *node.src[1];
    if (x.ne[2] != 1 || x.ne[3] != 1 || !is_single_row(rows)) return {};
    return {.units = x.ne[1],
            .result = {.kind = Cut::Kind::whole},
            .source = {along(x, 1), along(rows, 0)}};
}

void place(Tensor& part, const Tensor& whole, const Cut& cut, Range units) {
    part.data =
        static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(units.begin) * cut.pitch;
    const std::int64_t count = units.end - units.begin;
    if (cut.kind == Cut::Kind::dimension) part.ne[cut.dimension] = count;
    if (cut.kind != Cut::Kind::rows) return;  // what is whole has no pitch
    part.ne[1] = count;
    part.ne[2] = part.ne[3] = 1;
    part.nb[1] = cut.pitch;
    part.nb[2] = part.nb[3] = cut.pitch * static_cast<std::size_t>(count);
}

}  // namespace

bool may_be_cut(Op op) {
    static constexpr auto is_cut = [] {
        std::array<bool, GGML_OP_COUNT> set{};
        for (const Op each :
             {GGML_OP_ADD, GGML_OP_SUB, GGML_OP_MUL, GGML_OP_DIV, GGML_OP_SQR, GGML_OP_SQRT,
              GGML_OP_CLAMP, GGML_OP_SCALE, GGML_OP_UNARY, GGML_OP_GLU, GGML_OP_NORM,
              GGML_OP_RMS_NORM, GGML_OP_L2_NORM, GGML_OP_ROPE, GGML_OP_SET_ROWS}) {
            set[each] = true;
        }
        return set;
    }();
    return is_cut[op];
}

NodeCut cut_of(const Tensor& node) {
    if (node.op == GGML_OP_ROPE) return cut_rope(node);
    if (node.op == GGML_OP_SET_ROWS) return cut_set_rows(node);
    return cut_into_rows(node);
}

std::size_t unit_span(const Tensor& tensor, const Cut& cut, std::size_t bytes) {
    std::size_t span = bytes;
    const auto leave_first = [&](int d) {
        span -= static_cast<std::size_t>(tensor.ne[d] - 1) * tensor.nb[d];
    };
    if (cut.kind == Cut::Kind::rows) {
        for (int d = 1; d < kMaxDims; ++d) leave_first(d);
    } else if (cut.kind == Cut::Kind::dimension) {
        leave_first(cut.dimension);
    }
    return span;
}

Part::Part(const Tensor& node, const NodeCut& cut) : whole_(node), cut_(cut), node_(node) {
    for (int slot = 0; slot < kCutSources; ++slot) {
        if (cut.source[slot].kind == Cut::Kind::absent) continue;
        source_[slot] = *node.src[slot];
        node_.src[slot] = &source_[slot];
    }
}

const Tensor& Part::at(Range units) {
    place(node_, whole_, cut_.result, units);
    for (int slot = 0; slot < kCutSources; ++slot) {
        if (cut_.source[slot].kind == Cut::Kind::absent) continue;
        place(source_[slot], *whole_.src[slot], cut_.source[slot], units);
    }
    return node_;
}

}  // namespace heddle::cpu
