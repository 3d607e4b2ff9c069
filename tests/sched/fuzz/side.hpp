#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/graph.hpp"
#include "world.hpp"

namespace heddle::fuzz {

/// A graph built from a recipe.
struct Build {
    int size = 0;  ///< below kSizes
    OwnedContext context;
    Graph* graph = nullptr;
    std::vector<std::pair<const Leaf*, Tensor*>> fresh;  ///< leafs that are filled for each run
    std::vector<Tensor*> outputs;
    std::vector<std::pair<const Step*, Tensor*>> pinned;
};

/// One of the two places where a case runs: on all its devices, and plainly on the processor. Has
/// the tensors that stay, and builds graphs over them.
class Side {
public:
    /// `memory` says where tensors of a device go.
    Side(const Case& which, std::function<ggml_backend_buffer_type_t(int device)> memory);

    /// The graph in one of its sizes. Null if there was no room.
    std::unique_ptr<Build> build(int graph, int size);

    /// Writes what changes with each run. Memory of the tensors' own is left alone unless `all`.
    void fill_inputs(Build& build, std::uint32_t seed, bool all);
    void fill_weights(int graph, std::uint32_t seed);

    /// Gives what stays the values that it has on the other side.
    void restore(int graph, const Side& other);

    /// The tensors of a graph that stay, but for its inputs.
    std::vector<Tensor*> kept(int graph) const;

private:
    using Place = std::pair<int, int>;  ///< graph, leaf or step

    Tensor* take_step(int graph, int number, std::span<Tensor* const> values, Build& build);
    void give_memory(Tensor* tensor, ggml_backend_buffer_type_t type, Place place);

    const Case& case_;
    std::function<ggml_backend_buffer_type_t(int)> memory_;
    OwnedContext context_;  ///< of tensors that stay
    std::vector<OwnedBuffer> buffers_;
    std::map<Place, Tensor*> kept_;
    std::map<Place, ggml_backend_buffer_t> places_of_steps_;
};

/// The bytes of a tensor, wherever they are.
std::vector<std::byte> bytes_of(const Tensor& tensor);

/// Nodes, leafs and their links, for people.
std::string to_text(const Graph& graph);

}  // namespace heddle::fuzz
