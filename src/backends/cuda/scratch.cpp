#include "backends/cuda/scratch.hpp"

#include <algorithm>

#include "backends/cuda/kernel_list.hpp"
#include "heddle/backend/nodes.hpp"

namespace heddle::cuda {

std::size_t scratch_of(const Board& board, ggml_cgraph& graph) {
    const auto has_scratch = [](const Kernel* kernel) { return kernel->scratch != nullptr; };
    std::size_t most = 0;
    for (int i = 0; i < ggml_graph_n_nodes(&graph); ++i) {
        const Tensor& node = *ggml_graph_node(&graph, i);
        if (!plugin::wants_computing(node)) continue;
        if (std::ranges::none_of(kernels_for(node.op), has_scratch)) continue;  // most of them
        const Kernel* const kernel = choose_kernel(node);
        if (kernel == nullptr || kernel->scratch == nullptr) continue;
        most = std::max(most, kernel->scratch(node, board.facts));
    }
    return most;
}

Result<std::byte*> Scratch::reserve(std::size_t size) {
    if (size > size_) {
        void* memory = nullptr;
        HEDDLE_TRY(check(take([&] { return cudaMalloc(&memory, size); }), "allocating ",
                         describe_bytes(size), " of scratch memory on ", board_.name));
        memory_ = DeviceMemory(memory);
        size_ = size;
    }
    return static_cast<std::byte*>(memory_.get());
}

}  // namespace heddle::cuda
