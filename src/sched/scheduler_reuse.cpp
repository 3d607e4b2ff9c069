// Graphs that the scheduler knows: the last one again, elsewhere, with other names or sizes.

#include <algorithm>
#include <optional>
#include <utility>

#include "sched/resize.hpp"
#include "sched/scheduler_state.hpp"

using namespace heddle;
using namespace heddle::sched;

namespace {

/// Null beyond the end of the lists.
const Tensor* tensor_at(const Graph& graph, std::size_t place) {
    const std::span<Tensor*const> nodes = nodes_of(graph), leafs = leafs_of(graph);
    if (place < nodes.size()) return nodes[place];
    return place - nodes.size() < leafs.size() ? leafs[place - nodes.size()] : nullptr;
}

/// Where its bytes are; a view may not have been told yet.
const void* address_of(const Tensor& tensor) {
    if (tensor.view_src == nullptr) return tensor.data;
    return static_cast<const char*>(tensor.view_src->data) + tensor.view_offs;
}

}  // namespace

/// Pins by place, so that they can be compared with those on a graph at other addresses.
void ggml_backend_sched::remember_pins() {
    State& s = *state_;
    s.pinned_places.clear();
    s.pins_placed = s.pins.size();
    if (s.pins.empty()) return;
    const std::size_t count = s.index.nodes().size() + s.index.leafs().size();
    for (std::size_t place = 0; place < count; ++place) {
        const auto pin = s.pins.find(tensor_at(s.index.graph(), place));
        if (pin != s.pins.end()) s.pinned_places.push_back({place, pin->second});
    }
}

bool ggml_backend_sched::same_pins(const Graph& graph) const {
    const State& s = *state_;
    if (s.pins.size() != s.pins_placed || s.pins_placed != s.pinned_places.size()) return false;
    return std::ranges::all_of(s.pinned_places, [&](const PinnedPlace& pinned) {
        const auto pin = s.pins.find(tensor_at(graph, pinned.place));
        return pin != s.pins.end() && pin->second == pinned.runner;
    });
}

/// Whether the kept copies are copies of the tensors that are read now (`index` is rebound).
bool ggml_backend_sched::same_constants() const {
    const State& s = *state_;
    for (std::size_t i = 0; i < s.program.cached.size(); ++i) {
        const ConstantCache::Entry* const entry = s.program.cached[i];
        if (entry == nullptr) continue;
        const Tensor& tensor = s.index[s.splits.copies[i].tensor];
        if (entry->source_buffer != root_buffer(tensor)) return false;
        if (entry->source_data != address_of(tensor)) return false;
    }
    return true;
}

/// The nodes that backends were given, if they can be given them again; null otherwise. Then they
/// know the graph by its uid, and runs that are under way may still read them.
WiredGraph* ggml_backend_sched::wired_before() const {
    const State& s = *state_;
    if (!s.program.forgetful.empty()) return nullptr;  // their buffers forget the nodes
    const auto is_placed = [](const auto& wired) { return wired != nullptr && wired->is_placed(); };
    const auto wired = std::ranges::find_if(s.splits.wired, is_placed);
    return wired != s.splits.wired.end() ? wired->get() : nullptr;
}

/// So many tensors of the last graph may have other sizes in the next one: more than change from
/// one token to the next, and fewer than with other batches, whose nodes may have better places.
/// While plans are checked the places do not matter, but that kept plans are as safe as new ones:
/// any number may.
std::size_t ggml_backend_sched::most_resized() const {
    const State& s = *state_;
    constexpr std::size_t kMostLayouts = 4096;  // those that are not used any more stay
    if (s.policy == Policy::cost || s.index.layout_count() > kMostLayouts) return 0;
    if (!can_resize(s.splits, s.program)) return 0;
    const std::size_t listed = s.index.nodes().size() + s.index.leafs().size();
    return options_.check_hazards ? listed : listed / 3;
}

/// Gives the tensors of `graph` the memory of the last plan if it is the same graph; false
/// otherwise. In large graphs reading tensors is most of the time, so they get it while they are
/// compared.
Result<bool> ggml_backend_sched::reuse(Graph& graph) {
    State& s = *state_;
    if (!same_pins(graph)) return false;
    PlacedAgain placed(s.program);
    WiredGraph* const wired = wired_before();
    bool has_names = wired != nullptr;
    Fingerprint::Resized resized{.ids = {}, .most = most_resized()};
    std::size_t moved = 0;
    const auto place = [&](TensorId first, std::span<Tensor* const> tensors) {
        const auto some = std::span(resized.ids).subspan(std::exchange(moved, resized.ids.size()));
        move_homes(s.program, s.index, some, first, tensors);
        placed.place(first, tensors);
        has_names = has_names && wired->same_names(first, tensors);
    };
    if (!s.fingerprint.matches(graph, s.memory->own_buffers(), place, &resized)) return false;
    s.index.rebind(graph);
    if (!same_constants()) return false;
    std::optional<Resize> resize;
    if (!resized.ids.empty()) {
        resize.emplace(s.index, resized.ids);
        if (!resize->fits(s.splits, s.program)) return false;
    }
    const std::size_t listed = nodes_of(graph).size() + leafs_of(graph).size();
    has_names = has_names &&
                wired->same_names(static_cast<TensorId>(listed), s.index.tensors().subspan(listed));
    const bool same_memory = wired != nullptr && wired->same_memory(s.index);
    // Clones of detours would have old names.
    bool is_wired = same_memory && (has_names || s.splits.detours.empty());
    Result<> done = ok();
    if (s.under_way && (!is_wired || !has_names || resize)) {
        if (options_.slots == 1) {
            done = synchronize();
        } else if (same_memory) {
            // What streams may still read stays as it is, and the run can begin meanwhile.
            done = renew_splits();
            is_wired = false;
        } else {
            return false;  // what was planned for the last run's memory tells nothing of this one's
        }
    }
    if (done && !is_wired) s.splits.wired.clear();
    if (done && !same_memory) s.program.memory_serial = next_graph_uid();
    if (done && (!is_wired || !has_names)) sched::rebind(s.splits, s.index);
    if (done) done = placed.finish(s.index);
    if (done && resize) {
        resize->apply(s.splits);
        s.index.take_layouts(resized.ids);
    }
    auto ready = done ? wire(s.index, s.splits, s.next_slot) : std::move(done).error();
    auto can_run = ready ? accept(resize, **ready) : std::move(ready).error();
    if (!can_run) s.fingerprint.clear();
    return can_run;
}

/// Whether the plan is as good for a graph with other sizes.
Result<bool> ggml_backend_sched::accept(const std::optional<Resize>& resize, WiredGraph& wired) {
    State& s = *state_;
    if (!resize) return true;
    HEDDLE_TRY_ASSIGN(const bool is_runnable, resize->is_runnable(s.splits, wired, team_));
    if (is_runnable) HEDDLE_TRY(check_hazards());
    return is_runnable;
}
