#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/tensor.hpp"

/// What a BLAS library can do for a graph: products of matrices.
namespace heddle::blas {

/// Memory for operands converted to f32, and the threads to do it with. Grows, never shrinks.
class Workspace {
public:
    int threads = 1;

    /// Room for `count` numbers; what was there is lost.
    Result<float*> reserve(std::size_t count);

private:
    std::vector<float> memory_;
};

/// One op that is computed as calls of the BLAS library.
struct Product {
    Op op;

    /// Empty if the node can be computed here, else why not. Looks at types and shapes alone.
    std::string_view (*objection)(const Tensor& node);

    /// Computes the whole node. Operands are in host memory.
    Result<> (*run)(const Tensor& node, Workspace& workspace);
};

/// Every op there is.
std::span<const Product> all_products();

/// The row for `op`, or null.
const Product* find_product(Op op);

}  // namespace heddle::blas
