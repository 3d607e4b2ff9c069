#include "model/placement.hpp"

#include <algorithm>
#include <set>

#include "bytes_text.hpp"
#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "model/cut.hpp"

namespace heddle::tool {
namespace {

/// The name under which a weight that `node` reads would be placed; empty if it always stays on the
/// host.
std::string placed_name(const ggml_tensor& weight, const ggml_tensor& node) {
    if (std::string_view(weight.name) != "token_embd.weight") return weight.name;
    // An output that is tied to the embedding is placed as a copy of it.
    return node.op == GGML_OP_GET_ROWS ? "" : "output.weight";
}

/// The weights and caches among the sources of `node`, also those it reads through views.
std::set<ggml_tensor*> stored_sources(const ggml_tensor& node) {
    std::set<ggml_tensor*> stored;
    for (ggml_tensor* source : node.src) {
        if (source == nullptr) continue;
        ggml_tensor* const root = source->view_src != nullptr ? source->view_src : source;
        if (root->buffer != nullptr) stored.insert(root);
    }
    return stored;
}

/// Calls `look` for the nodes that `device` declines although all weights and caches are there.
template <class Look>
void for_each_declined(const Graph& graph, const Device& device, const Look& look) {
    // Nothing is stored: a buffer of no size says where the weights would be.
    Buffer there(ggml_backend_buft_alloc_buffer(device.buffer_type(), 0));
    if (there.c() != nullptr) there.set_weights();
    for (int i = 0; i < ggml_graph_n_nodes(graph.c()); ++i) {
        const ggml_tensor& node = *ggml_graph_node(graph.c(), i);
        if (ggml_op_is_empty(node.op)) continue;
        const auto stored = stored_sources(node);
        std::vector<ggml_backend_buffer_t> homes;
        for (ggml_tensor* weight : stored) {
            homes.push_back(std::exchange(weight->buffer, there.c()));
        }
        const bool is_supported = ggml_backend_dev_supports_op(device.c(), &node);
        auto home = homes.begin();
        for (ggml_tensor* weight : stored) weight->buffer = *home++;
        if (!is_supported) look(node);
    }
}

/// What a layer takes of a device that refuses some of it.
struct LayerDemand {
    std::size_t bytes = 0;                           ///< of weights that go there
    std::size_t products = 0, refused_products = 0;  ///< bytes of matrices
    std::string objection;                           ///< to one of its matrices

    /// A device that multiplies less than half of a layer only causes copies.
    bool is_welcome() const { return products > 0 && 2 * refused_products < products; }
};

std::vector<LayerDemand> demands_of(const ModelFile& file, const Shape& shape,
                                    const Refusals& refused) {
    std::vector<LayerDemand> demands(static_cast<std::size_t>(shape.layers));
    for (ggml_tensor* t = ggml_get_first_tensor(file.tensors()); t != nullptr;
         t = ggml_get_next_tensor(file.tensors(), t)) {
        const std::string name = ggml_get_name(t);
        if (!name.starts_with("blk.")) continue;
        const std::size_t layer = std::strtoull(name.c_str() + 4, nullptr, 10);
        if (layer >= demands.size()) continue;
        LayerDemand& demand = demands[layer];
        const auto refusal = refused.find(name);
        const bool is_matrix = t->ne[1] > 1;
        if (is_matrix) demand.products += ggml_nbytes(t);
        if (refusal == refused.end()) {
            demand.bytes += ggml_nbytes(t);
        } else if (is_matrix) {
            demand.refused_products += ggml_nbytes(t);
            if (demand.objection.empty()) demand.objection = refusal->second;
        }
    }
    return demands;
}

/// Bytes of what follows the last layer, on a device that refuses some of it.
std::size_t output_bytes(const ModelFile& file, const Refusals& refused) {
    if (refused.contains("output.weight")) return 0;
    const ggml_tensor* output = file.find("output.weight");
    const ggml_tensor* norm = file.find("output_norm.weight");
    if (output == nullptr) output = file.find("token_embd.weight");
    const bool has_norm = norm != nullptr && !refused.contains("output_norm.weight");
    return (output != nullptr ? ggml_nbytes(output) : 0) + (has_norm ? ggml_nbytes(norm) : 0);
}

/// The memory of a device that layers may have.
std::size_t room_in(const Room& given) {
    const std::size_t free = free_memory(given);
    const std::size_t most = given.budget > 0 ? std::min(given.budget, free) : free;
    // Results of graphs need memory too, and where nobody counts bytes others may as well.
    const bool exact = given.budget > 0 && given.results > 0;
    return most - std::min(most, exact ? given.results : std::max(given.results, most / 8));
}

/// Gives a device layers from the end of those without a place.
class Sharing {
public:
    Sharing(const ModelFile& file, const Shape& shape, std::int64_t context)
        : file_(file),
          shape_(shape),
          context_(context),
          left_(static_cast<std::size_t>(shape.layers)),
          places_(left_) {}

    std::size_t left() const { return left_; }
    std::vector<std::size_t> places() && { return std::move(places_); }

    /// As many as fit, `wanted` at most, from the last one on; those it refuses stay on the host.
    Result<> give(const Room& room, std::size_t bytes, std::size_t place, std::size_t wanted) {
        const auto demands = demands_of(file_, shape_, room.refused);
        const auto need = [&](std::size_t layer) {
            const bool has_cache =
                !keeps_cache_away(room.refused, static_cast<std::int64_t>(layer));
            return demands[layer].bytes + (has_cache ? shape_.cache_bytes(context_) : 0) +
                   // Who has the last layer has the output too.
                   (layer + 1 == places_.size() ? output_bytes(file_, room.refused) : 0);
        };
        while (left_ > 0 && !demands[left_ - 1].is_welcome()) --left_;
        if (left_ > 0 && room.budget > 0 && need(left_ - 1) > bytes) {
            return failure(Errc::out_of_memory, "the budget of ", room.device.name(), " is ",
                           bytes_text(room.budget), ", of which results of graphs need ",
                           bytes_text(room.results), "; one layer for ", context_, " tokens needs ",
                           bytes_text(need(left_ - 1)),
                           ": raise it, lower --context or --batch, or leave the device out");
        }
        std::size_t used = 0, taken = 0;
        for (; taken < wanted && left_ > 0; --left_) {
            if (!demands[left_ - 1].is_welcome()) continue;
            used += need(left_ - 1);
            if (used > bytes) break;
            places_[left_ - 1] = place;
            ++taken;
        }
        return ok();
    }

private:
    const ModelFile& file_;
    const Shape& shape_;
    std::int64_t context_;
    std::size_t left_;
    std::vector<std::size_t> places_;
};

}  // namespace

std::size_t free_memory(const Room& room) {
    const std::size_t free = room.device.properties().memory_free;
    if (room.cut == nullptr) return free;
    std::size_t least = free;
    for (const Device& each : room.cut->devices) {
        least = std::min(least, each.properties().memory_free);
    }
    return static_cast<std::size_t>(static_cast<double>(least) / largest_part(*room.cut));
}

std::string layer_prefix(std::int64_t layer) { return "blk." + std::to_string(layer) + "."; }

Refusals refusals_of(const Graph& graph, const Device& device) {
    Refusals refused;
    for_each_declined(graph, device, [&](const ggml_tensor& node) {
        for (const ggml_tensor* weight : stored_sources(node)) {
            const std::string name = placed_name(*weight, node);
            if (name.empty()) continue;
            refused.emplace(name, text(ggml_op_desc(&node), " of ", ggml_type_name(weight->type)));
        }
    });
    return refused;
}

std::string lack_of(const Graph& graph, const Device& device) {
    std::string lack;
    for_each_declined(graph, device, [&](const ggml_tensor& node) {
        if (!lack.empty() || node.op == GGML_OP_GET_ROWS) return;
        lack = text(ggml_op_desc(&node), " of ", ggml_type_name(node.src[0]->type));
    });
    return lack;
}

bool keeps_cache_away(const Refusals& refused, std::int64_t layer) {
    const std::string number = std::to_string(layer);
    return refused.contains("keys_" + number) || refused.contains("values_" + number);
}

std::string objection_to_layers(const ModelFile& file, const Shape& shape,
                                const Refusals& refused) {
    const auto demands = demands_of(file, shape, refused);
    if (std::ranges::any_of(demands, &LayerDemand::is_welcome)) return {};
    for (const LayerDemand& demand : demands) {
        if (!demand.objection.empty()) return demand.objection;
    }
    return {};
}

Result<std::vector<std::size_t>> share_layers(const ModelFile& file, const Shape& shape,
                                              const std::vector<Room>& rooms,
                                              std::int64_t context) {
    std::vector<std::size_t> bytes;
    std::size_t all = 0;
    for (const Room& room : rooms) all += bytes.emplace_back(room_in(room));
    Sharing sharing(file, shape, context);
    for (std::size_t i = rooms.size(); i-- > 0 && sharing.left() > 0;) {
        // In proportion to memory, as far as there is any.
        const double share = all > 0 ? static_cast<double>(bytes[i]) / static_cast<double>(all) : 0;
        const double part = static_cast<double>(sharing.left()) * share + 0.5;
        const std::size_t wanted = i == 0 ? sharing.left() : static_cast<std::size_t>(part);
        HEDDLE_TRY(sharing.give(rooms[i], bytes[i], i + 1, wanted));
        all -= bytes[i];
    }
    return std::move(sharing).places();
}

}  // namespace heddle::tool
