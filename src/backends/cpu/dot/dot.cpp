#include "backends/cpu/dot/dot.hpp"

namespace heddle::cpu {

DotColumns dot_columns_of(Type type) {
    for (const auto family : {plain_dot_of, simple_dot_of, k_dot_of, grid_dot_of}) {
        if (const DotColumns dot = family(type); dot != nullptr) return dot;
    }
    return nullptr;
}

}  // namespace heddle::cpu
