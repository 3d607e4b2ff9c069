#include "backends/cpu/fusion.hpp"

#include <algorithm>
#include <array>

#include "backends/cpu/kernels/fused/bound_steps.hpp"
#include "backends/cpu/kernels/fused/cut.hpp"
#include "ggml/op_list.h"
#include "ops/custom.hpp"

namespace heddle::cpu {
namespace {

// ---- memory ------------------------------------------------------------------------------------

/// Memory that a node touches, and how it is cut.
struct Access {
    const Tensor* root;  ///< null: addresses; else bytes of a tensor that has no memory yet
    std::uintptr_t begin, end;
    std::size_t pitch;  ///< bytes from one unit to the next; 0: it is not cut
    std::size_t span;   ///< bytes of a unit
    bool writes;
};

Access access_of(const Tensor& t, const Cut& cut, bool writes) {
    Access access{};
    if (t.data != nullptr) {
        access.begin = reinterpret_cast<std::uintptr_t>(t.data);
    } else {
        access.root = t.view_src != nullptr ? t.view_src : &t;
        access.begin = t.view_src != nullptr ? t.view_offs : 0;
    }
    const std::size_t bytes = byte_size(t);
    access.end = access.begin + bytes;
    access.writes = writes;
    if (cut.kind == Cut::Kind::rows || cut.kind == Cut::Kind::dimension) {
        access.pitch = cut.pitch;
        access.span = unit_span(t, cut, bytes);
    }
    return access;
}

bool overlap(const Access& a, const Access& b) {
    return a.root == b.root && a.begin < b.end && b.begin < a.end;
}

/// What a step touches.
class Accesses {
public:
    void list(const Tensor& node, const NodeCut& cut = {}) {
        count_ = 0;
        add(access_of(node, cut.result, true));
        for (int slot = 0; slot < kMaxSources; ++slot) {
            if (node.src[slot] == nullptr) continue;
            static constexpr Cut whole{};
            add(access_of(*node.src[slot], slot < kCutSources ? cut.source[slot] : whole, false));
        }
    }

    /// Whether nothing that one of both writes is anything of the other's, but for what
    /// `may_overlap(a, b)` lets pass.
    template <class MayOverlap>
    bool are_apart_from(const Accesses& other, MayOverlap may_overlap) const {
        for (std::size_t i = 0; i < count_; ++i) {
            for (std::size_t k = 0; k < other.count_; ++k) {
                const Access &a = accesses_[i], &b = other.accesses_[k];
                if ((a.writes || b.writes) && overlap(a, b) && !may_overlap(a, b)) {
                    return false;
                }
            }
        }
        return true;
    }

    bool are_apart_from(const Accesses& other) const {
        return are_apart_from(other, [](const Access&, const Access&) { return false; });
    }

private:
    void add(const Access& access) { accesses_[count_++] = access; }

    std::array<Access, kMaxSources + 1> accesses_;
    std::size_t count_ = 0;
};

/// Whether units of both overlap only where they have the same number.
bool same_units(const Access& a, const Access& b) {
    return a.pitch != 0 && a.pitch == b.pitch && a.begin == b.begin && a.span <= a.pitch &&
           b.span <= b.pitch;
}

/// Ops that write more than their result: caller's functions, and steps of an optimiser.
bool may_write_operands(Op op) {
    return ops::runs_callers_function(op) || op == GGML_OP_OPT_STEP_ADAMW ||
           op == GGML_OP_OPT_STEP_SGD;
}

// ---- rows --------------------------------------------------------------------------------------

bool is(const Tensor* source, const Tensor& node) {
    return source == &node || (source != nullptr && source->view_src == &node);
}

bool takes_result_of(const Tensor& node, const Tensor& before) {
    return is(node.src[0], before) || is(node.src[1], before);
}

bool may_follow(const Step& step, const Step& before) {
    return step.kernel != nullptr && may_be_cut(step.node->op) &&
           takes_result_of(*step.node, *before.node);
}

/// Bytes of scratch memory for part of a step, computed by one task.
std::size_t scratch_of_part(const Step& step) {
    if (step.scratch == 0) return 0;
    return step.kernel->demand(*step.node, 1).scratch;
}

/// Results that are smaller stay in a cache anyway, and kernels are faster with all rows at once.
constexpr std::size_t kLeastBytes = std::size_t{8} << 20;

/// Bytes of results that go through all steps at a time: they stay in L2, or near,
/// and are many against what beginning a kernel costs.
constexpr std::size_t kBytesAtATime = 512 * 1024;

bool may_begin_rows(const Step& step, bool always) {
    if (step.kernel == nullptr) return false;
    // What nearly no step is comes first. ROPE and others have results as large as operand 0.
    const Tensor* x = step.node->src[0];
    const bool is_large =
        x != nullptr && static_cast<std::size_t>(row_count(*x)) * x->nb[1] >= kLeastBytes;
    return (is_large || always) && may_be_cut(step.node->op);
}

std::int64_t units_at_a_time(const NodeCut& cut, std::size_t steps) {
    const std::size_t bytes = std::max<std::size_t>(1, cut.result.pitch * steps);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(kBytesAtATime / bytes));
}

/// Binds what goes row by row with the first of `steps`. Gives the number of steps that are done
/// with.
std::size_t bind_rows(std::span<Step> steps, bool always) {
    if (steps.size() < 2 || !may_follow(steps[1], steps[0])) return 1;
    const NodeCut first = cut_of(*steps[0].node);
    if (first.units == 0) return 1;
    std::array<Accesses, kMostBound> known;
    known[0].list(*steps[0].node, first);
    int tasks = steps[0].tasks;
    std::size_t count = 1;
    for (; count < std::min(steps.size(), kMostBound); ++count) {
        const Step& step = steps[count];
        if (!may_follow(step, steps[count - 1])) break;
        const NodeCut cut = cut_of(*step.node);
        if (cut.units != first.units) break;
        const int wanted = std::max(tasks, step.tasks);
        if (wanted > 1 && first.units < 2 * wanted) break;  // the kernels cut rows too
        known[count].list(*step.node, cut);
        const bool fits =
            std::all_of(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(count),
                        [&](const Accesses& before) {
                            return before.are_apart_from(known[count], same_units);
                        });
        if (!fits) break;
        tasks = wanted;
    }
    if (count == 1) return 1;
    std::size_t scratch = 0;
    for (Step& step : steps.first(count)) {
        scratch = std::max(scratch, scratch_of_part(step));
        step.tasks = tasks;
        step.scratch = 0;
        step.bond = Bond::rows;
    }
    steps[0].bond = Bond::none;
    steps[0].units = always ? 3 : units_at_a_time(first, count);
    steps[0].scratch = static_cast<std::size_t>(tasks) * aligned_scratch(scratch);
    return count;
}

// ---- products ----------------------------------------------------------------------------------

/// How far ahead products of the same activations are looked for. Between those for queries, keys
/// and values are biases, norms, ROPE and stores.
constexpr std::size_t kReach = 16;

bool is_product(const Step& step) {
    return step.kernel != nullptr &&
           (step.node->op == GGML_OP_MUL_MAT || step.node->op == GGML_OP_MUL_MAT_ID);
}

/// Whether `moved` could be computed before all of `passed`, or at the same time.
bool is_apart(const Step& moved, std::span<const Step> passed) {
    Accesses ours, theirs;
    ours.list(*moved.node);
    for (const Step& other : passed) {
        if (may_write_operands(other.node->op)) return false;
        theirs.list(*other.node);
        if (!ours.are_apart_from(theirs)) return false;
    }
    return true;
}

/// Brings products together that read what the first of `steps` reads.
std::size_t bind_products(std::span<Step> steps) {
    const Tensor& first = *steps[0].node;
    std::size_t count = 1;
    for (std::size_t i = 1; i < std::min(steps.size(), kReach) && count < kMostBeside; ++i) {
        const Tensor& node = *steps[i].node;
        if (node.op != first.op || node.src[1] != first.src[1] || steps[i].kernel == nullptr ||
            steps[i].tasks != steps[0].tasks || !is_apart(steps[i], steps.first(i))) {
            continue;
        }
        const auto from = steps.begin() + static_cast<std::ptrdiff_t>(i);
        std::rotate(steps.begin() + static_cast<std::ptrdiff_t>(count), from, from + 1);
        steps[count++].bond = Bond::beside;
    }
    return count;
}

}  // namespace

void fuse(Plan& plan, bool always) {
    std::span<Step> left = plan.steps;
    while (!left.empty()) {
        std::size_t done = 1;
        if (is_product(left[0])) {
            // With one task there is no barrier to save.
            if (left[0].tasks > 1 || always) done = bind_products(left);
        } else if (may_begin_rows(left[0], always)) {
            done = bind_rows(left, always);
        }
        if (done > 1) {
            std::size_t scratch = 0;
            for (const Step& step : left.first(done)) scratch += scratch_of(step);
            plan.scratch = std::max(plan.scratch, scratch);
        }
        left = left.subspan(done);
    }
}

}  // namespace heddle::cpu
