#include "backends/cpu/kernels/movement/layout.hpp"

#include <algorithm>

namespace heddle::cpu {

Layout Layout::of(const Tensor& t) {
    Layout layout;
    layout.data = static_cast<std::byte*>(t.data);
    layout.unit = size_of(t.type);
    for (int d = 0; d < kMaxDims; ++d) {
        const std::int64_t extent = d == 0 ? t.ne[0] / block_size(t.type) : t.ne[d];
        layout.add({extent, static_cast<std::int64_t>(t.nb[d])});
    }
    layout.close();
    return layout;
}

void Layout::add(const Axis& axis) {
    if (axis.extent == 1) return;
    if (rank > 0) {
        Axis& last = axes[rank - 1];
        if (axis.stride == last.stride * last.extent) {
            last.extent *= axis.extent;
            return;
        }
    }
    axes[rank++] = axis;
}

void Layout::close() {
    if (rank == 0) axes[rank++] = {1, static_cast<std::int64_t>(unit)};
}

std::int64_t Layout::count() const {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < rank; ++d) count *= axes[d].extent;
    return count;
}

bool Layout::group(std::int64_t n) {
    if (n == 1) return true;
    if (!is_dense() || axes[0].extent % n != 0) return false;
    unit *= static_cast<std::size_t>(n);
    const Layout old = *this;
    rank = 0;
    add({old.axes[0].extent / n, static_cast<std::int64_t>(unit)});
    for (std::size_t d = 1; d < old.rank; ++d) add(old.axes[d]);
    close();
    return true;
}

namespace {

/// The same axis of two layouts.
struct AxisPair {
    std::int64_t extent, from, to;

    bool continues(const AxisPair& other) const {
        return from == other.from * other.extent && to == other.to * other.extent;
    }
};

/// Common axes of two layouts; 0 of them if there are none.
std::size_t common_axes(const Layout& from, const Layout& to,
                        std::array<AxisPair, Layout::kMaxAxes>& pairs) {
    std::size_t count = 0, i = 0, j = 0;
    Axis x = from.axes[0], y = to.axes[0];
    while (true) {
        const std::int64_t extent = std::min(x.extent, y.extent);
        const bool meets = extent > 0 && x.extent % extent == 0 && y.extent % extent == 0;
        if (!meets || count == pairs.size()) return 0;
        pairs[count++] = {extent, x.stride, y.stride};
        x = {x.extent / extent, x.stride * extent};
        y = {y.extent / extent, y.stride * extent};
        if (x.extent == 1 && ++i < from.rank) x = from.axes[i];
        if (y.extent == 1 && ++j < to.rank) y = to.axes[j];
        if (i >= from.rank && j >= to.rank) return count;
        if (i >= from.rank || j >= to.rank) return 0;  // counts differ
    }
}

}  // namespace

bool align(Layout& from, Layout& to) {
    // What is dense on both sides, and often small, is spared the divisions.
    if (from.rank == 1 && to.rank == 1 && from.axes[0].extent == to.axes[0].extent) {
        return from.axes[0].extent > 0;
    }
    std::array<AxisPair, Layout::kMaxAxes> pairs;
    const std::size_t count = common_axes(from, to, pairs);
    if (count == 0) return false;
    // Few enough for the simplest way to sort.
    for (std::size_t d = 1; d < count; ++d) {
        for (std::size_t e = d; e > 0 && pairs[e].to < pairs[e - 1].to; --e) {
            std::swap(pairs[e], pairs[e - 1]);
        }
    }
    std::size_t rank = 0;
    for (std::size_t d = 0; d < count; ++d) {
        if (rank > 0 && pairs[d].continues(pairs[rank - 1])) {
            pairs[rank - 1].extent *= pairs[d].extent;
        } else {
            pairs[rank++] = pairs[d];
        }
    }
    from.rank = to.rank = rank;
    for (std::size_t d = 0; d < rank; ++d) {
        from.axes[d] = {pairs[d].extent, pairs[d].from};
        to.axes[d] = {pairs[d].extent, pairs[d].to};
    }
    return true;
}

Cursor::Cursor(const Layout& layout, std::int64_t index) : layout_(layout), here_(layout.data) {
    const std::size_t last = layout.rank - 1;
    for (std::size_t d = 0; d < last; ++d) {
        const Axis& axis = layout.axes[d];
        position_[d] = index % axis.extent;
        index /= axis.extent;
        here_ += position_[d] * axis.stride;
    }
    position_[last] = index;
    here_ += index * layout.axes[last].stride;
}

void Cursor::advance(std::int64_t n) {
    position_[0] += n;
    here_ += n * layout_.axes[0].stride;
    for (std::size_t d = 0; position_[d] == layout_.axes[d].extent; ++d) {
        here_ -= position_[d] * layout_.axes[d].stride;
        position_[d] = 0;
        if (d + 1 == layout_.rank) return;
        ++position_[d + 1];
        here_ += layout_.axes[d + 1].stride;
    }
}

}  // namespace heddle::cpu
