#pragma once

#include <array>

#include "backends/cuda/kernels/rows/rope_store.hpp"

namespace heddle::cuda {

/// Nodes around matrix-vector products that one launch computes.
struct ColumnGroup {
    const Tensor* norm = nullptr;   ///< RMS_NORM of the activations,
    const Tensor* scale = nullptr;  ///< and its MUL with weights; or neither
    std::array<const Tensor*, 3> products{};
    int count = 0;
    const Tensor* gate = nullptr;     ///< the GLU of two products
    const Tensor* sum = nullptr;      ///< the ADD of one product and something of its shape
    std::array<RopeStore, 3> ends{};  ///< what follows each product, or nothing
    bool has_early_inputs = false;    ///< nothing in the graph writes what `ends` read besides

    /// What all products multiply with, before norm and scale.
    const Tensor& activations() const {
        return norm != nullptr ? *norm->src[0] : *products[0]->src[1];
    }
    /// What the norm is multiplied with.
    const Tensor& norm_weights() const { return *scale->src[scale->src[0] == norm ? 1 : 0]; }
    /// What the sum adds to the product.
    const Tensor& addend() const {
        return sum->src[0] == products[0] ? *sum->src[1] : *sum->src[0];
    }
    bool has_end(int i) const {
        const RopeStore& end = ends[static_cast<std::size_t>(i)];
        return end.rope != nullptr || end.store != nullptr;
    }
    /// The result of a product, or of what follows it.
    const Tensor& result(int i) const {
        if (gate != nullptr) return *gate;
        if (has_end(i)) return ends[static_cast<std::size_t>(i)].result();
        return sum != nullptr ? *sum : *products[static_cast<std::size_t>(i)];
    }
};

/// Why a product, which has its memory, is not one for such a group; empty if it is.
std::string_view column_objection(const Tensor& product, const DeviceFacts& device);

/// Why what follows product `i` of a group cannot be computed with it; empty if it can.
std::string_view end_objection(const ColumnGroup& group, int i, const RopeStore& end,
                               const DeviceFacts& device);

/// Whether products with weights of this type can take a column that the launch before has coded.
bool is_passed_to(ggml_type weights);

/// All products have one type and depth.
void launch_columns(const ColumnGroup& group, const Launch& launch);

}  // namespace heddle::cuda
