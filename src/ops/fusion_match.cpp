#include "ops/fusion_match.hpp"

#include <algorithm>
#include <bitset>

#include "ggml/op_list.h"
#include "impl/view_ops.h"
#include "ops/catalogue.hpp"
#include "ops/glu.hpp"
#include "ops/unary.hpp"

namespace heddle {
namespace {

/// Which options of a pattern are taken, a bit for each.
using Options = std::uint32_t;

/// The number of the function that UNARY or GLU apply.
std::int32_t function_of(const Tensor& node) {
    return node.op == GGML_OP_GLU ? unpack<ops::Glu::Params>(node).function
                                  : unpack<ops::Unary::Params>(node).function;
}

bool is_member(const FusionMember& member, const Tensor& node) {
    if (node.op != member.op) return false;
    if (member.functions == 0) return true;
    const std::int32_t function = function_of(node);
    return function >= 0 && function < 32 && (member.functions >> function & 1) != 0;
}

/// How many sources every node of an op has, at least.
std::size_t operand_count(Op op) {
    static const auto counts = [] {
        std::array<std::uint8_t, GGML_OP_COUNT> all{};
        for (const OpInfo& info : all_ops()) {
            const auto needed = std::ranges::find_if(
                info.sources, [](std::string_view role) { return role.ends_with('?'); });
            all[static_cast<std::size_t>(info.id)] =
                static_cast<std::uint8_t>(needed - info.sources.begin());
        }
        return all;
    }();
    return counts[static_cast<std::size_t>(op)];
}

/// Nodes may come from anywhere; those without their operands are not looked at any further.
bool has_operands(const Tensor& node) {
    const std::size_t count = std::min<std::size_t>(operand_count(node.op), kMaxSources);
    return std::find(node.src, node.src + count, nullptr) == node.src + count;
}

/// One attempt at one place of a list.
class Attempt {
public:
    Attempt(std::span<Tensor* const> nodes, std::size_t first, const TensorUses& uses)
        : nodes_(nodes), uses_(uses) {
        group_.first = group_.last = static_cast<std::int32_t>(first);
    }

    bool match(const FusionPattern& pattern, Options options, bool any_tokens) {
        begin(pattern);
        for (std::size_t i = 0; i < pattern.members.size(); ++i) {
            const FusionMember& member = pattern.members[i];
            const bool absent = member.option != 0 && (options >> (member.option - 1) & 1) == 0;
            if (!(absent ? pass(member) : take(member))) return false;
        }
        return finish(any_tokens);
    }

    bool match_run(const FusionPattern& pattern, std::size_t length) {
        begin(pattern);
        const FusionMember& member = pattern.members[0];
        for (std::size_t i = 0; i < length; ++i) {
            if (!take(i == 0
                          ? FusionMember{.op = member.op, .reads = {kReadsNothing, kReadsNothing}}
                          : member)) {
                return false;
            }
            if (i > 0 && found_[i]->src[0] != found_[i - 1]) return false;
        }
        return finish(true);
    }

    const FusionGroup& group() const { return group_; }

private:
    void begin(const FusionPattern& pattern) {
        pattern_ = group_.pattern = &pattern;
        group_.last = group_.first;
        group_.count = 0;
        group_.outputs = 0;
        next_ = static_cast<std::size_t>(group_.first);
    }

    /// Puts what an absent member reads in its place.
    bool pass(const FusionMember& member) {
        const std::size_t i = group_.count++;
        found_[i] = nullptr;
        group_.offsets[i] = -1;
        stands_for_[i] = stand_in(member.reads[0], i);
        return true;
    }

    /// The node of member `number`, or of the one it stands for, as member `reader` sees it.
    std::int8_t stand_in(std::int8_t number, std::size_t reader) const {
        if (number == kReadsPrevious) number = static_cast<std::int8_t>(reader) - 1;
        return number < 0 ? number : stands_for_[static_cast<std::size_t>(number)];
    }

    bool take(const FusionMember& member) {
        const std::size_t i = group_.count;
        if (pattern_->skips_views && i > 0) {
            while (next_ < nodes_.size() && !is_member(member, *nodes_[next_]) &&
                   ggml_op_is_empty(nodes_[next_]->op)) {
                ++next_;
            }
        }
        if (next_ >= nodes_.size() || next_ - static_cast<std::size_t>(group_.first) > INT16_MAX) {
            return false;
        }
        const Tensor& node = *nodes_[next_];
        if (!is_member(member, node) || (node.flags & GGML_TENSOR_FLAG_COMPUTE) == 0) return false;
        if (!has_operands(node)) return false;
        for (const std::int8_t number : member.reads) {
            const std::int8_t read = i == 0 ? kReadsNothing : stand_in(number, i);
            if (read >= 0 && !reads(node, *found_[static_cast<std::size_t>(read)])) return false;
        }
        found_[i] = &node;
        stands_for_[i] = static_cast<std::int8_t>(i);
        group_.offsets[i] =
            static_cast<std::int16_t>(next_ - static_cast<std::size_t>(group_.first));
        group_.last = static_cast<std::int32_t>(next_++);
        group_.outputs |= static_cast<std::uint16_t>(member.is_output ? 1u << i : 0u);
        ++group_.count;
        return true;
    }

    /// Directly, or through a view where the pattern allows it.
    bool reads(const Tensor& reader, const Tensor& tensor) const {
        return std::ranges::any_of(reader.src, [&](const Tensor* source) {
            if (source == &tensor) return true;
            return pattern_->skips_views && source != nullptr && source->view_src == &tensor;
        });
    }

    bool finish(bool any_tokens) {
        std::size_t last = group_.count;
        while (found_[--last] == nullptr) {
        }
        group_.outputs |= static_cast<std::uint16_t>(1u << last);
        if (pattern_->one_token && !any_tokens && !is_one_token()) return false;
        for (std::size_t i = 0; i < last; ++i) {
            if (found_[i] != nullptr && !group_.is_output(i) && !is_hidden(i)) return false;
        }
        if (pattern_->objection == nullptr) return true;
        std::fill(found_.begin() + group_.count, found_.end(), nullptr);
        return pattern_->objection(found_).empty();
    }

    bool is_one_token() const {
        for (std::size_t i = 0; i < group_.count; ++i) {
            if (found_[i] == nullptr) continue;
            const Tensor& node = *found_[i];
            if (node.op == GGML_OP_MUL_MAT && node.ne[1] != 1) return false;
            if (node.op == GGML_OP_MUL_MAT_ID && node.ne[2] != 1) return false;
        }
        return true;
    }

    /// Whether no other node reads the result of a member.
    bool is_hidden(std::size_t member) const {
        const Tensor& node = *found_[member];
        if ((node.flags & GGML_TENSOR_FLAG_OUTPUT) != 0) return false;
        if (pattern_->rule == FusionRule::chain) {
            if (node.view_src != nullptr) return false;
            std::size_t next = member + 1;
            while (found_[next] == nullptr) ++next;
            if (!same_shape(node, *found_[next])) return false;
            return uses_.is_all(node, 1);
        }
        if (node.view_src != nullptr && node.view_src->op != GGML_OP_NONE &&
            !is_inside(*node.view_src)) {
            return false;
        }
        return uses_.is_all(node, uses_inside(node));
    }

    bool is_inside(const Tensor& tensor) const {
        const auto end = found_.begin() + group_.count;
        return std::find(found_.begin(), end, &tensor) != end;
    }

    int uses_inside(const Tensor& tensor) const {
        std::ptrdiff_t uses = 0;
        for (std::size_t i = 0; i < group_.count; ++i) {
            if (found_[i] != nullptr) uses += std::ranges::count(found_[i]->src, &tensor);
        }
        return static_cast<int>(uses);
    }

    std::span<Tensor* const> nodes_;
    const TensorUses& uses_;
    const FusionPattern* pattern_ = nullptr;
    FusionGroup group_;
    std::size_t next_ = 0;
    FusionNodes found_{};
    std::array<std::int8_t, kMostFused> stands_for_{};  ///< of each member; itself if it is there
};

Options all_options(const FusionPattern& pattern) {
    std::uint8_t most = 0;
    for (const FusionMember& member : pattern.members) most = std::max(most, member.option);
    return (Options{1} << most) - 1;
}

using OpSet = std::bitset<GGML_OP_COUNT>;

/// A row with what is asked of it at every node.
struct Row {
    const FusionPattern* pattern;
    std::vector<Options> choices;  ///< longest first
    OpSet followers;               ///< ops of the node behind the first one
};

/// Rows whose first member has the same op. One look at the next node spares most attempts.
struct Start {
    std::vector<Row> rows;
    OpSet followers, followers_of_peers;
};

OpSet followers_of(const FusionPattern& pattern) {
    OpSet ops;
    if (pattern.longest_run != 0) ops.set(static_cast<std::size_t>(pattern.members[0].op));
    for (std::size_t i = 1; i < pattern.members.size(); ++i) {
        ops.set(static_cast<std::size_t>(pattern.members[i].op));
        if (pattern.members[i].option == 0) break;
    }
    if (pattern.skips_views) {
        for (int op = 0; op < GGML_OP_COUNT; ++op) {
            if (ggml_op_is_empty(static_cast<Op>(op))) ops.set(static_cast<std::size_t>(op));
        }
    }
    return ops;
}

std::size_t length_with(const FusionPattern& pattern, Options options) {
    return static_cast<std::size_t>(std::ranges::count_if(pattern.members, [&](const auto& member) {
        return member.option == 0 || (options >> (member.option - 1) & 1) != 0;
    }));
}

/// The rows by the op of their first member, which no option can take away.
const std::array<Start, GGML_OP_COUNT>& starts_by_op() {
    static const auto starts = [] {
        std::array<Start, GGML_OP_COUNT> by_op;
        for (const FusionPattern& pattern : fusion_patterns()) {
            Row row{&pattern, {}, followers_of(pattern)};
            for (Options options = 0; options <= all_options(pattern); ++options) {
                row.choices.push_back(options);
            }
            std::ranges::stable_sort(row.choices, std::greater{}, [&](Options options) {
                return length_with(pattern, options);
            });
            Start& start = by_op[static_cast<std::size_t>(pattern.members[0].op)];
            start.followers |= row.followers;
            if (pattern.peer != 0) start.followers_of_peers |= row.followers;
            start.rows.push_back(std::move(row));
        }
        return by_op;
    }();
    return starts;
}

bool try_row(const Row& row, Attempt& attempt, bool any_tokens) {
    for (std::size_t length = row.pattern->longest_run; length >= 2; --length) {
        if (attempt.match_run(*row.pattern, length)) return true;
    }
    if (row.pattern->longest_run != 0) return false;
    return std::ranges::any_of(row.choices, [&](Options options) {
        return attempt.match(*row.pattern, options, any_tokens);
    });
}

}  // namespace

std::optional<FusionGroup> match_fusion(std::span<Tensor* const> nodes, std::size_t first,
                                        const TensorUses& uses, FusionSearch search) {
    if (first + 1 >= nodes.size()) return {};
    const auto op = static_cast<std::size_t>(nodes[first]->op);
    const auto next = static_cast<std::size_t>(nodes[first + 1]->op);
    if (op >= GGML_OP_COUNT || next >= GGML_OP_COUNT) return {};
    const bool of_peers = search.rows == FusionSearch::Rows::of_peers;
    const Start& start = starts_by_op()[op];
    if (!(of_peers ? start.followers_of_peers : start.followers)[next]) return {};
    Attempt attempt(nodes, first, uses);
    for (const Row& row : start.rows) {
        if (!row.followers[next] || (of_peers && row.pattern->peer == 0)) continue;
        if (try_row(row, attempt, search.any_tokens)) return attempt.group();
    }
    return {};
}

void find_fusion_groups(std::span<Tensor* const> nodes, const TensorUses& uses, FusionSearch search,
                        std::vector<FusionGroup>& groups) {
    for (std::size_t i = 0; i < nodes.size();) {
        const auto group = match_fusion(nodes, i, uses, search);
        if (group) groups.push_back(*group);
        i = group ? static_cast<std::size_t>(group->last) + 1 : i + 1;
    }
}

std::string to_text(const FusionGroup& group) {
    return text(group.pattern->name, ": ", group.first, " to ", group.last);
}

}  // namespace heddle
