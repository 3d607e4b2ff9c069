#include "runtime/meta/rules.hpp"

#include <algorithm>

#include "ggml/op_list.h"
#include "ops/catalogue.hpp"
#include "ops/concat.hpp"
#include "ops/flash_attn.hpp"
#include "ops/pad.hpp"
#include "ops/roll.hpp"
#include "ops/soft_max.hpp"
#include "runtime/meta/layout.hpp"

namespace heddle::meta {
namespace {

/// What a rule gives: how the result lies, or in words why there is none.
struct Outcome {
    Split split;
    std::string objection;
};

Outcome as(Split split) { return {std::move(split), {}}; }
template <class... Parts>
Outcome no(const Parts&... parts) {
    return {{}, text(parts...)};
}

using Rule = Outcome (*)(const Tensor& node, const NodeSources& src);

bool all_mirrored(const NodeSources& src, std::size_t first = 0) {
    return std::all_of(
        src.begin() + static_cast<std::ptrdiff_t>(first), src.end(),
        [](const Source& s) { return s.tensor == nullptr || s.split.is_mirrored(); });
}

Outcome only_mirrored(const Tensor&, const NodeSources& src) {
    if (all_mirrored(src)) return as(mirrored());
    return no("it is computed on mirrored tensors only");
}

/// Whether `other` can stand beside a tensor that is cut as `split`: cut alike, or whole where it
/// has a single element along the axis, which goes with all.
bool goes_with(const Split& split, const Source& other) {
    if (other.tensor == nullptr || other.split == split) return true;
    return other.split.is_mirrored() && other.tensor->ne[split.dim()] == 1;
}

// ---- element by element ------------------------------------------------------------------------

/// The result is cut as the first source.
Outcome elementwise(const Tensor&, const NodeSources& src) {
    const Split& first = src[0].split;
    if (first.is_mirrored() && all_mirrored(src)) return as(mirrored());
    if (!first.is_cut()) return no("its sources are not cut alike");
    for (const Source& other : src) {
        if (!goes_with(first, other)) return no("its sources are not cut alike");
    }
    return as(first);
}

/// An addend may be kept as one on each device, if it goes into a sum that is kept so too.
Outcome addition(const Tensor& node, const NodeSources& src) {
    if (!src[1].split.is_sum()) return elementwise(node, src);
    if (src[0].is_computed_sum) return as(sum());
    return no("its second source is an addend on each device, its first one is no such sum");
}

Outcome addition_of_rows(const Tensor&, const NodeSources& src) {
    if (!all_mirrored(src, 2)) return no("the numbers of rows must be mirrored");
    const Split &a = src[0].split, &b = src[1].split;
    if (b.is_sum()) {
        if (src[0].is_computed_sum) return as(sum());
        return no("its second source is an addend on each device, its first one is no such sum");
    }
    if (a == b && (a.is_mirrored() || a.dim() == 0)) return as(a);
    return no("both must be mirrored or cut alike along dimension 0");
}

Outcome gated(const Tensor& node, const NodeSources& src) {
    const Split& a = src[0].split;
    if (src[1].tensor != nullptr || !a.is_cut() || a.dim() != 0) return elementwise(node, src);
    // Gates and values are halves of one row: both must be cut, and alike.
    Split half{a.axis, {}}, rest{a.axis, {}};
    std::int64_t left = node.ne[0];
    for (const Segment& segment : a.segments) {
        const auto here = static_cast<std::uint32_t>(
            std::min<std::int64_t>(left / segment.length(), segment.repeats));
        half.add({here, segment.share});
        rest.add({segment.repeats - here, segment.share});
        left -= here * segment.length();
    }
    if (left == 0 && half == rest) return as(half);
    return no("the halves of its rows are not cut alike");
}

Outcome repeat(const Tensor& node, const NodeSources& src) {
    const Split& x = src[0].split;
    // A second source only tells the shape.
    if (!x.is_cut()) return x.is_mirrored() ? as(mirrored()) : no("its source is no whole tensor");
    const std::int64_t count =
        node.ne[x.dim()] / std::max<std::int64_t>(1, src[0].tensor->ne[x.dim()]);
    return as(repeated(x, count));
}

/// The same elements in the same order, perhaps in another shape.
Outcome copied(const Tensor& node, const NodeSources& src) {
    auto split = reshaped(src[0].split, extents_of(*src[0].tensor), extents_of(node));
    if (!split) return no(split.error().message);
    if (src[0].split.is_sum()) return no("its source is an addend on each device");
    if (node.op == GGML_OP_CPY && src[1].tensor != nullptr && !(src[1].split == *split)) {
        return no("source and target are not cut alike");
    }
    return as(*std::move(split));
}

// ---- products ----------------------------------------------------------------------------------

/// Matrices side by side in dimension 2 or 3: each device has whole ones, and those of `a` serve as
/// many of `b` everywhere.
Outcome batched_product(const Source& a, const Source& b) {
    const std::size_t dim = b.split.dim();
    const std::int64_t few = a.tensor->ne[dim], many = b.tensor->ne[dim];
    if (a.split.is_mirrored() && few == 1) return as(b.split);
    if (few > 0 && many % few == 0 && a.split.axis == b.split.axis &&
        scaled(a.split, many / few) == b.split) {
        return as(b.split);
    }
    return no("its sources are not cut alike");
}

Outcome product(const Tensor&, const NodeSources& src) {
    const Split &a = src[0].split, &b = src[1].split;
    if (a.is_mirrored() && b.is_mirrored()) return as(mirrored());
    if (a.is_cut() && a.dim() == 1 && b.is_mirrored()) return as(moved(a, 0));
    if (a.is_mirrored() && b.is_cut() && b.dim() == 1) return as(b);
    if (a.is_cut() && a.dim() == 0 && a == b) return as(sum());
    if (b.is_cut() && b.dim() >= 2) return batched_product(src[0], src[1]);
    return no("no product is defined for sources cut this way");
}

Outcome product_of_experts(const Tensor&, const NodeSources& src) {
    const Split &a = src[0].split, &b = src[1].split;
    if (!all_mirrored(src, 2)) return no("the numbers of experts must be mirrored");
    if (a.is_mirrored() && b.is_mirrored()) return as(mirrored());
    if (a.is_cut() && a.dim() == 1 && b.is_mirrored()) return as(moved(a, 0));
    if (a.is_cut() && a.dim() == 0 && a == b) return as(sum());
    return no("no product is defined for sources cut this way");
}

// ---- rows --------------------------------------------------------------------------------------

Outcome rows(const Tensor& node, const NodeSources& src) {
    const Split& x = src[0].split;
    if (x.is_cut() && x.dim() == 0) return no("its rows must not be cut");
    return elementwise(node, src);
}

/// One number for each row, which then follow each other in dimension 0.
Outcome row_numbers(const Tensor&, const NodeSources& src) {
    const Split& x = src[0].split;
    if (x.is_mirrored()) return as(x);
    if (x.is_cut() && x.dim() == 1) return as(moved(x, 0));
    return no("its source must be mirrored or cut along dimension 1");
}

Outcome soft_max(const Tensor& node, const NodeSources& src) {
    const Split& x = src[0].split;
    if (!x.is_cut()) return only_mirrored(node, src);
    if (x.dim() == 0) return no("its rows must not be cut");
    if (!goes_with(x, src[1])) return no("the mask is not cut as the rows are");
    if (x.dim() != 2) {
        if (all_mirrored(src, 2)) return as(x);
        return no("the sinks must be mirrored");
    }
    if (unpack<ops::SoftMaxParams>(node).max_bias > 0) {
        return no("slopes depend on the number of the head, which a device does not know");
    }
    if (src[2].tensor == nullptr || src[2].split == moved(x, 0)) return as(x);
    return no("the sinks are not cut as the heads are");
}

Outcome get_rows(const Tensor&, const NodeSources& src) {
    const Split& x = src[0].split;
    if (!src[1].split.is_mirrored()) return no("the numbers of rows must be mirrored");
    if (x.is_mirrored() || (x.is_cut() && x.dim() == 0)) return as(x);
    return no("the table must be mirrored or cut along dimension 0");
}

Outcome set_rows(const Tensor&, const NodeSources& src) {
    const Split &x = src[0].split, &table = src[2].split;
    if (!src[1].split.is_mirrored()) return no("the numbers of rows must be mirrored");
    if (!(x == table)) return no("rows and table are not cut alike");
    if (x.is_mirrored() || (x.is_cut() && x.dim() != 1)) return as(x);
    return no("the table must not be cut along dimension 1");
}

Outcome rope(const Tensor&, const NodeSources& src) {
    const Split& x = src[0].split;
    if (!all_mirrored(src, 1)) return no("positions and factors must be mirrored");
    if (x.is_mirrored() || (x.is_cut() && (x.dim() == 1 || x.dim() == 3))) return as(x);
    return no("it must be mirrored or cut along dimension 1 or 3");
}

Outcome masked_triangle(const Tensor& node, const NodeSources& src) {
    const Split& x = src[0].split;
    if (x.is_cut() && x.dim() < 2) return no("its matrices must not be cut");
    return elementwise(node, src);
}

// ---- shapes ------------------------------------------------------------------------------------

Outcome concatenation(const Tensor& node, const NodeSources& src) {
    const Split &x = src[0].split, &y = src[1].split;
    if (!(x == y) || x.is_sum()) return no("its sources are not cut alike");
    const auto dim = static_cast<std::size_t>(unpack<ops::Concat::Params>(node).dim);
    if (x.is_cut() && x.dim() == dim) return no("it is joined along the dimension that is cut");
    return as(x);
}

Outcome padding(const Tensor& node, const NodeSources& src) {
    const Split& x = src[0].split;
    if (!x.is_cut()) return only_mirrored(node, src);
    const auto amount = unpack<ops::Pad::Params>(node).amount[x.dim()];
    if (amount.before == 0 && amount.after == 0) return as(x);
    return no("it is padded along the dimension that is cut");
}

Outcome rolling(const Tensor& node, const NodeSources& src) {
    const Split& x = src[0].split;
    if (!x.is_cut()) return only_mirrored(node, src);
    if (unpack<ops::Roll::Params>(node).shift[x.dim()] == 0) return as(x);
    return no("it is shifted along the dimension that is cut");
}

// ---- attention and recurrence ------------------------------------------------------------------

Outcome attention(const Tensor& node, const NodeSources& src) {
    if (all_mirrored(src)) return as(mirrored());
    const Split& q = src[0].split;
    if (!q.is_cut() || q.dim() != 2) return no("queries must be cut along dimension 2, the heads");
    for (const std::size_t i : {1, 2}) {
        const std::int64_t few = src[i].tensor->ne[2];
        if (few <= 0 || !src[i].split.is_cut() ||
            !(scaled(src[i].split, src[0].tensor->ne[2] / few) == q)) {
            return no("keys and values must be cut along dimension 2 as the queries are");
        }
    }
    if (src[3].tensor != nullptr && !(src[3].split.is_mirrored() && src[3].tensor->ne[2] == 1)) {
        return no("the mask must be mirrored and the same for all heads");
    }
    if (src[4].tensor != nullptr && !(src[4].split == moved(q, 0))) {
        return no("the sinks are not cut as the heads are");
    }
    if (unpack<ops::FlashAttnExt::Params>(node).max_bias > 0) {
        return no("slopes depend on the number of the head, which a device does not know");
    }
    return as(moved(q, 1));
}

Outcome sliding_product(const Tensor&, const NodeSources& src) {
    const Split& x = src[0].split;
    if (x.is_mirrored() && src[1].split.is_mirrored()) return as(x);
    if (x.is_cut() && x.dim() == 1 && src[1].split == x) return as(moved(x, 0));
    return no("signal and kernel must be mirrored or cut alike along dimension 1");
}

Outcome delta_net(const Tensor&, const NodeSources& src) {
    if (all_mirrored(src)) return as(mirrored());
    const Split& v = src[2].split;
    if (!v.is_cut() || v.dim() != 1) return no("values must be cut along dimension 1, the heads");
    for (const std::size_t i : {0, 1, 3, 4}) {
        if (!(src[i].split == v)) return no("its sources are not cut alike along the heads");
    }
    if (!(src[5].split == moved(v, 2))) return no("the states are not cut as the heads are");
    return as(moved(scaled(v, src[2].tensor->ne[0]), 0));
}

// ---- the table ---------------------------------------------------------------------------------

struct Row {
    Op op;
    Rule rule;
};

/// Ops without a row are computed on mirrored tensors only.
constexpr Row kRules[] = {
    {GGML_OP_DUP, copied},
    {GGML_OP_CPY, copied},
    {GGML_OP_CONT, copied},
    {GGML_OP_ADD, addition},
    {GGML_OP_ADD_ID, addition_of_rows},
    {GGML_OP_SUB, elementwise},
    {GGML_OP_MUL, elementwise},
    {GGML_OP_DIV, elementwise},
    {GGML_OP_SQR, elementwise},
    {GGML_OP_SQRT, elementwise},
    {GGML_OP_LOG, elementwise},
    {GGML_OP_SIN, elementwise},
    {GGML_OP_COS, elementwise},
    {GGML_OP_SCALE, elementwise},
    {GGML_OP_CLAMP, elementwise},
    {GGML_OP_LEAKY_RELU, elementwise},
    {GGML_OP_UNARY, elementwise},
    {GGML_OP_SILU_BACK, elementwise},
    {GGML_OP_FILL, elementwise},
    {GGML_OP_GLU, gated},
    {GGML_OP_REPEAT, repeat},
    {GGML_OP_MUL_MAT, product},
    {GGML_OP_MUL_MAT_ID, product_of_experts},
    {GGML_OP_NORM, rows},
    {GGML_OP_RMS_NORM, rows},
    {GGML_OP_L2_NORM, rows},
    {GGML_OP_SUM_ROWS, rows},
    {GGML_OP_MEAN, rows},
    {GGML_OP_CUMSUM, rows},
    {GGML_OP_ARGSORT, rows},
    {GGML_OP_TOP_K, rows},
    {GGML_OP_ARGMAX, row_numbers},
    {GGML_OP_SOFT_MAX, soft_max},
    {GGML_OP_GET_ROWS, get_rows},
    {GGML_OP_SET_ROWS, set_rows},
    {GGML_OP_ROPE, rope},
    {GGML_OP_ROPE_BACK, rope},
    {GGML_OP_DIAG_MASK_INF, masked_triangle},
    {GGML_OP_DIAG_MASK_ZERO, masked_triangle},
    {GGML_OP_CONCAT, concatenation},
    {GGML_OP_PAD, padding},
    {GGML_OP_ROLL, rolling},
    {GGML_OP_FLASH_ATTN_EXT, attention},
    {GGML_OP_SSM_CONV, sliding_product},
    {GGML_OP_GATED_DELTA_NET, delta_net},
};

Rule rule_of(Op op) {
    static const std::array<Rule, GGML_OP_COUNT> rules = [] {
        std::array<Rule, GGML_OP_COUNT> all{};
        all.fill(only_mirrored);
        for (const Row& row : kRules) all[static_cast<std::size_t>(row.op)] = row.rule;
        return all;
    }();
    const auto index = static_cast<std::size_t>(op);
    return index < rules.size() ? rules[index] : only_mirrored;
}

}  // namespace

Result<Split> derive(const Tensor& node, const NodeSources& sources, std::size_t devices) {
    Outcome outcome = rule_of(node.op)(node, sources);
    if (outcome.objection.empty()) return std::move(outcome.split);
    std::string words = text("node ", heddle::describe(node), ", ", describe_op_of(node), ": ",
                             outcome.objection, "; its sources are ");
    for (std::size_t i = 0; i < sources.size(); ++i) {
        if (sources[i].tensor == nullptr) continue;
        words += text(i > 0 ? ", " : "", heddle::describe(*sources[i].tensor), ' ',
                      describe(sources[i].split, devices));
    }
    return Error{Errc::unsupported, std::move(words)};
}

bool takes_mirrored_only(Op op) { return rule_of(op) == only_mirrored; }

}  // namespace heddle::meta
