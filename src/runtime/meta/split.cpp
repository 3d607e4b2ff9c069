#include "runtime/meta/split.hpp"

#include <limits>
#include <numeric>

namespace heddle::meta {
namespace {

constexpr std::uint32_t kMaxSegments = 16;

}  // namespace

std::int64_t Segment::length() const {
    return std::accumulate(share.begin(), share.end(), std::int64_t{0});
}

void Split::add(const Segment& segment) {
    if (segment.repeats == 0 || segment.length() == 0) return;
    if (!segments.empty() && segments.back().share == segment.share) {
        segments.back().repeats += segment.repeats;
    } else {
        segments.push_back(segment);
    }
}

const char* axis_name(Axis axis) {
    static constexpr const char* kDims[] = {"0", "1", "2", "3"};
    switch (axis) {
        case GGML_BACKEND_SPLIT_AXIS_0:
        case GGML_BACKEND_SPLIT_AXIS_1:
        case GGML_BACKEND_SPLIT_AXIS_2:
        case GGML_BACKEND_SPLIT_AXIS_3:
            return kDims[static_cast<std::size_t>(axis)];
        case GGML_BACKEND_SPLIT_AXIS_MIRRORED:
            return "MIRRORED";
        case GGML_BACKEND_SPLIT_AXIS_PARTIAL:
            return "PARTIAL";
        case GGML_BACKEND_SPLIT_AXIS_NONE:
            return "NONE";
        case GGML_BACKEND_SPLIT_AXIS_UNKNOWN:
            return "UNKNOWN";
    }
    return nullptr;
}

std::string describe(const Split& split, std::size_t devices) {
    if (!split.is_cut()) return axis_name(split.axis);
    std::string words = text("axis ", axis_name(split.axis), " (");
    for (std::size_t s = 0; s < split.segments.size(); ++s) {
        const Segment& segment = split.segments[s];
        if (s > 0) words += ' ';
        if (segment.repeats > 1) words += text(segment.repeats, 'x');
        for (std::size_t j = 0; j < devices; ++j) {
            words += text(j > 0 ? "|" : "", segment.share[j]);
        }
    }
    return words + ')';
}

Result<Split> checked(const ::ggml_backend_meta_split_state& state, const Tensor& tensor,
                      std::size_t devices) {
    Split split{state.axis, {}};
    if (split.is_mirrored() || split.is_sum()) return split;
    if (static_cast<int>(state.axis) < 0 || !split.is_cut()) {
        return invalid("split of ", heddle::describe(tensor), ": ", static_cast<int>(state.axis),
                       " is no axis");
    }
    if (state.n_segments == 0 || state.n_segments > kMaxSegments) {
        return invalid("split of ", heddle::describe(tensor), ": ", state.n_segments,
                       " segments, where 1 to ", kMaxSegments, " are possible");
    }
    const std::int64_t extent = tensor.ne[split.dim()], block = block_size(tensor.type);
    std::int64_t total = 0;
    for (std::uint32_t s = 0; s < state.n_segments; ++s) {
        Segment segment{state.nr[s], {}};
        for (std::size_t j = 0; j < devices; ++j) {
            const std::int64_t share = state.ne[s * devices + j];
            std::int64_t all = 0;
            if (share < 0 || __builtin_mul_overflow(share, segment.repeats, &all) ||
                __builtin_add_overflow(total, all, &total)) {
                return invalid("split of ", heddle::describe(tensor), ": a share of ", share,
                               " elements, ", segment.repeats, " times");
            }
            if (split.dim() == 0 && share % block != 0) {
                return invalid("split of ", heddle::describe(tensor), ": a share of ", share,
                               " elements is not made of blocks of ", block);
            }
            segment.share[j] = share;
        }
        split.add(segment);
    }
    if (total != extent) {
        return invalid("split of ", heddle::describe(tensor), ": the shares along dimension ",
                       split.dim(), " add up to ", total, ", not to ", extent);
    }
    return split;
}

std::int64_t total_share(const Split& split, std::size_t device) {
    std::int64_t total = 0;
    for (const Segment& segment : split.segments) total += segment.repeats * segment.share[device];
    return total;
}

Split moved(Split split, std::size_t dim) {
    split.axis = static_cast<Axis>(dim);
    return split;
}

Split repeated(const Split& split, std::int64_t count) {
    if (split.segments.size() == 1 &&
        count <= std::numeric_limits<std::uint32_t>::max() / split.segments[0].repeats) {
        Split many = split;
        many.segments[0].repeats *= static_cast<std::uint32_t>(count);
        return many;
    }
    Split many{split.axis, {}};
    for (std::int64_t i = 0; i < count; ++i) {
        for (const Segment& segment : split.segments) many.add(segment);
    }
    return many;
}

Split scaled(Split split, std::int64_t factor) {
    for (Segment& segment : split.segments) {
        for (std::int64_t& share : segment.share) share *= factor;
    }
    return split;
}

}  // namespace heddle::meta
