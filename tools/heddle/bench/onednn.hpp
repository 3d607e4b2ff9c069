#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "heddle/result.hpp"

/// oneDNN, where it is installed: another library to compare products with.
namespace heddle::tool::bench {

/// A product of f32 matrices, on operands of its own: y[j, i] = sum over l of a[i, l] * b[j, l].
class OneDnnProduct {
public:
    virtual ~OneDnnProduct() = default;
    /// Threads are set each time: others in this process may have set them meanwhile.
    virtual Result<> run(int threads) = 0;
};

struct ProductSize {
    std::int64_t rows, columns, n;
};

/// What the library calls itself; empty if the program was built without it.
std::string onednn_name();

/// Fails if the program was built without the library.
Result<std::unique_ptr<OneDnnProduct>> make_onednn_product(const ProductSize& size);

}  // namespace heddle::tool::bench
