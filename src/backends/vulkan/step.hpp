#pragma once

#include <array>
#include <variant>

#include "backends/vulkan/kernel.hpp"

namespace heddle::vulkan {

/// An RMS_NORM and the product with its weights.
struct ScaledNorm {
    const Tensor *norm, *product;
    const Tensor& weights() const { return *product->src[product->src[0] == norm ? 1 : 0]; }
};

/// Products of weights with the same single column, with what makes the column and what is made of
/// their results.
struct ColumnGroup {
    const Tensor *norm = nullptr, *scale = nullptr;  ///< the column is an RMS_NORM times weights
    std::array<const Tensor*, 3> products{};
    int count = 0;
    const Tensor* gate = nullptr;  ///< the GLU of two products
    const Tensor* sum = nullptr;   ///< of one product and a vector

    /// What the column is made of.
    const Tensor& activations() const { return norm != nullptr ? *norm->src[0] : *first().src[1]; }
    const Tensor& first() const { return *products[0]; }
    const Tensor& addend() const { return *sum->src[sum->src[0] == products[0] ? 1 : 0]; }
};

/// A ROPE whose result goes to rows of a cache.
struct RopeStore {
    const Tensor *rope, *store;
};

/// The nodes of a step.
class StepNodes {
public:
    void add(const Tensor* node) {
        if (node != nullptr) nodes_[count_++] = node;
    }
    const Tensor* const* begin() const { return nodes_.data(); }
    const Tensor* const* end() const { return nodes_.data() + count_; }
    bool contain(const Tensor* node) const { return std::find(begin(), end(), node) != end(); }

private:
    std::array<const Tensor*, 6> nodes_{};  // a ColumnGroup with all there can be
    std::size_t count_ = 0;
};

/// What is computed at once: a node by its kernel, or several together.
struct Step {
    const Kernel* kernel;  ///< of a single node, or of the first product
    std::variant<const Tensor*, ScaledNorm, ColumnGroup, RopeStore> work;

    /// Those that make the column first, then products, then what is made of them.
    StepNodes nodes() const;

    /// Those whose results are written.
    StepNodes results() const;

    const char* name() const;
    void record(Recorder& recorder) const;

    /// The node, if it is a single one; else null.
    const Tensor* single() const {
        const auto* node = std::get_if<const Tensor*>(&work);
        return node != nullptr ? *node : nullptr;
    }
};

void record_scaled_norm(const ScaledNorm& pair, Recorder& recorder);
void record_columns(const ColumnGroup& group, Recorder& recorder);
void record_rope_store(const RopeStore& pair, Recorder& recorder);

}  // namespace heddle::vulkan
