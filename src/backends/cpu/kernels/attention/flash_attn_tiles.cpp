#include "backends/cpu/kernels/attention/flash_attn_tiles.hpp"

#include <hwy/cache_control.h>

#include <algorithm>

#include "backends/cpu/kernels/attention/flash_attn_steps.hpp"

namespace heddle::cpu {
namespace {

/// From so many rows of q on that share keys, turning keys and values into f32 first pays.
constexpr std::int64_t kLeastRows = 12;

/// Queries, sums and a tile stay in L2.
constexpr std::int64_t kMostRows = 128;
constexpr std::int64_t kMostRowsOfWide = 64;  ///< heads of more than `kWide` elements together
constexpr std::int64_t kWide = 512;
static_assert(kMostRows % kMostMicroPanelQueries == 0 &&
              kMostRowsOfWide % kMostMicroPanelQueries == 0);

constexpr std::int64_t kMostMicroPanels = kMostRows / 8;  ///< no micro-panel has fewer queries

/// The memory of a task, in the order in which it lies.
struct Memory {
    float *queries, *sums, *scores, *masks, *tile, *spare;
};

class Tiles {
public:
    Tiles(const Attention& attention, const Unit& unit, std::byte* memory)
        : a_(attention),
          unit_(unit),
          steps_(tile_steps()),
          micro_panels_((unit.count + steps_.queries - 1) / steps_.queries) {
        const auto carve = [&](std::int64_t count) {
            auto* begin = reinterpret_cast<float*>(memory);
            memory += lines_of_floats(count);
            return begin;
        };
        memory_.queries = carve(a_.unit_rows * a_.depth());
        memory_.sums = carve(a_.unit_rows * padded_width(a_.width()));
        memory_.scores = carve(a_.unit_rows * kTileKeys);
        memory_.masks = carve(kMostMicroPanelQueries * kTileKeys);
        memory_.tile = carve(std::max(tile_length(a_.depth()), tile_length(a_.width())));
        memory_.spare = carve(std::max(a_.depth(), a_.width()));
        std::fill_n(memory_.sums, a_.unit_rows * padded_width(a_.width()), 0.0f);
        for (std::int64_t s = 0; s < micro_panels_; ++s) begin_micro_panel(s);
    }

    void visit(Range range) {
        for (std::int64_t j = range.begin; j < range.end; j += kTileKeys) {
            const std::int64_t count = std::min(kTileKeys, range.end - j);
            if (!look_at_masks(j, count)) continue;
            widen(a_.k, unit_.key_head, j, count);
            for (std::int64_t s = 0; s < micro_panels_; ++s) {
                if (!kind_[s].hides_all) weigh(s, j, count);
            }
            const bool is_finite = widen(a_.v, unit_.value_head, j, count);
            const auto add = is_finite ? steps_.add_values : steps_.add_strange_values;
            for (std::int64_t s = 0; s < micro_panels_; ++s) {
                if (kind_[s].hides_all) continue;
                add(state_[s], scores(s), memory_.tile, count, a_.width(), sums(s));
            }
        }
    }

    Outcome outcome(std::int64_t i) const {
        const std::int64_t s = i / steps_.queries, lane = i % steps_.queries;
        return {state_[s].most[lane], state_[s].total[lane], sums(s) + lane, steps_.queries};
    }

private:
    float* queries(std::int64_t s) const {
        return memory_.queries + s * steps_.queries * a_.depth();
    }
    float* sums(std::int64_t s) const {
        return memory_.sums + s * steps_.queries * padded_width(a_.width());
    }
    float* scores(std::int64_t s) const { return memory_.scores + s * steps_.queries * kTileKeys; }

    /// The row of the unit in a lane of a micro-panel. Lanes that are left over repeat the last
    /// row.
    Row row_of(std::int64_t s, std::int64_t lane) const {
        return a_.row(unit_, std::min(s * steps_.queries + lane, unit_.count - 1));
    }

    void begin_micro_panel(std::int64_t s) {
        MicroPanelState& state = state_[s];
        const float* rows[kMostMicroPanelQueries];
        for (int lane = 0; lane < steps_.queries; ++lane) {
            const Row row = row_of(s, lane);
            rows[lane] = row_at<const float>(a_.q, row);
            masks_[s * steps_.queries + lane] = a_.mask_row(row);
            state.most[lane] = kNever;
            state.total[lane] = 0;
            state.slope[lane] = a_.slope_of(row.i2);
        }
        state.vectors = (unit_.count - s * steps_.queries) * 2 <= steps_.queries ? 1 : 2;
        const float cap = a_.params.logit_softcap;
        steps_.pack_queries(rows, a_.depth(), cap != 0 ? a_.params.scale / cap : a_.params.scale,
                            queries(s));
    }

    /// False: no query sees any of these keys.
    bool look_at_masks(std::int64_t j, std::int64_t count) {
        bool any = false;
        for (std::int64_t s = 0; s < micro_panels_; ++s) {
            kind_[s] = {};
            if (a_.mask == nullptr) kind_[s].hides_all = false;
            const std::uint16_t* last = nullptr;
            const std::uint16_t* const* rows = masks_ + s * steps_.queries;
            for (int lane = 0; lane < steps_.queries; ++lane) {
                if (rows[lane] == last) continue;  // heads of a token mostly share a row
                last = rows[lane];
                kind_[s].add(last + j, count);
                if (j + 2 * kTileKeys > a_.keys()) continue;
                hwy::Prefetch(last + j + kTileKeys);  // rows are far apart
                hwy::Prefetch(last + j + kTileKeys + kTileKeys / 2);
            }
            any = any || !kind_[s].hides_all;
        }
        return any;
    }

    void weigh(std::int64_t s, std::int64_t j, std::int64_t count) {
        const float* masks = nullptr;
        if (!kind_[s].is_zero) {
            const std::uint16_t* rows[kMostMicroPanelQueries];
            for (int lane = 0; lane < steps_.queries; ++lane) {
                rows[lane] = masks_[s * steps_.queries + lane] + j;
            }
            steps_.pack_masks(rows, count, memory_.masks);
            masks = memory_.masks;
        }
        steps_.score(state_[s], queries(s), memory_.tile, count, a_.depth(), scores(s));
        steps_.weigh(state_[s], a_.params.logit_softcap, masks, count, scores(s));
    }

    bool widen(const Tensor& t, std::int64_t head, std::int64_t j, std::int64_t count) {
        return steps_.widen(t.type, at(t, 0, j, head, unit_.batch), t.nb[1], count, t.ne[0],
                            memory_.tile, memory_.spare);
    }

    const Attention& a_;
    const Unit unit_;
    const TileSteps steps_;
    const std::int64_t micro_panels_;
    Memory memory_{};
    MicroPanelState state_[kMostMicroPanels];
    MaskKind kind_[kMostMicroPanels];
    const std::uint16_t* masks_[kMostRows];
};

}  // namespace

bool is_worth_tiles(const Tensor& node) {
    return node.src[0]->ne[1] * heads_per_group(node) >= kLeastRows;
}

std::int64_t tile_unit_rows(const Tensor& node) {
    return node.src[0]->ne[0] + node.src[2]->ne[0] > kWide ? kMostRowsOfWide : kMostRows;
}

bool has_tiles() { return static_cast<bool>(tile_steps()); }

std::size_t tiles_size(const Attention& a) {
    return lines_of_floats(a.unit_rows * a.depth()) +
           lines_of_floats(a.unit_rows * padded_width(a.width())) +
           lines_of_floats(a.unit_rows * kTileKeys) +
           lines_of_floats(kMostMicroPanelQueries * kTileKeys) +
           lines_of_floats(std::max(tile_length(a.depth()), tile_length(a.width()))) +
           lines_of_floats(std::max(a.depth(), a.width()));
}

void attend_tiles(const Attention& a, const Turn& turn, std::byte* memory, const Results& results) {
    const Unit unit = a.unit(a.first_unit_of(turn.piece));
    const std::int64_t part = a.part_of(turn.piece);
    Tiles tiles(a, unit, memory);
    tiles.visit(a.keys_of_part(part));
    for (std::int64_t i = 0; i < unit.count; ++i)
        results.put(a.row(unit, i), part, tiles.outcome(i));
}

}  // namespace heddle::cpu
