#pragma once

#include <span>
#include <vector>

#include "golden/case_file.hpp"

namespace heddle::tool::reference {

/// A tensor as its definition sees it: extents and numbers, no type, no strides.
class Values {
public:
    Values() : Values(Extents{0, 1, 1, 1}) {}
    explicit Values(const Extents& extent, double fill = 0)
        : extent_(extent),
          data_(static_cast<std::size_t>(extent[0] * extent[1] * extent[2] * extent[3]), fill) {}

    const Extents& extent() const { return extent_; }
    std::int64_t extent(std::size_t d) const { return extent_[d]; }
    std::int64_t count() const { return static_cast<std::int64_t>(data_.size()); }
    std::int64_t rows() const { return extent_[1] * extent_[2] * extent_[3]; }

    double& operator()(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0,
                       std::int64_t i3 = 0) {
        return data_[index(i0, i1, i2, i3)];
    }
    double operator()(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0,
                      std::int64_t i3 = 0) const {
        return data_[index(i0, i1, i2, i3)];
    }

    /// All numbers in logical order, dimension 0 running fastest.
    std::vector<double>& data() { return data_; }
    const std::vector<double>& data() const { return data_; }

    std::span<double> row(std::int64_t r) { return {data_.data() + r * extent_[0], length()}; }
    std::span<const double> row(std::int64_t r) const {
        return {data_.data() + r * extent_[0], length()};
    }

    /// The same numbers under other extents of the same count.
    Values reshaped(const Extents& extent) const {
        Values result(*this);
        result.extent_ = extent;
        return result;
    }

    /// Calls `visit` with the coordinates of every element, in logical order.
    template <class Visit>
    void for_each(Visit visit) const {
        for (std::int64_t i3 = 0; i3 < extent_[3]; ++i3) {
            for (std::int64_t i2 = 0; i2 < extent_[2]; ++i2) {
                for (std::int64_t i1 = 0; i1 < extent_[1]; ++i1) {
                    for (std::int64_t i0 = 0; i0 < extent_[0]; ++i0) visit(i0, i1, i2, i3);
                }
            }
        }
    }

private:
    std::size_t length() const { return static_cast<std::size_t>(extent_[0]); }
    std::size_t index(std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) const {
        return static_cast<std::size_t>(i0 +
                                        extent_[0] * (i1 + extent_[1] * (i2 + extent_[2] * i3)));
    }

    Extents extent_;
    std::vector<double> data_;
};

/// Values of that extent, each element computed from its coordinates.
template <class Compute>
Values make_values(const Extents& extent, Compute compute) {
    Values values(extent);
    std::size_t next = 0;
    values.for_each([&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        values.data()[next++] = compute(i0, i1, i2, i3);
    });
    return values;
}

/// The elements that `layout` describes in `storage`. Any strides, any type; blocks are decoded.
Result<Values> read_values(const golden::Layout& layout, std::span<const std::byte> storage);

/// Rounds `values` to the layout's type and puts them where it says; other bytes stay. Integers are
/// cut toward zero, blocks encoded.
Result<> write_values(const Values& values, const golden::Layout& layout,
                      std::span<std::byte> storage);

/// Encodes `values`, row by row, densely packed. Formats that need weights get equal ones.
Result<golden::Bytes> encode_dense(Type type, const Values& values);

}  // namespace heddle::tool::reference
