#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/llama.hpp"

/// Which device has which weights: those whose readers it can compute, as many as it has room for.
namespace heddle::tool {

/// A device that does not take part, and why.
struct LeftOut {
    std::string device, reason;
};

/// A device's part of something, from 0 to 1.
struct Share {
    std::string device;
    double part = 0;
};

/// The beginning of the names of a layer's weights.
std::string layer_prefix(std::int64_t layer);

/// The weights and caches of `graph` that are of no use in memory of `device`, because it cannot
/// compute a node that reads them from there. What has memory in `graph` are weights and caches.
Refusals refusals_of(const Graph& graph, const Device& device);

/// What `device` lacks to compute all of `graph` on its own, such as "ROPE of f32"; empty if
/// nothing. Rows of the embedding are looked up on the host.
std::string lack_of(const Graph& graph, const Device& device);

/// Whether the cache of a layer stays on the host.
bool keeps_cache_away(const Refusals& refused, std::int64_t layer);

/// What keeps all layers from a device that refuses so much, such as "MUL_MAT of q8_0"; empty if
/// there is one for it.
std::string objection_to_layers(const ModelFile& file, const Shape& shape, const Refusals& refused);

/// Memory of the room's device that is free for the model. Of joined devices the one with least
/// decides, as any may have the largest part.
std::size_t free_memory(const Room& room);

/// The place of each layer: 0 is the host, 1 the first of `rooms`, and so on. The host has those
/// that do not fit elsewhere, which are the first ones.
Result<std::vector<std::size_t>> share_layers(const ModelFile& file, const Shape& shape,
                                              const std::vector<Room>& rooms, std::int64_t context);

}  // namespace heddle::tool
