#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/meta/split.hpp"

namespace heddle::meta {

/// Where the bytes of a cut tensor are: from byte `begin` on, a pattern of shares in bytes that
/// begins anew after each `unit`.
struct Region {
    std::size_t begin = 0;
    std::size_t unit = 0;
    std::vector<Segment> pattern;
    std::array<std::size_t, kMaxDevices> device_begin{};  ///< the same place on each device
    std::array<std::size_t, kMaxDevices> device_unit{};
};

/// One region; ops that pack two results into one tensor have one for each.
using Layout = std::vector<Region>;

/// The layout of `root`, which is cut, contiguous and no view.
Result<Layout> layout_of(const Tensor& root, const Split& split);

/// The part of `root`, which is no view, that `device` has: type, extents, strides, name. It has no
/// memory, op or sources.
Result<Tensor> slice_of(const Tensor& root, const Split& split, std::size_t device);

/// A view of a cut tensor: how it is cut itself, and how to find it on each device.
struct CutView {
    Split split;
    struct OnDevice {
        Strides stride{};
        std::size_t offset = 0;  ///< in the device's part of the root
    };
    std::array<OnDevice, kMaxDevices> devices{};
};

/// Finds `view` in the parts of its root. Its elements must lie on the devices in such a way that
/// each has a part of it that is a view of its part of the root. `hint` is the dimension that is
/// probably cut; -1: no idea.
Result<CutView> cut_view(const Tensor& root, const Split& root_split, const Tensor& view, int hint);

/// How a cut tensor of extents `from` is cut if its elements are counted on in extents `to`.
Result<Split> reshaped(const Split& split, const Extents& from, const Extents& to);

/// Equal pieces of a range of a cut tensor that one device has.
struct Run {
    std::size_t device = 0;
    std::size_t device_offset = 0;  ///< of the first piece, in the device's part
    std::size_t offset = 0;         ///< of the first piece, from the beginning of the range
    std::size_t size = 0;           ///< bytes of a piece
    std::size_t count = 0;
    std::size_t device_stride = 0, stride = 0;  ///< from piece to piece
};

/// Calls `visit` for everything in `size` bytes from `offset` on; stops at its first failure.
Result<> for_each_run(const Layout& layout, std::size_t offset, std::size_t size,
                      const std::function<Result<>(const Run&)>& visit);

}  // namespace heddle::meta
