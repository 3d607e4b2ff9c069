#pragma once

#include <array>
#include <bit>
#include <optional>

#include "reference/values.hpp"

/// The plain definition of every op: double precision, one function each, written for reading. It
/// knows nothing of kernels, devices or memory; that is what makes it a judge of them.
namespace heddle::tool::reference {

/// What a definition is given.
struct Operands {
    std::array<std::optional<Values>, kMaxSources> sources{};
    std::array<Type, kMaxSources> types{};
    std::array<std::int32_t, GGML_MAX_OP_PARAMS / 4> params{};
    Extents extent{};  ///< of the result
    Values before{};   ///< what the result's memory holds before the op runs

    const Values& operator[](std::size_t slot) const { return *sources[slot]; }
    bool has(std::size_t slot) const { return sources[slot].has_value(); }
    std::int32_t integer(std::size_t word) const { return params[word]; }
    float real(std::size_t word) const { return std::bit_cast<float>(params[word]); }
};

/// One op.
struct Definition {
    Op op;
    Values (*result)(const Operands&);

    /// Sources that the op changes besides, and what they become.
    struct Change {
        int slot = -1;
        Values (*value)(const Operands&) = nullptr;
    };
    std::array<Change, 2> changes{};
};

/// The definition of `op`, or null.
const Definition* definition_of(Op op);

/// Computes what the node of a case must give, from its sources and parameters: fills in
/// `result.bytes` and the `after` of sources that change. Everything else is there already.
Result<> fill_expected(golden::OpCase& node);

// Each family's definitions, in its own file.
std::span<const Definition> elementwise_definitions();
std::span<const Definition> reduce_definitions();
std::span<const Definition> product_definitions();
std::span<const Definition> attention_definitions();
std::span<const Definition> movement_definitions();
std::span<const Definition> maker_definitions();
std::span<const Definition> image_definitions();
std::span<const Definition> convolution_definitions();
std::span<const Definition> recurrent_definitions();
std::span<const Definition> training_definitions();

}  // namespace heddle::tool::reference
