#include "runtime/meta/sums.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "ggml/op_list.h"
#include "heddle/backend/nodes.hpp"
#include "ops/catalogue.hpp"
#include "ops/scale.hpp"
#include "runtime/buffer.hpp"

namespace heddle::meta {
namespace {

/// Sums are not put off further than this: looking ahead costs time for each of them.
constexpr std::size_t kLookAhead = 64;
constexpr int kForever = std::numeric_limits<int>::max();

/// Whether the tensor may be read after the graph was computed.
bool is_kept(const Tensor& tensor) {
    const Buffer* const buffer = root_buffer(tensor);
    return (tensor.flags & GGML_TENSOR_FLAG_OUTPUT) != 0 || buffer == nullptr ||
           buffer->usage != GGML_BACKEND_BUFFER_USAGE_COMPUTE;
}

/// Follows one sum from node to node, as long as what is done to it can be done to its addends.
class Follower {
public:
    Follower(const Graph& graph, States& states) : graph_(graph), states_(states) {}

    Result<Sum> follow(std::size_t first) {
        Sum sum{first, first, false};
        const auto nodes = nodes_of(graph_);
        join(*nodes[first]);
        members_.push_back(first);
        const std::size_t end = std::min(nodes.size(), first + kLookAhead);
        for (std::size_t at = first + 1; at < end; ++at) {
            const Tensor& node = *nodes[at];
            HEDDLE_TRY_ASSIGN(const Split split, states_.of(node));
            const std::size_t uses = uses_of_members(node);
            if (uses == 0) {
                if (split.is_sum()) break;  // a sum of its own
                continue;
            }
            HEDDLE_TRY_ASSIGN(const NodeSources sources, states_.sources_of(node));
            bool has_addend = false;
            if (!is_linear(node, sources, has_addend)) break;
            for (const Tensor* source : node.src) {
                if (const auto found = left_.find(source); found != left_.end()) spend(*found);
            }
            join(node);
            members_.push_back(at);
            saw_addend_ |= has_addend;
            if (is_all_in(node)) {
                sum.last = at;
                sum.has_addend = saw_addend_;
            }
        }
        return sum;
    }

    /// Positions of the nodes that the sum went through, in order.
    const std::vector<std::size_t>& members() const { return members_; }

private:
    using Left = std::unordered_map<const Tensor*, int>;

    void join(const Tensor& node) {
        const int uses = use_count(graph_, node);
        left_[&node] = is_kept(node) || uses == 0 ? kForever : uses;
    }

    static void spend(Left::value_type& member) {
        if (member.second != kForever) --member.second;
    }

    std::size_t uses_of_members(const Tensor& node) const {
        return static_cast<std::size_t>(
            std::ranges::count_if(node.src, [&](const Tensor* s) { return left_.contains(s); }));
    }

    /// Whether the whole sum has gone into `node` and is used nowhere else.
    bool is_all_in(const Tensor& node) const {
        if (plugin::computes_nothing(node)) return false;
        return std::ranges::all_of(
            left_, [&](const auto& member) { return member.first == &node || member.second == 0; });
    }

    bool is_linear(const Tensor& node, const NodeSources& src, bool& has_addend) const {
        const bool first = left_.contains(node.src[0]);
        const bool second = node.src[1] != nullptr && left_.contains(node.src[1]);
        const auto is_factor = [&](std::size_t i) { return src[i].split.is_mirrored(); };
        switch (node.op) {
            case GGML_OP_RESHAPE:
            case GGML_OP_VIEW:
            case GGML_OP_PERMUTE:
            case GGML_OP_TRANSPOSE:
                return first;
            case GGML_OP_ADD:
            case GGML_OP_ADD_ID:
                has_addend = first && src[1].split.is_sum();
                return has_addend || (node.op == GGML_OP_ADD && first && second);
            case GGML_OP_SUB:
                return first && second;
            case GGML_OP_MUL:
                return first != second && is_factor(first ? 1 : 0);
            case GGML_OP_DIV:
                return first && !second && is_factor(1);
            case GGML_OP_SCALE:
                return unpack<ops::Scale::Params>(node).bias == 0;
            default:
                return false;
        }
    }

    const Graph& graph_;
    States& states_;
    Left left_;  ///< of each node of the sum: uses that are still to come
    std::vector<std::size_t> members_;
    bool saw_addend_ = false;
};

/// Whether a node adds something that is an addend on each device.
bool takes_addend(const Tensor& node, const NodeSources& sources) {
    return (node.op == GGML_OP_ADD || node.op == GGML_OP_ADD_ID) && sources[1].split.is_sum();
}

}  // namespace

Result<Sums> find_sums(const Graph& graph, States& states) {
    Sums sums;
    const auto nodes = nodes_of(graph);
    std::size_t covered = 0;  // nodes before it are in the latest sum, or before it
    for (std::size_t at = 0; at < nodes.size(); ++at) {
        HEDDLE_TRY_ASSIGN(const Split split, states.of(*nodes[at]));
        if (!split.is_sum() || nodes[at]->op == GGML_OP_NONE) continue;
        HEDDLE_TRY_ASSIGN(const NodeSources sources, states.sources_of(*nodes[at]));
        if (takes_addend(*nodes[at], sources)) {
            if (at < covered) continue;
            return failure(Errc::unsupported, "node ", heddle::describe(*nodes[at]), ", ",
                           describe_op_of(*nodes[at]), ": the sum ",
                           heddle::describe(*nodes[at]->src[0]),
                           " is used elsewhere too, so that it is put together before the addend ",
                           heddle::describe(*nodes[at]->src[1]), " can go into it");
        }
        Follower follower(graph, states);
        HEDDLE_TRY_ASSIGN(const Sum sum, follower.follow(at));
        for (const std::size_t member : follower.members()) {
            if (member < sum.last) sums.pending.insert(nodes[member]);
        }
        covered = sum.last + 1;
        sums.all.push_back(sum);
    }
    return sums;
}

}  // namespace heddle::meta
