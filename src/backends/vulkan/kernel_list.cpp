#include <array>

#include "backends/gpu/kernel_table.hpp"
#include "backends/vulkan/kernel.hpp"
#include "ops/catalogue.hpp"

namespace heddle::vulkan {
namespace {

const gpu::KernelTable<Kernel>& all_kernels() {
    static const gpu::KernelTable<Kernel> table{
        elementwise_kernels(), generate_kernels(), copy_kernels(),        index_kernels(),
        assemble_kernels(),    norm_kernels(),     reduce_kernels(),      sort_kernels(),
        soft_max_kernels(),    rope_kernels(),     convolution_kernels(), image_kernels(),
        recurrent_kernels(),   stream_kernels(),   training_kernels(),    column_kernels(),
        product_kernels(),     attention_kernels()};
    return table;
}

/// Shaders count with 32 bits.
bool is_countable(const Tensor& tensor) {
    constexpr std::int64_t most = 0x7fffffff;
    for (int d = 0; d < kMaxDims; ++d) {
        if (tensor.ne[d] > most) return false;
    }
    return element_count(tensor) <= most;
}

}  // namespace

const Kernel* choose_kernel(const Tensor& node, const DeviceFacts& device, Objections* why) {
    const auto decline = [&](std::string_view reason) -> const Kernel* {
        if (why != nullptr) why->add({}, reason);
        return nullptr;
    };
    if (!gpu::has_operands(node)) return decline("an operand is missing");
    if (!check_node(node)) return decline(kUnsoundNode);
    if (!is_countable(node)) return decline("the result has more than 2^31 - 1 elements");
    for (const Tensor* source : node.src) {
        if (source != nullptr && !is_countable(*source)) {
            return decline("an operand has more than 2^31 - 1 elements");
        }
    }
    return all_kernels().choose(node, why, [&](const Kernel& kernel) {
        const std::string_view reason = kernel.objection(node);
        if (!reason.empty() || kernel.device_objection == nullptr) return reason;
        return kernel.device_objection(node, device);
    });
}

}  // namespace heddle::vulkan
