#include "backends/cpu/kernels/attention/flash_attn_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/dot/panel.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

/// Keys that are worked on together, at most; their scores stay in the first cache. Going from keys
/// to values and back costs time with memory, so it is not done more often.
constexpr std::int64_t kMostKeys = 512;

/// Where heads lie side by side, this much of the keys of all heads stays in the second cache, as
/// do their values, until all heads have passed and the next ones have come.
constexpr std::size_t kTileBytes = 128 * 1024;
constexpr std::int64_t kLeastKeys = 32;

/// Rows of types that are not read directly are turned into f32, so many at a time that they stay
/// in the first cache.
constexpr std::int64_t kDecodedRows = 32;

/// Keys of a tile. It depends on the shapes alone, and so do results.
std::int64_t keys_of_tile(const Attention& a) {
    if (!a.is_interleaved()) return kMostKeys;
    const auto fitting = static_cast<std::int64_t>(kTileBytes / a.k.nb[1]) / kLeastKeys;
    return std::clamp<std::int64_t>(fitting * kLeastKeys, kLeastKeys, kMostKeys);
}

/// One row of q on its way through the keys.
struct Query {
    const std::uint16_t* mask = nullptr;
    float slope = 1;
    float most = kNever;  ///< the largest score so far
    float total = 0;      ///< the weights so far
};

/// Rows of q in a unit.
std::int64_t rows_of_unit(const Attention& a) { return std::min(kRowsUnit, a.q.ne[1] * a.group); }

// Scratch memory of a task. Sizes are for any instruction set. First what heads share, ...
std::size_t scores_size(const Attention& a) { return lines_of_floats(rows_of_unit(a) * kMostKeys); }
std::size_t decoded_size(const Attention& a) {
    const auto width_of = [](const Tensor& t) {
        return quant::codec_of(t.type) == nullptr ? 0 : t.ne[0];
    };
    return lines_of_floats(kDecodedRows * std::max(width_of(a.k), width_of(a.v)));
}
// ... then what each of them has for itself: sums, and queries as whole numbers.
std::size_t sums_size(const Attention& a) { return lines_of_floats(rows_of_unit(a) * a.width()); }
std::size_t coded_size(const Attention& a) {
    if (quant::codec_of(a.k.type) == nullptr) return 0;
    return whole_lines(static_cast<std::size_t>(a.depth() / 32) * sizeof(CodedQueryBlock));
}
std::size_t head_size(const Attention& a) {
    return sums_size(a) + static_cast<std::size_t>(rows_of_unit(a)) * coded_size(a);
}

/// Keys that some neighbouring heads see next.
struct Place {
    Range keys;
    Unit first, last;
};

/// The tile that begins at `begin`, if that is among `keys`.
Range tile_at(std::int64_t begin, const Range& keys, std::int64_t step) {
    return {begin, std::max(begin, std::min(begin + step, keys.end))};
}

/// Where a piece begins.
Place beginning_of(const Attention& a, std::int64_t piece) {
    if (piece >= a.pieces()) return {};
    const Range keys = a.keys_of_part(a.part_of(piece));
    const std::int64_t unit = a.first_unit_of(piece);
    return {tile_at(keys.begin, keys, keys_of_tile(a)), a.unit(unit), a.unit(unit + a.span - 1)};
}

/// The rows of keys or values at `place`.
RowsAhead rows_of(const Tensor& t, const Place& place, std::int64_t Unit::*head) {
    const std::int64_t first = place.first.*head, last = place.last.*head;
    return {at(t, 0, place.keys.begin, first, place.first.batch), t.nb[1],
            place.keys.end - place.keys.begin,
            static_cast<std::size_t>(last - first) * t.nb[2] + row_size(t.type, t.ne[0])};
}
RowsAhead keys_at(const Attention& a, const Place& place) {
    return rows_of(a.k, place, &Unit::key_head);
}
RowsAhead values_at(const Attention& a, const Place& place) {
    return rows_of(a.v, place, &Unit::value_head);
}

/// Part `i` of `count` parts of some rows.
RowsAhead share_of(RowsAhead rows, std::int64_t i, std::int64_t count) {
    const std::int64_t begin = rows.count * i / count;
    rows.rows += static_cast<std::size_t>(begin) * rows.pitch;
    rows.count = rows.count * (i + 1) / count - begin;
    return rows;
}

/// Reads rows into the cache, from front to back: the processor sees where this leads and fetches
/// ahead. It does not where one head's rows are read, which lie apart, and waits twice as long.
void fetch(const RowsAhead& ahead) {
    constexpr std::size_t kLine = 64;
    for (std::int64_t j = 0; j < ahead.count; ++j) {
        // Volatile, or nothing would be read.
        const volatile std::byte* row = ahead.rows + static_cast<std::size_t>(j) * ahead.pitch;
        for (std::size_t i = 0; i < ahead.size; i += kLine) (void)row[i];
    }
}

/// The queries of a unit on their way through the keys, a tile at a time.
class Rows {
public:
    /// `shared` is the memory that heads share, `own` that of this one.
    Rows(const Attention& attention, const Unit& unit, std::byte* shared, std::byte* own)
        : a_(attention),
          unit_(unit),
          count_(static_cast<int>(unit.count)),
          steps_(soft_rows()),
          score_(score_rows_of(a_.k.type)),
          score_codes_(code_scorer_of(a_.k.type)),
          add_(add_rows_of(a_.v.type)),
          decoded_(reinterpret_cast<float*>(shared + scores_size(a_))) {
        auto* scores = reinterpret_cast<float*>(shared);
        auto* sums = reinterpret_cast<float*>(own);
        for (int i = 0; i < count_; ++i) {
            const Row row = a_.row(unit_, i);
            queries_[i] = row_at<const float>(a_.q, row);
            query_[i].mask = a_.mask_row(row);
            query_[i].slope = a_.slope_of(row.i2);
            scores_[i] = scores + i * kMostKeys;
            sums_[i] = sums + i * a_.width();
            std::fill_n(sums_[i], a_.width(), 0.0f);
            if (!score_codes_) continue;
            std::byte* coded = own + sums_size(a_) + static_cast<std::size_t>(i) * coded_size(a_);
            score_codes_.code(queries_[i], a_.depth(), coded);
            coded_[i] = coded;
        }
    }

    const Unit& unit() const { return unit_; }

    bool is_masked(Range tile) const {
        if (a_.mask == nullptr) return false;
        MaskKind kind;
        for (int i = 0; i < count_ && kind.hides_all; ++i) {
            if (i > 0 && query_[i].mask == query_[i - 1].mask) continue;
            kind.add(query_[i].mask + tile.begin, tile.end - tile.begin);
        }
        return kind.hides_all;
    }

    /// Goes on with the keys of `tile`. What is read later is asked for meanwhile: `early` before
    /// the values are read, then `late`.
    void visit(Range tile, const RowsAhead& early, const RowsAhead& late) {
        if (is_masked(tile)) return;
        score(tile, early);
        bool any = false;
        for (int i = 0; i < count_; ++i) any |= weigh(i, tile);
        if (any) add_values(tile, late);
    }

    void put(std::int64_t part, const Results& results) const {
        for (int i = 0; i < count_; ++i) {
            results.put(a_.row(unit_, i), part, {query_[i].most, query_[i].total, sums_[i]});
        }
    }

private:
    /// Keys or values of a tile.
    Panel panel_of(const Tensor& t, Range tile, std::int64_t head) const {
        return {t.type, at(t, 0, tile.begin, head, unit_.batch), t.nb[1], tile.end - tile.begin,
                t.ne[0]};
    }

    /// Calls `use(rows, begin, ahead)` for a few rows at a time, from number `begin` on, as f32.
    template <class Use>
    void use_decoded(const Panel& panel, const RowsAhead& ahead, Use use) {
        const DecodeRow decode = decode_row_of(panel.type);
        const std::int64_t blocks = (panel.count + kDecodedRows - 1) / kDecodedRows;
        for (std::int64_t block = 0; block < blocks; ++block) {
            const std::int64_t begin = block * kDecodedRows;
            const std::int64_t count = std::min(kDecodedRows, panel.count - begin);
            for (std::int64_t r = 0; r < count; ++r) {
                decode(panel.rows + static_cast<std::size_t>(begin + r) * panel.pitch,
                       decoded_ + r * panel.depth, panel.depth);
            }
            const Panel rows{GGML_TYPE_F32, reinterpret_cast<const std::byte*>(decoded_),
                             static_cast<std::size_t>(panel.depth) * sizeof(float), count,
                             panel.depth};
            use(rows, begin, share_of(ahead, block, blocks));
        }
    }

    void score(Range tile, const RowsAhead& ahead) {
        const Panel panel = panel_of(a_.k, tile, unit_.key_head);
        if (score_codes_) return score_codes_.score(panel, ahead, coded_, scores_, count_);
        if (score_ != nullptr) return score_(panel, ahead, queries_, scores_, count_);
        use_decoded(panel, ahead,
                    [&](const Panel& rows, std::int64_t begin, const RowsAhead& part) {
                        float* out[kRowsUnit];
                        for (int i = 0; i < count_; ++i) out[i] = scores_[i] + begin;
                        score_rows_of(GGML_TYPE_F32)(rows, part, queries_, out, count_);
                    });
    }

    /// Turns scores into weights relative to the largest score so far. False: all weights are 0.
    bool weigh(int i, Range tile) {
        const std::int64_t n = tile.end - tile.begin;
        Query& query = query_[i];
        float* scores = scores_[i];
        const ScoreRule rule{a_.params.scale, a_.params.logit_softcap, query.slope,
                             query.mask != nullptr ? query.mask + tile.begin : nullptr};
        const float most = steps_.finish(rule, scores, n);
        if (most == kNever) {
            // No key counts; or all that do have no score, and some instruction sets miss that.
            const bool is_lost = std::any_of(scores, scores + n, [](float z) { return z != z; });
            if (is_lost) query.total = std::numeric_limits<float>::quiet_NaN();
            std::fill(scores, scores + n, 0.0f);
            return false;
        }
        if (!(most <= query.most)) {
            const float factor = std::exp(query.most - most);
            query.most = most;
            query.total *= factor;
            steps_.scale(factor, sums_[i], a_.width());
        }
        query.total += steps_.exponentiate(query.most, scores, n);
        return true;
    }

    void add_values(Range tile, const RowsAhead& ahead) {
        const Panel panel = panel_of(a_.v, tile, unit_.value_head);
        if (add_ != nullptr) return add_(panel, ahead, scores_, sums_, count_);
        use_decoded(panel, ahead,
                    [&](const Panel& rows, std::int64_t begin, const RowsAhead& part) {
                        const float* weights[kRowsUnit];
                        for (int i = 0; i < count_; ++i) weights[i] = scores_[i] + begin;
                        add_rows_of(GGML_TYPE_F32)(rows, part, weights, sums_, count_);
                    });
    }

    const Attention& a_;
    const Unit unit_;
    const int count_;
    const SoftRows steps_;
    const ScoreRows score_;
    const CodeScorer score_codes_;
    const AddRows add_;
    float* decoded_;
    Query query_[kRowsUnit];
    const float* queries_[kRowsUnit];
    const std::byte* coded_[kRowsUnit];
    float *scores_[kRowsUnit], *sums_[kRowsUnit];
};

/// Lets all heads see the keys that are here, and asks for the next ones. `is_near`: these were
/// asked for; it becomes whether the next ones are.
void visit(const Attention& a, std::span<std::optional<Rows>> heads, const Place& here,
           const Place& next, bool& is_near) {
    if (heads.size() == 1) {
        const RowsAhead late = next.keys.begin < next.keys.end ? keys_at(a, next) : RowsAhead{};
        return heads.front()->visit(here.keys, values_at(a, here), late);
    }
    const auto is_masked = [&](const auto& head) { return head->is_masked(here.keys); };
    const bool was_near = std::exchange(is_near, false);
    if (std::ranges::all_of(heads, is_masked)) return;
    if (!was_near) {
        fetch(keys_at(a, here));
        fetch(values_at(a, here));
    }
    is_near = next.keys.begin < next.keys.end;
    const RowsAhead keys = is_near ? keys_at(a, next) : RowsAhead{};
    const RowsAhead values = is_near ? values_at(a, next) : RowsAhead{};
    const auto count = static_cast<std::int64_t>(heads.size());
    for (std::int64_t i = 0; auto& head : heads) {
        head->visit(here.keys, share_of(keys, i, count), share_of(values, i, count));
        ++i;
    }
}

}  // namespace

std::size_t rows_size(const Attention& a) {
    const std::int64_t heads = a.is_interleaved() ? std::min(kMostHeads, a.units) : 1;
    return scores_size(a) + decoded_size(a) + static_cast<std::size_t>(heads) * head_size(a);
}

void attend_rows(const Attention& a, const Turn& turn, std::byte* memory, const Results& results) {
    std::byte* own = memory + scores_size(a) + decoded_size(a);
    std::array<std::optional<Rows>, kMostHeads> heads;
    const auto used = std::span(heads).first(static_cast<std::size_t>(a.span));
    std::int64_t unit = a.first_unit_of(turn.piece);
    for (auto& head : used) {
        head.emplace(a, a.unit(unit++), memory, own);
        own += head_size(a);
    }
    const std::int64_t part = a.part_of(turn.piece), step = keys_of_tile(a);
    const Range keys = a.keys_of_part(part);
    Place here{{}, used.front()->unit(), used.back()->unit()};
    bool is_near = turn.foreseen;
    for (std::int64_t begin = keys.begin; begin < keys.end; begin += step) {
        here.keys = tile_at(begin, keys, step);
        Place next{tile_at(here.keys.end, keys, step), here.first, here.last};
        if (here.keys.end == keys.end) next = beginning_of(a, turn.next);
        visit(a, used, here, next, is_near);
    }
    for (const auto& head : used) head->put(part, results);
}

}  // namespace heddle::cpu
