#pragma once

#include <cstring>

#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/recurrent/operands.hpp"

namespace heddle::cpu {

/// Recurrences over operands [size, heads, tokens] with a matrix [size, size] as the state of each
/// head. The result has the outputs first, then the states after the last token.
struct MatrixStates {
    std::int64_t size, heads, tokens, sequences;
    float *outputs, *states;
    const float* initial;

    /// `k` has the extents of all operands, `state` the states before the first token.
    MatrixStates(const Tensor& node, const Tensor& k, const Tensor& state)
        : size(k.ne[0]),
          heads(k.ne[1]),
          tokens(k.ne[2]),
          sequences(state.ne[1]),
          outputs(static_cast<float*>(node.data)),
          states(outputs + size * heads * tokens),
          initial(static_cast<const float*>(state.data)) {}

    /// Pieces of work: heads of sequences.
    std::int64_t units() const { return heads * sequences; }

    /// Calls `step(head, offset, y, matrix)` for each token of the given heads: its operands begin
    /// `offset` elements behind the first, its output goes to `y`. The matrix is changed in place.
    template <class Step>
    void for_tokens(Range range, Step&& step) const {
        for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
            const std::int64_t sequence = unit / heads, head = unit % heads;
            const std::int64_t elements = size * size, count = tokens / sequences;
            float* matrix = states + unit * elements;
            std::memcpy(matrix, initial + unit * elements,
                        static_cast<std::size_t>(elements) * sizeof(float));
            for (std::int64_t t = sequence * count; t < (sequence + 1) * count; ++t) {
                const std::int64_t offset = (t * heads + head) * size;
                step(head, offset, outputs + offset, matrix);
            }
        }
    }

    std::string_view objection() const {
        const bool divides = sequences == 0 ? tokens == 0 : tokens % sequences == 0;
        return divides ? "" : "tokens do not divide into the sequences of the state";
    }
};

}  // namespace heddle::cpu
