#pragma once

#include <optional>

#include "core/type.hpp"
#include "ggml.h"

namespace heddle::cpu {

/// How a dense row of one type becomes one of another. Every conversion that copies and rows ops
/// make is made here:
///
/// - equal types: the same bits;
/// - F32, F16, BF16 among each other, and to I32 (cut off) or to a block type that has an encoder;
/// - I32, or a block type, to F32.
class RowConverter {
public:
    /// No value: there is no such conversion.
    static std::optional<RowConverter> between(Type from, Type to);

    /// Converts `n` elements, whole blocks. The rows do not overlap.
    void operator()(const void* from, void* to, std::int64_t n) const;

    bool is_bitwise() const { return from_ == to_; }

    /// Operations per element that encoding or decoding costs, roughly.
    double flops_per_element() const;

    Type from() const { return from_; }
    Type to() const { return to_; }

private:
    RowConverter(Type from, Type to) : from_(from), to_(to) {}

    void through_floats(const void* from, void* to, std::int64_t n) const;

    Type from_, to_;
    ggml_to_float_t read_ = nullptr;     ///< null: `from_` is F32
    ggml_from_float_t write_ = nullptr;  ///< null: `to_` is F32
};

}  // namespace heddle::cpu
