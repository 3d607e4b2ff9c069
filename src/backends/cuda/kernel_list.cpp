#include "backends/cuda/kernel_list.hpp"

#include "backends/gpu/kernel_table.hpp"

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

}  // namespace

std::span<const Kernel* const> kernels_for(Op op) { return all_kernels().of(op); }

const Kernel* choose_kernel(const Tensor& node, Objections* why) {
    if (!gpu::has_operands(node)) {
        if (why != nullptr) why->add({}, "an operand is missing");
        return nullptr;
    }
    return all_kernels().choose(node, why);
}

const Kernel* choose_sound_kernel(const Tensor& node) { return all_kernels().choose_sound(node); }

}  // namespace heddle::cuda
