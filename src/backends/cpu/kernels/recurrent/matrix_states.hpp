#pragma once

#include <cstring>

#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/recurrent/operands.hpp"

namespace heddle::cpu {

/// All tokens of a sequence for one of the heads.
struct HeadTokens {
    std::int64_t head, tokens;
    std::int64_t offset;   ///< of the operands and the output of the first token
    const float* initial;  ///< the matrix before the first token
    float* matrix;         ///< where it is in the end
};

/// Recurrences over operands [size, heads, tokens] with a matrix [size, size] as the state of each
/// head. The result has the outputs first, then the states after the last token.
struct MatrixStates {
    std::int64_t size, heads, tokens, sequences;
    float* outputs;  // null while the plan is made, as `initial` may be
    const float* initial;

    /// `k` has the extents of all operands, `state` the states before the first token.
    MatrixStates(const Tensor& node, const Tensor& k, const Tensor& state)
        : size(k.ne[0]),
          heads(k.ne[1]),
          tokens(k.ne[2]),
          sequences(state.ne[1]),
          outputs(static_cast<float*>(node.data)),
          initial(static_cast<const float*>(state.data)) {}

    /// Pieces of work: heads of sequences.
    std::int64_t units() const { return heads * sequences; }

    /// Calls `head(piece)` for each piece that has tokens.
    template <class Head>
    void for_heads(Range range, Head&& head) const {
        const std::int64_t elements = size * size, count = sequences > 0 ? tokens / sequences : 0;
        float* states = outputs + size * heads * tokens;
        for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
            const HeadTokens piece{.head = unit % heads,
                                   .tokens = count,
                                   .offset = (unit / heads * count * heads + unit % heads) * size,
                                   .initial = initial + unit * elements,
                                   .matrix = states + unit * elements};
            if (count > 0) {
                head(piece);
            } else {
                std::memcpy(piece.matrix, piece.initial,
                            static_cast<std::size_t>(elements) * sizeof(float));
            }
        }
    }

    /// From the operands of a token to those of the next.
    std::int64_t pitch() const { return heads * size; }

    std::string_view objection() const {
        const bool divides = sequences == 0 ? tokens == 0 : tokens % sequences == 0;
        return divides ? "" : "tokens do not divide into the sequences of the state";
    }
};

}  // namespace heddle::cpu
