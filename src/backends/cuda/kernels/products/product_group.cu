#include <span>

#include "backends/cuda/kernels/products/gemm_library.hpp"
#include "backends/cuda/kernels/products/gemm_wgmma.hpp"
#include "backends/cuda/kernels/products/product_group.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

bool is_by_library(const Tensor& product) { return block_size(product.src[0]->type) == 1; }

TileSource source_of(const ProductGroup& group) {
    if (group.norm != nullptr)
        return {
            .rows = group.norm->src[0], .norm = group.norm, .norm_weights = &group.norm_weights()};
    if (group.is_ready)
        return {.rows = group.glu, .tiles = static_cast<const std::byte*>(group.glu->data)};
    if (group.glu != nullptr)
        return {.rows = group.glu->src[0], .glu = group.glu, .linear = group.glu->src[1]};
    return {.rows = group.products[0]->src[1]};
}

/// Every node by its own kernel.
void launch_nodes(const ProductGroup& group, const Launch& launch) {
    for (const Tensor* node : group.nodes())
        if (const Kernel* const kernel = choose_kernel(*node);
            kernel != nullptr && node != group.gated)
            kernel->launch(*node, launch);
    if (group.gated != nullptr) convert_gated(*group.gated, *group.next, launch);
}

}  // namespace

std::vector<const Tensor*> ProductGroup::nodes() const {
    std::vector<const Tensor*> all;
    for (const Tensor* node :
         {norm, scale, is_ready ? nullptr : glu, products[0], products[1], products[2], sum, gated})
        if (node != nullptr) all.push_back(node);
    return all;
}

bool can_be_grouped(const Tensor& product, const Kernel& kernel, const DeviceFacts& device) {
    if (product.op != GGML_OP_MUL_MAT || is_empty(product)) return false;
    if (kernel.launch == kGemmWgmma.launch || kernel.launch == kGemmWgmmaFew.launch)
        return can_wgmma(product, device);
    return kernel.launch == kGemmLibrary.launch && can_group_by_library(product);
}

bool can_be_together(const Tensor& a, const Tensor& b) {
    return a.src[0]->ne[0] == b.src[0]->ne[0] && share_activations(a.src[0]->type, b.src[0]->type);
}

bool can_be_gated(const ProductGroup& group, const Tensor& glu, const Tensor& next,
                  const DeviceFacts& device) {
    return group.count == 2 && !is_by_library(*group.products[0]) && !is_by_library(next) &&
           can_make_gated(*group.products[0], *group.products[1], glu, next, device);
}

void launch_group(const ProductGroup& group, const Launch& launch) {
    const std::span products(group.products.data(), static_cast<std::size_t>(group.count));
    const TileSource source = source_of(group);
    const bool is_done =
        is_by_library(*products[0]) ? launch_library_products(products, source, group.sum, launch)
        : group.gated != nullptr    ? launch_wgmma_gated(*group.gated, *group.next, source, launch)
                                    : launch_wgmma_products(products, source, group.sum, launch);
    if (!is_done) launch_nodes(group, launch);
}

}  // namespace heddle::cuda
