#include "runtime/meta/layout.hpp"

#include <algorithm>

#include "ggml/op_list.h"

namespace heddle::meta {
namespace {

/// `split` with shares in bytes of `tensor`.
std::vector<Segment> in_bytes(const Tensor& tensor, const Split& split) {
    std::vector<Segment> pattern = split.segments;
    const std::size_t dim = split.dim();
    for (Segment& segment : pattern) {
        for (std::int64_t& share : segment.share) {
            const std::size_t bytes = dim == 0 ? row_size(tensor.type, share)
                                               : static_cast<std::size_t>(share) * tensor.nb[dim];
            share = static_cast<std::int64_t>(bytes);
        }
    }
    return pattern;
}

Region make_region(std::size_t begin, std::vector<Segment> pattern) {
    Region region;
    region.begin = begin;
    for (const Segment& segment : pattern) {
        region.unit += segment.repeats * static_cast<std::size_t>(segment.length());
        for (std::size_t j = 0; j < kMaxDevices; ++j) {
            region.device_unit[j] += segment.repeats * static_cast<std::size_t>(segment.share[j]);
        }
    }
    region.pattern = std::move(pattern);
    return region;
}

/// The states behind the outputs of GATED_DELTA_NET: S rows of S elements for each head, while the
/// outputs before them have one row for each head.
Region states_region(const Tensor& root, const Region& outputs) {
    const Tensor& v = *root.src[2];
    const auto rows = static_cast<std::size_t>(v.ne[2] * v.ne[3]);
    std::vector<Segment> pattern = outputs.pattern;
    for (Segment& segment : pattern) {
        for (std::int64_t& share : segment.share) share *= v.ne[0];
    }
    Region states = make_region(rows * outputs.unit, std::move(pattern));
    for (std::size_t j = 0; j < kMaxDevices; ++j) {
        states.device_begin[j] = rows * outputs.device_unit[j];
    }
    return states;
}

/// Dimension 0 counted in blocks, as strides do.
std::int64_t steps(const Tensor& tensor, std::size_t dim) {
    return dim == 0 ? tensor.ne[0] / block_size(tensor.type) : tensor.ne[dim];
}

/// A try to read a view as cut along one of its dimensions.
class Attempt {
public:
    Attempt(const Region& region, const Tensor& view, std::size_t dim)
        : region_(region),
          view_(view),
          dim_(dim),
          step_(view.nb[dim]),
          at_(view.view_offs - region.begin) {}

    bool run(CutView& found) {
        if (step_ == 0 || region_.unit == 0) return false;
        is_uniform_ = region_.pattern.size() == 1;
        cycle_ = is_uniform_ ? static_cast<std::size_t>(region_.pattern[0].length()) : region_.unit;
        if (!others_fit() || !collect(found.split)) return false;
        found.split.axis = static_cast<Axis>(dim_);
        for (std::size_t j = 0; j < kMaxDevices; ++j) found.devices[j] = on_device(j);
        return true;
    }

private:
    /// Smaller steps stay within one step of the cut dimension, larger ones cover whole cycles.
    bool others_fit() const {
        std::size_t inner = size_of(view_.type);
        for (std::size_t d = 0; d < kMaxDims; ++d) {
            if (d == dim_ || view_.ne[d] == 1) continue;
            if (view_.nb[d] < step_) {
                inner += static_cast<std::size_t>(steps(view_, d) - 1) * view_.nb[d];
            } else if (view_.nb[d] % cycle_ != 0) {
                return false;
            }
        }
        return at_ % step_ + inner <= step_;
    }

    /// The segments that the cut dimension runs through, which must be whole ones.
    bool collect(Split& split) {
        std::size_t left = static_cast<std::size_t>(steps(view_, dim_)) * step_;
        const std::size_t start = at_ - at_ % step_;
        if (is_uniform_) {
            const Segment& only = region_.pattern[0];
            if (start % cycle_ != 0 || left % cycle_ != 0) return false;
            for (std::size_t j = 0; j < kMaxDevices; ++j) {
                before_[j] = start / cycle_ * static_cast<std::size_t>(only.share[j]);
            }
            return add(split, only, left / cycle_);
        }
        for (std::size_t j = 0; j < kMaxDevices; ++j) {
            before_[j] = start / region_.unit * region_.device_unit[j];
        }
        std::size_t skip = start % region_.unit;
        while (left > 0) {
            for (const Segment& segment : region_.pattern) {
                const auto length = static_cast<std::size_t>(segment.length());
                const std::size_t skipped = std::min<std::size_t>(skip / length, segment.repeats);
                skip -= skipped * length;
                for (std::size_t j = 0; j < kMaxDevices; ++j) {
                    if (split.segments.empty()) {
                        before_[j] += skipped * static_cast<std::size_t>(segment.share[j]);
                    }
                }
                if (skipped == segment.repeats) continue;
                if (skip != 0) return false;
                const std::size_t taken =
                    std::min<std::size_t>(left / length, segment.repeats - skipped);
                if (!add(split, segment, taken)) return false;
                left -= taken * length;
                if (left == 0) break;
                if (taken < segment.repeats - skipped) return false;
            }
        }
        return true;
    }

    bool add(Split& split, Segment segment, std::size_t repeats) const {
        segment.repeats = static_cast<std::uint32_t>(repeats);
        const auto step = static_cast<std::int64_t>(step_);
        for (std::int64_t& share : segment.share) {
            if (share % step != 0) return false;
            share /= step;
            if (dim_ == 0) share *= block_size(view_.type);
        }
        split.add(segment);
        return true;
    }

    CutView::OnDevice on_device(std::size_t j) const {
        CutView::OnDevice place;
        const std::size_t device_cycle = is_uniform_
                                             ? static_cast<std::size_t>(region_.pattern[0].share[j])
                                             : region_.device_unit[j];
        for (std::size_t d = 0; d < kMaxDims; ++d) {
            const std::size_t stride = view_.nb[d];
            const bool is_outer = d != dim_ && stride >= step_ && stride % cycle_ == 0;
            place.stride[d] = is_outer ? stride / cycle_ * device_cycle : stride;
        }
        place.offset = region_.device_begin[j] + before_[j] + at_ % step_;
        return place;
    }

    const Region& region_;
    const Tensor& view_;
    std::size_t dim_, step_, at_;
    std::size_t cycle_ = 0;
    bool is_uniform_ = false;
    std::array<std::size_t, kMaxDevices> before_{};  ///< bytes of the region before the view
};

/// Dimensions to try: the likely one first, then from large steps to small ones. Steps over whole
/// units come last: they are cuts only where one device has everything.
std::vector<std::size_t> candidates(const Region& region, const Tensor& view, int hint) {
    std::vector<std::size_t> dims{3, 2, 1, 0};
    std::erase_if(dims, [&](std::size_t d) { return view.ne[d] == 1; });
    std::ranges::stable_sort(dims, [&](std::size_t a, std::size_t b) {
        const bool is_inside_a = view.nb[a] < region.unit, is_inside_b = view.nb[b] < region.unit;
        return is_inside_a != is_inside_b ? is_inside_a : view.nb[a] > view.nb[b];
    });
    if (hint >= 0) dims.insert(dims.begin(), static_cast<std::size_t>(hint));
    return dims;
}

/// Pieces of `count` units from byte `low` to byte `high` of each; `first` is the first unit.
struct Units {
    std::size_t first, count, low, high;
};

Result<> visit_units(const Region& region, const Units& units, std::size_t range_begin,
                     const std::function<Result<>(const Run&)>& visit) {
    std::size_t at = 0;
    std::array<std::size_t, kMaxDevices> device_at{};
    for (const Segment& segment : region.pattern) {
        for (std::uint32_t repeat = 0; repeat < segment.repeats; ++repeat) {
            for (std::size_t j = 0; j < kMaxDevices; ++j) {
                const auto share = static_cast<std::size_t>(segment.share[j]);
                const std::size_t from = std::max(at, units.low);
                const std::size_t to = std::min(at + share, units.high);
                if (from < to) {
                    HEDDLE_TRY(visit(
                        {.device = j,
                         .device_offset = region.device_begin[j] +
                                          units.first * region.device_unit[j] + device_at[j] +
                                          (from - at),
                         .offset = region.begin + units.first * region.unit + from - range_begin,
                         .size = to - from,
                         .count = units.count,
                         .device_stride = region.device_unit[j],
                         .stride = region.unit}));
                }
                at += share;
                device_at[j] += share;
            }
        }
    }
    return ok();
}

}  // namespace

Result<Layout> layout_of(const Tensor& root, const Split& split) {
    if (!is_contiguous(root)) {
        return failure(Errc::unsupported, "cutting ", heddle::describe(root),
                       ": only contiguous tensors can be cut");
    }
    Layout layout{make_region(0, in_bytes(root, split))};
    if (root.op == GGML_OP_GATED_DELTA_NET && root.src[2] != nullptr) {
        layout.push_back(states_region(root, layout[0]));
    }
    return layout;
}

Result<Tensor> slice_of(const Tensor& root, const Split& split, std::size_t device) {
    Tensor slice{};
    slice.type = root.type;
    set_name(slice, heddle::name_of(root));
    std::copy(root.ne, root.ne + kMaxDims, slice.ne);
    std::copy(root.nb, root.nb + kMaxDims, slice.nb);
    if (!split.is_cut()) return slice;
    slice.ne[split.dim()] = total_share(split, device);
    if (slice.ne[0] % block_size(root.type) != 0) {
        return invalid("cutting ", heddle::describe(root), ": ", slice.ne[0],
                       " elements are not made of blocks of ", block_size(root.type));
    }
    const Strides strides = dense_strides(root.type, extents_of(slice));
    std::ranges::copy(strides, slice.nb);
    return slice;
}

Result<CutView> cut_view(const Tensor& root, const Split& root_split, const Tensor& view,
                         int hint) {
    if (is_empty(view)) return CutView{};
    HEDDLE_TRY_ASSIGN(const Layout layout, layout_of(root, root_split));
    const Region* region = &layout.front();
    for (const Region& each : layout) {
        if (each.begin <= view.view_offs) region = &each;
    }
    for (const std::size_t dim : candidates(*region, view, hint)) {
        CutView found;
        if (Attempt(*region, view, dim).run(found)) return found;
    }
    return failure(Errc::unsupported, "its elements lie across the cuts of ",
                   heddle::describe(root), " along dimension ", root_split.dim(), ", from byte ",
                   view.view_offs, " on");
}

Result<Split> reshaped(const Split& split, const Extents& from, const Extents& to) {
    if (!split.is_cut() || from == to) return split;
    const auto dense = [](const Extents& extents) {
        Tensor tensor{};
        tensor.type = GGML_TYPE_I8;
        std::ranges::copy(extents, tensor.ne);
        std::ranges::copy(dense_strides(tensor.type, extents), tensor.nb);
        return tensor;
    };
    const Tensor whole = dense(from), view = dense(to);
    const std::size_t dim = split.dim();
    const bool same_place = whole.nb[dim] == view.nb[dim];
    HEDDLE_TRY_ASSIGN(const CutView cut,
                      cut_view(whole, split, view, same_place ? static_cast<int>(dim) : -1));
    return cut.split;
}

Result<> for_each_run(const Layout& layout, std::size_t offset, std::size_t size,
                      const std::function<Result<>(const Run&)>& visit) {
    const std::size_t end = offset + size;
    for (std::size_t r = 0; r < layout.size(); ++r) {
        const Region& region = layout[r];
        if (region.unit == 0) continue;
        std::size_t from = std::max(offset, region.begin);
        const std::size_t to = r + 1 < layout.size() ? std::min(end, layout[r + 1].begin) : end;
        while (from < to) {
            const std::size_t first = (from - region.begin) / region.unit;
            const std::size_t low = (from - region.begin) % region.unit;
            const bool is_whole = low == 0 && to - from >= region.unit;
            const std::size_t high =
                is_whole ? region.unit : std::min(region.unit, low + (to - from));
            const std::size_t count = is_whole ? (to - from) / region.unit : 1;
            HEDDLE_TRY(visit_units(region, {first, count, low, high}, offset, visit));
            from += is_whole ? count * region.unit : high - low;
        }
    }
    return ok();
}

}  // namespace heddle::meta
