#include "sched/plan/plan.hpp"

#include <algorithm>
#include <optional>

#include "core/prefetch.hpp"
#include "runtime/placement.hpp"
#include "sched/plan/actions.hpp"

namespace heddle::sched {
namespace {

constexpr int kLongLife = GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT;

/// Anything that is not null: a tensor that has it needs no memory.
void* some_address() {
    static char byte;
    return &byte;
}

/// The actions as one graph for the planner of memory: every tensor that gets memory from us, in
/// the order of submission.
class Flat {
public:
    Flat(const PlanInput& input, const Program& program)
        : in_(input),
          patched_(input.index, input.splits, 0,
                   static_cast<std::uint32_t>(input.splits.patches.size()), 0) {
        const std::size_t nodes =
            in_.splits.order.size() + 2 * in_.splits.copies.size() + 3 * in_.splits.detours.size();
        nodes_.reserve(nodes);
        node_ids_.reserve(nodes);
        add_leafs(program);
        for (const Action& action : program.actions) add(action, program);
        graph_.nodes = nodes_.data();
        graph_.n_nodes = static_cast<int>(nodes_.size());
        graph_.leafs = leafs_.data();
        graph_.n_leafs = static_cast<int>(leafs_.size());
    }
    ~Flat() {
        for (Tensor* stand_in : borrowed_) stand_in->src[0] = nullptr;
    }
    Flat(const Flat&) = delete;
    Flat& operator=(const Flat&) = delete;

    Graph& graph() { return graph_; }
    const int* node_ids() const { return node_ids_.data(); }
    const int* leaf_ids() const { return leaf_ids_.data(); }

private:
    int id_of(RunnerId runner) const { return runner == kNoRunner ? in_.team.last() : runner; }
    void add_leaf(Tensor& leaf, RunnerId runner) {
        leafs_.push_back(&leaf);
        leaf_ids_.push_back(id_of(runner));
    }
    void add_node(Tensor& node, RunnerId runner) {
        nodes_.push_back(&node);
        node_ids_.push_back(id_of(runner));
    }
    /// Keeps the memory of `tensor` up to here.
    void add_reader(Tensor& tensor, RunnerId runner) {
        Tensor& reader = readers_.emplace_back();
        reader.data = some_address();
        reader.src[0] = &tensor;
        add_node(reader, runner);
    }

    void add_leafs(const Program& program) {
        for (std::size_t i = 0; i < in_.splits.copies.size(); ++i) {
            const Copy& copy = in_.splits.copies[i];
            if (copy.stand_ins == 1 || program.cached[i] != nullptr) continue;
            for (int slot = 0; slot < copy.stand_ins; ++slot) {
                Tensor& stand_in = in_.splits.stand_in(copy, slot);
                stand_in.flags |= kLongLife;
                add_leaf(stand_in, copy.to);
            }
        }
        for (const TensorId leaf : in_.index.leafs()) {
            add_leaf(in_.index[leaf], in_.placement[leaf].runner);
        }
        add_unlisted();
    }

    /// Sources that the caller left out of the lists are filled before the run like leafs.
    void add_unlisted() {
        TensorId last = -1;
        for (const TensorId id : in_.index.nodes()) last = std::max(last, id);
        for (const TensorId id : in_.index.leafs()) last = std::max(last, id);
        std::vector<bool> added(in_.index.size() - static_cast<std::size_t>(last + 1));
        if (added.empty()) return;
        for (const TensorId node : in_.index.nodes()) {
            for (const auto [source, slot] : in_.index.sources(node)) {
                if (source <= last || added[static_cast<std::size_t>(source - last - 1)]) continue;
                added[static_cast<std::size_t>(source - last - 1)] = true;
                add_leaf(in_.index[source], in_.placement[source].runner);
            }
        }
    }

    void add(const Action& action, const Program& program) {
        const auto index = static_cast<std::size_t>(action.index);
        switch (action.kind) {
            case Action::Kind::copy:
                add_copy(in_.splits.copies[index], program.cached[index] != nullptr);
                break;
            case Action::Kind::compute:
                add_split(in_.splits.splits[index]);
                break;
            case Action::Kind::write_back: {
                const Detour& detour = in_.splits.detours[index];
                add_reader(in_.splits.stand_ins[static_cast<std::size_t>(detour.stand_in)],
                           action.runner);
                add_node(in_.index[detour.node], action.runner);
                break;
            }
        }
    }

    void add_copy(const Copy& copy, bool cached) {
        if (cached) return;  // the original has memory of its own, and so has the copy
        Tensor& original = in_.index[copy.tensor];
        if (const TensorId ids = chosen_by(in_.index, copy); ids != kNoTensor) {
            add_reader(in_.index[ids], copy.to);
        }
        if (copy.stand_ins > 1) {
            add_reader(original, copy.to);
            return;
        }
        Tensor& stand_in = in_.splits.stand_in(copy, 0);
        stand_in.src[0] = &original;
        borrowed_.push_back(&stand_in);
        add_node(stand_in, copy.to);
    }

    void add_split(const Split& split) {
        for (const std::int32_t number : split.detours) {
            const Detour& detour = in_.splits.detours[static_cast<std::size_t>(number)];
            if (!detour.fetch_first) continue;
            // Filled before the split begins. A view that no node reads is a result, so it is its
            // root that is read here.
            add_reader(in_.index[in_.index.root(detour.node)], split.runner);
            add_reader(in_.splits.stand_ins[static_cast<std::size_t>(detour.stand_in)],
                       split.runner);
        }
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            add_node(runs_at(in_.index, in_.splits, at), split.runner);
        }
    }

    const PlanInput& in_;
    Patched patched_;
    std::vector<Tensor*> nodes_, leafs_, borrowed_;
    std::vector<int> node_ids_, leaf_ids_;
    std::deque<Tensor> readers_;
    Graph graph_{};
};

bool has_byte_budget(const ConstantCache& constants) {
    return std::ranges::any_of(constants.budgets(), [](const Budget& budget) {
        return budget.kind == Budget::Kind::bytes;
    });
}

/// One call of `plan` or `measure`.
class Planner {
public:
    Planner(const GraphIndex& index, const Placement& placement, Splits& splits, Team& team,
            const GraphAllocator& memory, int slots)
        : planned_(index.size()), in_{index, placement, splits, team, planned_, slots} {
        for (Tensor& stand_in : splits.stand_ins) forget(stand_in);
        for (const auto& wired : splits.wired) {
            if (wired != nullptr) wired->unplace();
        }
        find_planned(memory);
    }

    Result<Program> run(GraphAllocator& memory, ConstantCache& constants, bool place);
    Result<std::vector<std::size_t>> measure(const GraphAllocator& memory,
                                             const ConstantCache& constants);

private:
    static void forget(Tensor& tensor) { tensor.buffer = nullptr, tensor.data = nullptr; }
    bool is_planned(TensorId id) const {
        return planned_[static_cast<std::size_t>(in_.index.root(id))] != 0;
    }

    void find_planned(const GraphAllocator& memory);
    Program begin();
    bool lacks_constants(const ConstantCache& constants) const;
    Result<> use_cache(Program& program, ConstantCache& constants);
    Result<> check_budgets(const std::vector<std::size_t>& results,
                           const ConstantCache& constants) const;
    Result<alloc::FusionCost> affordable(Flat& flat, const GraphAllocator& memory,
                                         const ConstantCache& constants) const;
    Result<Program> attempt(GraphAllocator& memory, ConstantCache& constants, bool place,
                            bool keep_constants);
    Result<Program> attempt_all(GraphAllocator& memory, ConstantCache& constants, bool place);
    Result<std::vector<std::size_t>> results_of(const GraphAllocator& memory) const;
    void note_homes(Program& program, const GraphAllocator& memory) const;
    void forget_homes(const Program& program) const;

    std::vector<std::uint8_t> planned_;
    PlanInput in_;
};

/// Tensors that had no memory when the graph was read, or some of an earlier plan.
void Planner::find_planned(const GraphAllocator& memory) {
    const auto own = memory.own_buffers();
    const Buffer* last = nullptr;  // most tensors are in the same buffer as the one before
    bool is_own = false;
    for (TensorId id = 0; static_cast<std::size_t>(id) < planned_.size(); ++id) {
        if (in_.index.root(id) != id) continue;
        const Buffer* const buffer = in_.index.facts(id).buffer;
        if (buffer != last) {
            last = buffer;
            is_own = std::ranges::find(own, buffer) != own.end();
        }
        const bool is_planned =
            !in_.index.had_memory(id) || (buffer != nullptr && is_own && in_.index.is_listed(id));
        planned_[static_cast<std::size_t>(id)] = is_planned ? 1 : 0;
    }
}

Program Planner::begin() {
    Program program;
    program.cached.assign(in_.splits.copies.size(), nullptr);
    for (Tensor& stand_in : in_.splits.stand_ins) forget(stand_in);
    return program;
}

bool Planner::lacks_constants(const ConstantCache& constants) const {
    return std::ranges::any_of(in_.splits.copies, [&](const Copy& copy) {
        return copy.kind == Copy::Kind::constant && !constants.has(in_.index[copy.tensor], copy.to);
    });
}

/// Constants that can stay where they are read are not the graph's business any more.
Result<> Planner::use_cache(Program& program, ConstantCache& constants) {
    for (std::size_t i = 0; i < in_.splits.copies.size(); ++i) {
        const Copy& copy = in_.splits.copies[i];
        if (copy.kind != Copy::Kind::constant) continue;
        ConstantCache::Entry* const entry = constants.find_or_make(in_.index[copy.tensor], copy.to);
        if (entry == nullptr) continue;
        program.cached[i] = entry;
        Tensor& stand_in = in_.splits.stand_in(copy, 0);
        HEDDLE_TRY_ASSIGN(void* const base, base_of(*entry->buffer));
        HEDDLE_TRY(place_tensor(*entry->buffer, stand_in, base));
    }
    return ok();
}

/// Whether results and constants fit budgets in bytes.
Result<> Planner::check_budgets(const std::vector<std::size_t>& results,
                                const ConstantCache& constants) const {
    for (RunnerId i = 0; i <= in_.team.last(); ++i) {
        const Budget budget = constants.budget_of(i);
        if (budget.kind != Budget::Kind::bytes) continue;
        const std::size_t graph = results[static_cast<std::size_t>(i)];
        const std::size_t copies = constants.bytes_on(i);
        if (graph + copies <= budget.amount) continue;
        return failure(Errc::out_of_memory, in_.team[i].name, ": a graph needs ", graph,
                       " bytes and copies of constants ", copies, ", but only ", budget.amount,
                       " are allowed");
    }
    return ok();
}

/// What groups of nodes that devices compute at once may cost: nothing where budgets in bytes leave
/// no more than the graph needs without them.
Result<alloc::FusionCost> Planner::affordable(Flat& flat, const GraphAllocator& memory,
                                              const ConstantCache& constants) const {
    if (!has_byte_budget(constants)) return alloc::FusionCost::little;
    Result<> checked = ok();
    for (const auto cost : {alloc::FusionCost::little, alloc::FusionCost::nothing}) {
        HEDDLE_TRY_ASSIGN(const std::vector<std::size_t> results,
                          memory.measure(flat.graph(), flat.node_ids(), flat.leaf_ids(), cost));
        checked = check_budgets(results, constants);
        if (checked) return cost;
    }
    return std::move(checked).error();
}

Result<Program> Planner::attempt(GraphAllocator& memory, ConstantCache& constants, bool place,
                                 bool keep_constants) {
    Program program = begin();
    if (keep_constants) HEDDLE_TRY(use_cache(program, constants));
    order_actions(in_, program);
    {
        Flat flat(in_, program);
        HEDDLE_TRY_ASSIGN(const alloc::FusionCost cost, affordable(flat, memory, constants));
        HEDDLE_TRY(memory.reserve(flat.graph(), flat.node_ids(), flat.leaf_ids(), cost));
        if (place) HEDDLE_TRY(memory.place_reserved(flat.graph()));
    }
    if (place) note_homes(program, memory);
    HEDDLE_TRY_ASSIGN(program.bytes, results_of(memory));
    find_waits(in_, program);
    return program;
}

Result<std::vector<std::size_t>> Planner::results_of(const GraphAllocator& memory) const {
    std::vector<std::size_t> results;
    for (RunnerId i = 0; i <= in_.team.last(); ++i) {
        HEDDLE_TRY_ASSIGN(const std::size_t bytes, memory.buffer_size(i));
        results.push_back(bytes);
    }
    return results;
}

/// Constants make room for results, not the other way round.
Result<Program> Planner::attempt_all(GraphAllocator& memory, ConstantCache& constants, bool place) {
    HEDDLE_TRY_ASSIGN(std::vector<std::size_t> results, results_of(memory));
    std::vector<std::size_t> coming(results.size());
    if (lacks_constants(constants)) {
        HEDDLE_TRY_ASSIGN(const std::vector<std::size_t> wanted, measure(memory, constants));
        for (std::size_t i = 0; i < results.size(); ++i) {
            if (wanted[i] <= results[i]) continue;
            coming[i] = wanted[i] - results[i];
        }
    }
    constants.begin_plan(results, std::move(coming));
    auto first = attempt(memory, constants, place, true);
    if (first || first.error().code != Errc::out_of_memory || constants.empty()) return first;

    constants.clear();
    auto without = attempt(memory, constants, place, false);
    if (!without || !has_byte_budget(constants)) return without;
    // Now it is known what the graph takes, at most: the rest may be used.
    forget_homes(*without);
    constants.begin_plan(without->bytes, {});
    auto again = attempt(memory, constants, place, true);
    if (again) return again;
    constants.clear();
    return attempt(memory, constants, place, false);
}

Result<Program> Planner::run(GraphAllocator& memory, ConstantCache& constants, bool place) {
    auto program = attempt_all(memory, constants, place);
    const bool may_stream = std::ranges::any_of(
        in_.splits.copies, [](const Copy& copy) { return copy.kind == Copy::Kind::constant; });
    if (program || program.error().code != Errc::out_of_memory || !may_stream) return program;
    in_.streamed_splits = kFewStreamedSplits;
    return attempt_all(memory, constants, place);
}

/// What the planner of memory has set aside for a tensor, at least.
std::size_t room_of(const Tensor& tensor) {
    if (tensor.buffer == nullptr) return 0;
    BufferType& type = *tensor.buffer->buft;
    const std::size_t last = alignment_of(type) - 1;
    return (alloc_size_of(type, tensor) + last) & ~last;
}

/// Remembers where everything is, for graphs like this one.
void Planner::note_homes(Program& program, const GraphAllocator& memory) const {
    const auto count = static_cast<TensorId>(in_.index.size());
    program.homes.resize(in_.index.size());
    program.rooms.resize(in_.index.size());
    for (TensorId id = 0; id < count; ++id) {
        const TensorId soon = id + static_cast<TensorId>(kReadAhead);
        if (soon < count) prefetch_place(&in_.index[soon]);
        const Tensor& tensor = in_.index[id];
        if (is_planned(id)) {
            program.homes[static_cast<std::size_t>(id)] = {tensor.buffer, tensor.data};
            if (in_.index.root(id) == id) {
                program.rooms[static_cast<std::size_t>(id)] = room_of(tensor);
            }
        } else if (in_.index.root(id) != id && tensor.buffer != nullptr) {
            program.looks.push_back(id);
        }
    }
    for (RunnerId i = 0; i <= in_.team.last(); ++i) {
        for (const OwnedBuffer& chunk : memory.chunks(i)) {
            if (chunk->iface.reset != nullptr) program.forgetful.push_back(chunk.get());
            if (chunk->iface.init_tensor != nullptr) program.prepares = true;
        }
    }
    program.copy_rooms.resize(in_.splits.copies.size());
    for (std::size_t i = 0; i < in_.splits.copies.size(); ++i) {
        if (program.cached[i] != nullptr) continue;
        const Copy& copy = in_.splits.copies[i];
        program.copy_rooms[i] = room_of(in_.splits.stand_in(copy, 0));
    }
    list_stand_ins(program, in_.splits);
}

/// The opposite: tensors are as they came.
void Planner::forget_homes(const Program& program) const {
    for (std::size_t i = 0; i < program.homes.size(); ++i) {
        if (program.homes[i].buffer != nullptr) forget(in_.index[static_cast<TensorId>(i)]);
    }
}

Result<std::vector<std::size_t>> Planner::measure(const GraphAllocator& memory,
                                                  const ConstantCache& constants) {
    Program program = begin();
    // A dry run: nothing is allocated, an entry that is never read stands for what would be.
    ConstantCache::Entry imagined;
    std::vector<std::size_t> room;
    for (RunnerId i = 0; i <= in_.team.last(); ++i) room.push_back(constants.capacity_on(i));
    for (std::size_t i = 0; i < in_.splits.copies.size(); ++i) {
        const Copy& copy = in_.splits.copies[i];
        std::size_t& left = room[static_cast<std::size_t>(copy.to)];
        if (copy.kind != Copy::Kind::constant || copy.bytes > left) continue;
        left -= copy.bytes;
        program.cached[i] = &imagined;
        in_.splits.stand_in(copy, 0).data = some_address();
    }
    order_actions(in_, program);
    Flat flat(in_, program);
    auto sizes = memory.measure(flat.graph(), flat.node_ids(), flat.leaf_ids());
    for (Tensor& stand_in : in_.splits.stand_ins) forget(stand_in);
    return sizes;
}

}  // namespace

Result<Program> plan(const GraphIndex& index, const Placement& placement, Splits& splits,
                     Team& team, GraphAllocator& memory, ConstantCache& constants,
                     const PlanRequest& request) {
    std::optional<Unplaced> unplaced;
    if (!request.unplaced) unplaced.emplace(index.graph(), memory);
    Planner planner(index, placement, splits, team, memory, request.slots);
    auto program = planner.run(memory, constants, request.place);
    if (!program) {
        for (Tensor& stand_in : splits.stand_ins)
            stand_in.buffer = nullptr, stand_in.data = nullptr;
        return program;
    }
    if (request.place && unplaced) unplaced->keep();
    return program;
}

Result<std::vector<std::size_t>> measure(const GraphIndex& index, const Placement& placement,
                                         Splits& splits, Team& team, const GraphAllocator& memory,
                                         ConstantCache& constants) {
    const Unplaced unplaced(index.graph(), memory);
    int slots = 1;
    for (const Copy& copy : splits.copies) slots = std::max(slots, copy.stand_ins);
    return Planner(index, placement, splits, team, memory, slots).measure(memory, constants);
}

}  // namespace heddle::sched
