#include "backends/cuda/kernel_list.hpp"

#include "backends/gpu/kernel_table.hpp"
#include "ops/catalogue.hpp"

namespace heddle::cuda {
namespace {

const gpu::KernelTable<Kernel>& all_kernels() {
    static const gpu::KernelTable<Kernel> table{
        binary_kernels(),      unary_kernels(),    glu_kernels(),         generate_kernels(),
        copy_kernels(),        index_kernels(),    assemble_kernels(),    norm_kernels(),
        reduce_kernels(),      sort_kernels(),     soft_max_kernels(),    rope_kernels(),
        convolution_kernels(), image_kernels(),    state_space_kernels(), recurrent_kernels(),
        stream_kernels(),      training_kernels(), products_kernels(),    attention_kernels()};
    return table;
}

/// Whether every operand is there that is not optional; kernels need not ask then.
bool has_operands(const Tensor& node) {
    const OpInfo* const info = find_op(node.op);
    if (info == nullptr) return false;
    for (std::size_t slot = 0; slot < info->sources.size(); ++slot) {
        const bool is_optional = std::string_view(info->sources[slot]).ends_with('?');
        if (!is_optional && node.src[slot] == nullptr) return false;
    }
    return true;
}

}  // namespace

std::span<const Kernel* const> kernels_for(Op op) { return all_kernels().of(op); }

const Kernel* choose_kernel(const Tensor& node, std::string_view* reason) {
    if (!has_operands(node)) {
        if (reason != nullptr) *reason = "an operand is missing";
        return nullptr;
    }
    return all_kernels().choose(node, reason);
}

}  // namespace heddle::cuda
