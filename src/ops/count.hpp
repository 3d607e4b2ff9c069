#pragma once

#include <array>
#include <cstdint>

#include "core/error.hpp"
#include "core/tensor.hpp"

namespace heddle {

/// A 64-bit count of things that remembers an overflow instead of running into one, so that shape
/// rules can be written as their formulas although operands may come from anywhere.
class Count {
public:
    constexpr Count(std::int64_t value) : value_(value) {}

    friend constexpr Count operator+(Count a, Count b) {
        Count sum = joined(a, b);
        sum.overflow_ |= __builtin_add_overflow(a.value_, b.value_, &sum.value_);
        return sum;
    }
    friend constexpr Count operator-(Count a, Count b) {
        Count difference = joined(a, b);
        difference.overflow_ |= __builtin_sub_overflow(a.value_, b.value_, &difference.value_);
        return difference;
    }
    friend constexpr Count operator*(Count a, Count b) {
        Count product = joined(a, b);
        product.overflow_ |= __builtin_mul_overflow(a.value_, b.value_, &product.value_);
        return product;
    }
    /// Truncates toward zero; `divisor` is positive.
    friend constexpr Count operator/(Count a, std::int64_t divisor) {
        a.value_ /= divisor;
        return a;
    }

    /// Whether it could be counted and is `value`.
    constexpr bool is(std::int64_t value) const { return !overflow_ && value_ == value; }

    /// Whether it could be counted and lies in `low .. high`.
    constexpr bool within(std::int64_t low, std::int64_t high) const {
        return !overflow_ && low <= value_ && value_ <= high;
    }

    /// The count, if `counted()`.
    constexpr std::int64_t value() const { return value_; }
    constexpr bool counted() const { return !overflow_; }

private:
    static constexpr Count joined(Count a, Count b) {
        a.overflow_ |= b.overflow_;
        return a;
    }

    std::int64_t value_;
    bool overflow_ = false;
};

/// A densely packed result. Fails where an extent could not be counted; whether the others are
/// extents a tensor can have is judged when it is built.
inline Result<TensorSpec> dense_result(Type type, const std::array<Count, kMaxDims>& counts) {
    Extents extent{};
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        if (!counts[d].counted())
            return invalid("dimension ", d, " of the result is too large to count");
        extent[d] = counts[d].value();
    }
    return TensorSpec::dense(type, extent);
}

}  // namespace heddle
