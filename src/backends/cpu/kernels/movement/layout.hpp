#pragma once

#include <array>

#include "core/tensor.hpp"

namespace heddle::cpu {

/// One loop over memory.
struct Axis {
    std::int64_t extent;
    std::int64_t stride;  ///< bytes
};

/// Where units of data lie, in logical order: axis 0 runs fastest. A unit is an element, or a group
/// of elements that stay together, such as a block. There is at least one axis.
struct Layout {
    static constexpr std::size_t kMaxAxes = 8;

    std::byte* data = nullptr;
    std::size_t unit = 0;  ///< bytes of one
    std::size_t rank = 0;
    std::array<Axis, kMaxAxes> axes{};

    /// The elements of `t`, or its blocks.
    static Layout of(const Tensor& t);

    /// Behind the others. An axis of extent 1 is left out, one that continues the last is joined to
    /// it.
    void add(const Axis& axis);

    /// Puts an axis in place if none was added.
    void close();

    std::int64_t count() const;

    /// Whether the units along axis 0 follow each other.
    bool is_dense() const { return axes[0].stride == static_cast<std::int64_t>(unit); }

    /// Takes `n` units along axis 0 as one. False if they do not follow each other in such groups.
    bool group(std::int64_t n);
};

/// Splits axes of both until they have the same extents, which lets loops be ordered at will. Puts
/// what is written with the smallest stride first. False, and nothing is changed, if units do not
/// meet: 3 x 5 and 5 x 3.
bool align(Layout& from, Layout& to);

/// A place in a layout.
class Cursor {
public:
    Cursor(const Layout& layout, std::int64_t index);

    std::byte* here() const { return here_; }

    /// Units up to the end of axis 0.
    std::int64_t left() const { return layout_.axes[0].extent - position_[0]; }

    /// Goes on by `n` units, at most those that are left.
    void advance(std::int64_t n);

private:
    const Layout& layout_;
    std::byte* here_;
    std::array<std::int64_t, Layout::kMaxAxes> position_{};
};

}  // namespace heddle::cpu
