#include "runtime/alloc/lifetimes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/prefetch.hpp"
#include "ggml/op_list.h"
#include "ops/catalogue.hpp"
#include "runtime/alloc/linear.hpp"
#include "runtime/buffer_type.hpp"

namespace heddle::alloc {
namespace {

/// The catalogue's answer for every op, where a look costs nothing.
bool may_reuse(const Tensor& node) {
    static const std::array<bool, GGML_OP_COUNT> answers = [] {
        std::array<bool, GGML_OP_COUNT> may{};
        for (const OpInfo& op : all_ops()) {
            may[static_cast<std::size_t>(op.id)] = op.may_reuse_source;
        }
        return may;
    }();
    const auto op = static_cast<std::size_t>(node.op);
    return op < answers.size() && answers[op];
}

/// Whether the caller gave it memory. A view has that of its root, whatever its own fields say.
bool is_external(const Tensor& tensor) {
    const Tensor& root = tensor.view_src != nullptr ? *tensor.view_src : tensor;
    return root.data != nullptr || root.buffer != nullptr;
}

/// Type, extents and strides in one comparison each: `ne` and `nb` lie side by side.
bool equal_layout(const Tensor& a, const Tensor& b) {
    return a.type == b.type && std::memcmp(a.ne, b.ne, sizeof a.ne) == 0 &&
           std::memcmp(a.nb, b.nb, sizeof a.nb) == 0;
}

/// Tensors made one after the other lie 368 bytes apart and get slots beside each other, which
/// caches like; stretches of 16 KiB are scattered, so that separate arenas do not pile up.
std::size_t home_slot(const Tensor* tensor, std::size_t mask) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor);
    const std::uint64_t stretch = (address >> 14) * 0x9E3779B97F4A7C15u;
    return ((stretch >> 32 << 6) + ((address >> 8) & 63)) & mask;
}

/// Graphs up to that many nodes stay in the caches together with the tables here.
constexpr std::size_t kFewNodes = 1 << 12;

std::int32_t id_at(std::span<const std::int32_t> ids, std::size_t index) {
    return ids.empty() ? 0 : ids[index];
}

}  // namespace

/// Nodes first, then what they point to, then where it is in the tables: each step needs what the
/// one before asked for. Sources behind a gap are few, and done without.
[[gnu::always_inline]] inline void LifetimeFinder::prefetch_ahead(std::span<Tensor* const> nodes,
                                                                  std::size_t i) const {
    const std::size_t mask = slots_.size() - 1;
    prefetch(nodes[i + kReadAhead]);
    const Tensor& soon = *nodes[i + kReadAhead / 2];
    prefetch_line(&slots_[home_slot(&soon, mask)]);
    if (soon.view_src != nullptr) prefetch_line(&soon.view_src->data);
    for (const Tensor* source : soon.src) {
        if (source == nullptr) break;
        prefetch_place(source);
        prefetch_line(&slots_[home_slot(source, mask)]);
    }
    for (const Tensor* source : nodes[i + kReadAhead / 4]->src) {
        if (source == nullptr) break;
        if (source->view_src != nullptr) prefetch_place(source->view_src);
        const std::uint32_t slot = slots_[home_slot(source, mask)];
        if (slot != 0) prefetch_line(&entries_[slot - 1]);
    }
}

Result<const Lifetimes*> LifetimeFinder::find(const Graph& graph, const Assignment& assignment) {
    const auto nodes = nodes_of(graph);
    const auto leafs = leafs_of(graph);
    assignment_ = &assignment;
    clear(nodes.size() + leafs.size());

    for (std::size_t i = 0; i < leafs.size(); ++i) {
        if (i + kReadAhead < leafs.size()) prefetch_place(leafs[i + kReadAhead]);
        HEDDLE_TRY(scan_leaf(*leafs[i], id_at(assignment.leafs, i)));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto now = static_cast<std::int32_t>(i + 1);
        if (nodes.size() > kFewNodes && i + kReadAhead < nodes.size()) prefetch_ahead(nodes, i);
        HEDDLE_TRY(scan_node(*nodes[i], id_at(assignment.nodes, i), now));
    }
    finish_scan(static_cast<std::int32_t>(nodes.size() + 1));
    if (std::ranges::count(assignment.fuses, 0) != std::ssize(assignment.fuses)) find_groups(nodes);
    for (const Group& group : groups_) hold_sources(group);
    return settle_all();
}

Result<const Lifetimes*> LifetimeFinder::find_again(const Assignment& assignment,
                                                    const std::vector<bool>& steps) {
    assignment_ = &assignment;
    result_.tenants.resize(scanned_blocks_);
    for (Entry& entry : entries_) {
        entry.held = entry.apart = 0;
        // Others took over the blocks that the first pass made, one for each of its tenants.
        const auto block = static_cast<std::size_t>(entry.block);
        const bool is_first = entry.block >= 0 && block < scanned_blocks_ &&
                              result_.tenants[block].tensor == entry.tensor;
        if (!is_first) entry.block = -1;
    }
    result_.blocks.resize(scanned_blocks_);
    for (std::size_t i = 0; i < std::min(steps.size(), groups_.size()); ++i) {
        if (steps[i]) hold_sources(groups_[i]);
    }
    return settle_all();
}

// ---- tensors by address ------------------------------------------------------------------------

void LifetimeFinder::clear(std::size_t tensors) {
    entries_.clear();
    sources_.clear();
    steps_.clear();
    groups_.clear();
    result_.blocks.clear();
    result_.tenants.clear();
    result_.views.clear();
    entries_.reserve(tensors);
    steps_.reserve(tensors);
    slots_.assign(std::bit_ceil(2 * tensors + 64), 0);
}

/// The entry of `tensor`, and of its root before it, made where there is none.
std::int32_t LifetimeFinder::enter(Tensor& tensor) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = home_slot(&tensor, mask);
    for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
        if (entries_[slots_[slot] - 1].tensor == &tensor) {
            return static_cast<std::int32_t>(slots_[slot] - 1);
        }
    }
    // Views of views are flattened when they are made, so this goes one step at most.
    const std::int32_t root = tensor.view_src != nullptr ? enter(*tensor.view_src) : -1;
    const auto index = static_cast<std::int32_t>(entries_.size());
    Entry entry;
    entry.tensor = &tensor;
    entry.root = root < 0 ? index : root;
    entries_.push_back(entry);
    if (2 * entries_.size() > slots_.size()) {
        grow();
    } else {
        insert(index);
    }
    if ((tensor.flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
        entries_[static_cast<std::size_t>(entry.root)].kept = true;
    }
    return index;
}

void LifetimeFinder::insert(std::int32_t entry) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = home_slot(entries_[static_cast<std::size_t>(entry)].tensor, mask);
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<std::uint32_t>(entry) + 1;
}

/// Sources and roots that are in no list of the graph may outnumber those that are.
void LifetimeFinder::grow() {
    slots_.assign(2 * slots_.size(), 0);
    for (std::size_t i = 0; i < entries_.size(); ++i) insert(static_cast<std::int32_t>(i));
}

// ---- first pass: who reads what, and when for the last time ------------------------------------

Result<> LifetimeFinder::scan_leaf(Tensor& leaf, std::int32_t arena) {
    note_view(leaf);
    if (leaf.view_src != nullptr || is_external(leaf)) return ok();
    Entry& entry = entries_[static_cast<std::size_t>(enter(leaf))];
    if (entry.block >= 0) return ok();
    return begin_block(entry, arena, 0);
}

Result<> LifetimeFinder::scan_node(Tensor& node, std::int32_t arena, std::int32_t now) {
    Step step;
    note_view(node);
    HEDDLE_TRY(scan_sources(node, arena, now, step));
    step.sources_end = static_cast<std::uint32_t>(sources_.size());
    if (!is_external(node)) {
        step.entry = enter(node);
        Entry& entry = entries_[static_cast<std::size_t>(step.entry)];
        entry.arena = arena;
        if (node.view_src != nullptr) {
            // It writes there now, even where it reads something else.
            Entry& root = entries_[static_cast<std::size_t>(entry.root)];
            root.last = std::max(root.last, now);
            entry.dangling = node.op != GGML_OP_NONE;
        } else if (entry.block < 0) {
            HEDDLE_TRY_ASSIGN(entry.size, size_in(node, arena));
            if ((node.flags & GGML_TENSOR_FLAG_INPUT) != 0) {
                HEDDLE_TRY(begin_block(entry, arena, 0));
            }
        }
    }
    steps_.push_back(step);
    return ok();
}

Result<> LifetimeFinder::scan_sources(Tensor& node, std::int32_t arena, std::int32_t now,
                                      Step& step) {
    step.works_in_place = may_reuse(node);
    const bool reuses = node.view_src == nullptr && step.works_in_place;
    std::uint16_t bit = 1;
    for (Tensor* source : node.src) {
        if (source == nullptr) continue;
        note_view(*source);
        if (is_external(*source)) continue;
        const std::int32_t index = enter(*source);
        Entry& entry = entries_[static_cast<std::size_t>(index)];
        Entry& root = entries_[static_cast<std::size_t>(entry.root)];
        if (entry.uses < UINT16_MAX) ++entry.uses;
        if (root.last != now) root.reads = 0;
        root.last = now;
        ++root.reads;
        if (reuses && source->view_offs == 0 && equal_layout(*source, node)) step.reusable |= bit;
        bit = static_cast<std::uint16_t>(bit << 1);
        sources_.push_back(index);
        const bool waits = entry.root == index && entry.block < 0;
        if (waits && (source->flags & GGML_TENSOR_FLAG_INPUT) != 0) {
            HEDDLE_TRY(begin_block(entry, entry.arena >= 0 ? entry.arena : arena, 0));
        }
    }
    return ok();
}

void LifetimeFinder::finish_scan(std::int32_t end) {
    for (Entry& entry : entries_) {
        Entry& root = entries_[static_cast<std::size_t>(entry.root)];
        if (entry.dangling && entry.uses == 0) root.kept = true;
    }
    for (Entry& entry : entries_) {
        if (entry.kept || entry.last == 0) entry.last = end;
    }
    scanned_blocks_ = result_.blocks.size();
}

// ---- groups ------------------------------------------------------------------------------------

/// As the first pass has counted them. What has memory of its own was not counted, and is no
/// obstacle: nothing is placed over it.
class LifetimeFinder::Uses final : public TensorUses {
public:
    explicit Uses(const LifetimeFinder& finder) : finder_(finder) {}
    bool is_all(const Tensor& tensor, int inside) const override {
        const Entry* const entry = finder_.look_up(tensor);
        return entry == nullptr || entry->uses == inside;
    }

private:
    const LifetimeFinder& finder_;
};

const LifetimeFinder::Entry* LifetimeFinder::look_up(const Tensor& tensor) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = home_slot(&tensor, mask); slots_[slot] != 0; slot = (slot + 1) & mask) {
        const Entry& entry = entries_[slots_[slot] - 1];
        if (entry.tensor == &tensor) return &entry;
    }
    return nullptr;
}

/// Other backends know fewer patterns, and find other groups for it: both are left room for. The
/// number of tokens is not looked at, so that graphs that differ in it alone have the same groups.
void LifetimeFinder::find_groups(std::span<Tensor* const> nodes) {
    const Uses uses(*this);
    std::size_t next = 0, next_of_peers = 0;  // behind the last group of each kind
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes.size() > kFewNodes && i + kReadAhead < nodes.size()) {
            prefetch(nodes[i + kReadAhead]);
        }
        const FusionPattern* found = nullptr;
        if (i >= next_of_peers) {
            const auto match = match_fusion(nodes, i, uses, {FusionSearch::Rows::of_peers, true});
            if (match) {
                found = match->pattern;
                next_of_peers = static_cast<std::size_t>(match->last) + 1;
                add_group(*match, true);
            }
        }
        if (i >= next) {
            const auto match = match_fusion(nodes, i, uses, {FusionSearch::Rows::all, true});
            if (!match) continue;
            next = static_cast<std::size_t>(match->last) + 1;
            if (match->pattern != found) add_group(*match, false);
        }
    }
}

void LifetimeFinder::add_group(const FusionGroup& match, bool is_of_peers) {
    const std::int32_t arena = id_at(assignment_->nodes, static_cast<std::size_t>(match.first));
    const auto place = static_cast<std::size_t>(arena);
    if (arena < 0 || place >= assignment_->fuses.size() || assignment_->fuses[place] == 0) return;
    bool needs_memory = false;
    for (std::size_t i = 0; i < match.count; ++i) {
        if (!match.has(i)) continue;
        if (id_at(assignment_->nodes, match.node(i)) != arena) return;
        // Outputs in memory from outside, as rows of a cache, lie over nothing of ours.
        needs_memory |= match.is_output(i) && steps_[match.node(i)].entry >= 0;
    }
    if (needs_memory) groups_.push_back({match, arena, is_of_peers});
}

void LifetimeFinder::hold_sources(const Group& group) {
    const FusionGroup& nodes = group.nodes;
    const auto is_inside = [&](std::int32_t root) {
        for (std::size_t i = 0; i < nodes.count; ++i) {
            if (nodes.has(i) && steps_[nodes.node(i)].entry == root) return true;
        }
        return false;
    };
    for (std::size_t i = 0; i < nodes.count; ++i) {
        if (!nodes.has(i)) continue;
        const std::size_t node = nodes.node(i);
        // Threads that compute other elements may still read it when this one is written.
        const bool apart =
            nodes.pattern->overlap == FusionOverlap::none || !steps_[node].works_in_place;
        const std::uint32_t begin = node == 0 ? 0 : steps_[node - 1].sources_end;
        for (std::uint32_t s = begin; s < steps_[node].sources_end; ++s) {
            const std::int32_t index = entries_[static_cast<std::size_t>(sources_[s])].root;
            Entry& root = entries_[static_cast<std::size_t>(index)];
            if ((root.arena >= 0 && root.arena != group.arena) || is_inside(index)) continue;
            root.held = std::max(root.held, group.last());
            if (apart) root.apart = std::max(root.apart, group.last());
        }
    }
}

// ---- second pass: blocks -----------------------------------------------------------------------

Result<const Lifetimes*> LifetimeFinder::settle_all() {
    for (const Entry& entry : entries_) {
        if (entry.block < 0) continue;
        result_.blocks[static_cast<std::size_t>(entry.block)].last =
            std::max(entry.last, entry.held);
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        HEDDLE_TRY(settle(i, static_cast<std::int32_t>(i + 1)));
    }
    return &result_;
}

Result<> LifetimeFinder::settle(std::size_t node, std::int32_t now) {
    const Step& step = steps_[node];
    const std::uint32_t begin = node == 0 ? 0 : steps_[node - 1].sources_end;
    const std::int32_t arena = id_at(assignment_->nodes, node);
    for (std::uint32_t i = begin; i < step.sources_end; ++i) {
        const Entry& source = entries_[static_cast<std::size_t>(sources_[i])];
        Entry& root = entries_[static_cast<std::size_t>(source.root)];
        // A view's root that is in no list is memory from outside: not ours to provide.
        if (root.block < 0 && &root == &source) {
            HEDDLE_TRY(begin_block(root, root.arena >= 0 ? root.arena : arena, now));
        }
    }
    if (step.entry < 0) return ok();
    Entry& entry = entries_[static_cast<std::size_t>(step.entry)];
    if (entry.root != step.entry || entry.block >= 0) return ok();
    if (take_over(entry, step, begin, now)) return ok();
    return begin_block(entry, arena, now);
}

bool LifetimeFinder::take_over(Entry& node, const Step& step, std::uint32_t begin,
                               std::int32_t now) {
    for (std::uint32_t bits = step.reusable; bits != 0; bits &= bits - 1) {
        const auto slot = begin + static_cast<std::uint32_t>(std::countr_zero(bits));
        const Entry& source = entries_[static_cast<std::size_t>(sources_[slot])];
        const Entry& root = entries_[static_cast<std::size_t>(source.root)];
        if (root.block < 0 || root.last != now || root.reads != 1 || now <= root.apart) continue;
        Block& block = result_.blocks[static_cast<std::size_t>(root.block)];
        if (block.arena != node.arena || block.size < node.size) continue;
        node.held = std::max(node.held, root.held);  // the group still reads what was there
        block.last = std::max(node.last, node.held);
        node.block = root.block;
        result_.tenants.push_back({node.tensor, node.block});
        return true;
    }
    return false;
}

Result<> LifetimeFinder::begin_block(Entry& entry, std::int32_t arena, std::int32_t now) {
    if (entry.arena < 0) {
        entry.arena = arena;
        HEDDLE_TRY_ASSIGN(entry.size, size_in(*entry.tensor, arena));
    }
    entry.block = static_cast<std::int32_t>(result_.blocks.size());
    result_.blocks.push_back({.size = entry.size,
                              .arena = entry.arena,
                              .first = now,
                              .last = std::max(entry.last, entry.held)});
    result_.tenants.push_back({entry.tensor, entry.block});
    return ok();
}

Result<std::size_t> LifetimeFinder::size_in(const Tensor& tensor, std::int32_t arena) const {
    const auto index = static_cast<std::size_t>(arena);
    if (arena < 0 || index >= assignment_->arenas.size()) {
        return invalid("planning ", describe(tensor), ": it is to go to arena ", arena, " of ",
                       assignment_->arenas.size());
    }
    return padded_size(tensor, alloc_size_of(*assignment_->arenas[index], tensor),
                       assignment_->alignments[index]);
}

// ---- for people --------------------------------------------------------------------------------

std::string to_text(const Lifetimes& lifetimes) {
    std::vector<std::string> tenants(lifetimes.blocks.size());
    for (const Tenant& tenant : lifetimes.tenants) {
        std::string& names = tenants[static_cast<std::size_t>(tenant.block)];
        if (!names.empty()) names += ", ";
        names += name_of(*tenant.tensor);
    }
    std::string lines;
    for (std::size_t i = 0; i < lifetimes.blocks.size(); ++i) {
        const Block& block = lifetimes.blocks[i];
        lines += text("block ", i, ": ", block.size, " bytes in arena ", block.arena, ", ",
                      block.first, " to ", block.last, ": ", tenants[i], '\n');
    }
    return lines;
}

}  // namespace heddle::alloc
