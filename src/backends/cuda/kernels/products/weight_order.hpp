#pragma once

namespace heddle::cuda {

/// Which elements lane t of the four that share a row of weights has, as two pairs for each k = 16.
/// Activations are stored in the same order.
enum class WeightOrder {
    plain,   ///< of operands that lie in memory as they are
    fours,   ///< of 16 elements 4 t + {0, 2}, {1, 3}
    eights,  ///< of 32 elements 8 t + {0, 1}, {2, 3}, and in the next k = 16 {4, 5}, {6, 7}
};

}  // namespace heddle::cuda
