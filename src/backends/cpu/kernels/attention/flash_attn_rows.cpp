#include "backends/cpu/kernels/attention/flash_attn_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/dot/multiplier.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

/// Keys of a tile: so many that scores of all heads stay in L1, and not fewer, as
/// going from keys to values and back costs time with memory.
constexpr std::int64_t kScores = 8192;
constexpr std::int64_t kLeastKeys = 64, kMostKeys = 512;

/// Rows of types that are not read directly are turned into f32, so many at a time that they stay
/// in L1.
constexpr std::int64_t kDecodedRows = 32;

/// Memory is asked for so many bytes before it is read: enough for it to come in time, and few
/// enough to wait for in the beginning.
constexpr std::size_t kAheadBytes = 32 * 1024;

/// Heads that a piece has at most.
std::int64_t most_heads(const Attention& a) {
    return a.is_interleaved() ? std::min(kMostHeads, a.units) : 1;
}

/// Rows of q in a unit.
std::int64_t rows_of_unit(const Attention& a) { return std::min(kRowsUnit, a.q.ne[1] * a.group); }

/// It depends on the shapes alone, and so do results.
std::int64_t keys_of_tile(const Attention& a) {
    const std::int64_t fitting = kScores / (most_heads(a) * rows_of_unit(a));
    return std::clamp(fitting / kLeastKeys * kLeastKeys, kLeastKeys, kMostKeys);
}

// Scratch memory of a task. Sizes are for any instruction set. First what heads share, ...
std::size_t decoded_size(const Attention& a) {
    const auto width_of = [](const Tensor& t) {
        return quant::codec_of(t.type) == nullptr ? 0 : t.ne[0];
    };
    return lines_of_floats(kDecodedRows * std::max(width_of(a.k), width_of(a.v)));
}
// ... then what each of them has for itself: scores, sums, and queries as whole numbers.
std::size_t scores_size(const Attention& a) {
    return lines_of_floats(rows_of_unit(a) * keys_of_tile(a));
}
std::size_t sums_size(const Attention& a) { return lines_of_floats(rows_of_unit(a) * a.width()); }
std::size_t coded_size(const Attention& a) {
    if (quant::codec_of(a.k.type) == nullptr) return 0;
    return whole_lines(static_cast<std::size_t>(a.depth() / 32) * sizeof(CodedQueryBlock));
}

// ---- where keys and values are -----------------------------------------------------------------

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
    if (place.keys.begin == place.keys.end) return {};
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

/// Rows that are asked for before the first of them is read, ...
RowsAhead first_of(RowsAhead rows) {
    if (rows.count == 0 || rows.size == 0) return {};
    rows.count = std::min(rows.count, static_cast<std::int64_t>(kAheadBytes / rows.size) + 1);
    return rows;
}
/// ... and the rest of them.
RowsAhead others_of(RowsAhead rows) {
    const std::int64_t first = first_of(rows).count;
    rows.rows += static_cast<std::size_t>(first) * rows.pitch;
    rows.count -= first;
    return rows;
}

/// Part `i` of `count` parts of some rows.
RowsAhead share_of(RowsAhead rows, std::int64_t i, std::int64_t count) {
    const std::int64_t begin = rows.count * i / count;
    rows.rows += static_cast<std::size_t>(begin) * rows.pitch;
    rows.count = rows.count * (i + 1) / count - begin;
    return rows;
}

/// Reads rows into the cache, from front to back, so that the hardware prefetcher
/// follows. It does not where several rows are read by turns, and waits twice as long.
void fetch(const RowsAhead& ahead) {
    constexpr std::size_t kLine = 64;
    for (std::int64_t j = 0; j < ahead.count; ++j) {
        // Volatile, or nothing would be read.
        const volatile std::byte* row = ahead.rows + static_cast<std::size_t>(j) * ahead.pitch;
        for (std::size_t i = 0; i < ahead.size; i += kLine) (void)row[i];
    }
}

// ---- queries -----------------------------------------------------------------------------------

/// How rows of the types at hand are worked on.
struct Steps {
    SoftRows soft;
    CodeScorer code_scorer;
    ScoreRows score;  ///< null: keys are turned into f32
    AddRows add;      ///< likewise

    explicit Steps(const Attention& a)
        : soft(soft_rows()),
          code_scorer(code_scorer_of(a.k.type)),
          score(code_scorer ? code_scorer.score : score_rows_of(a.k.type)),
          add(add_rows_of(a.v.type)) {}
};

/// One row of q on its way through the keys.
struct Query {
    const std::uint16_t* mask = nullptr;
    float slope = 1;
    float most = kNever;  ///< the largest score so far
    float total = 0;      ///< the weights so far
};

/// The queries of a unit on their way through the keys, a tile at a time.
class Rows {
public:
    /// `memory` has scores, sums and queries as whole numbers.
    Rows(const Attention& attention, const Steps& steps, const Unit& unit, std::byte* memory)
        : a_(attention), soft_(steps.soft), unit_(unit), count_(static_cast<int>(unit.count)) {
        auto* scores = reinterpret_cast<float*>(memory);
        auto* sums = reinterpret_cast<float*>(memory + scores_size(a_));
        std::byte* coded = memory + scores_size(a_) + sums_size(a_);
        for (int i = 0; i < count_; ++i) {
            const Row row = a_.row(unit_, i);
            query_[i] = {a_.mask_row(row), a_.slope_of(row.i2)};
            scores_[i] = scores + i * keys_of_tile(a_);
            sums_[i] = sums + i * a_.width();
            std::fill_n(sums_[i], a_.width(), 0.0f);
            const auto* values = row_at<const float>(a_.q, row);
            queries_[i] = reinterpret_cast<const std::byte*>(values);
            if (!steps.code_scorer) continue;
            steps.code_scorer.code(values, a_.depth(), coded);
            queries_[i] = std::exchange(coded, coded + coded_size(a_));
        }
    }

    const Unit& unit() const { return unit_; }
    int count() const { return count_; }

    /// The end of the keys in `tile` that any query sees; its beginning if none sees any.
    std::int64_t seen_end(Range tile) const {
        if (a_.mask == nullptr) return tile.end;
        std::int64_t end = tile.begin;
        for (int i = 0; i < count_; ++i) {
            if (i > 0 && query_[i].mask == query_[i - 1].mask) continue;
            std::int64_t last = tile.end;
            while (last > end && query_[i].mask[last - 1] == kHidden) --last;
            end = std::max(end, last);
        }
        return end;
    }

    HeadScores scores(std::size_t offset) const { return {offset, queries_, scores_}; }
    HeadSums sums(std::size_t offset) const { return {offset, scores_, sums_}; }

    /// Turns scores into weights relative to the largest score so far. False: all weights are 0.
    bool weigh(Range tile) {
        bool any = false;
        for (int i = 0; i < count_; ++i) any |= weigh(i, tile);
        return any;
    }

    void put(std::int64_t part, const Results& results) const {
        for (int i = 0; i < count_; ++i) {
            results.put(a_.row(unit_, i), part, {query_[i].most, query_[i].total, sums_[i]});
        }
    }

private:
    bool weigh(int i, Range tile) {
        const std::int64_t n = tile.end - tile.begin;
        Query& query = query_[i];
        float* scores = scores_[i];
        const ScoreRule rule{a_.params.scale, a_.params.logit_softcap, query.slope,
                             query.mask != nullptr ? query.mask + tile.begin : nullptr};
        const float most = soft_.finish(rule, scores, n);
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
            soft_.scale(factor, sums_[i], a_.width());
        }
        query.total += soft_.exponentiate(query.most, scores, n);
        return true;
    }

    const Attention& a_;
    const SoftRows soft_;
    const Unit unit_;
    const int count_;
    Query query_[kRowsUnit];
    const std::byte* queries_[kRowsUnit];
    float *scores_[kRowsUnit], *sums_[kRowsUnit];
};

// Rows of a head stand in scratch memory, before what belongs to them.
static_assert(std::is_trivially_destructible_v<Rows>);
std::size_t head_size(const Attention& a) {
    return whole_lines(sizeof(Rows)) + scores_size(a) + sums_size(a) +
           static_cast<std::size_t>(rows_of_unit(a)) * coded_size(a);
}

// ---- heads -------------------------------------------------------------------------------------

/// The heads of a piece on their way through the keys, a tile at a time. All of them see a few keys
/// before they go on, so that memory is read from front to back.
class Heads {
public:
    Heads(const Attention& attention, std::int64_t first_unit, std::byte* memory)
        : a_(attention), steps_(attention), decoded_(reinterpret_cast<float*>(memory)) {
        std::byte* own = memory + decoded_size(a_);
        for (std::int64_t i = 0; i < a_.span; ++i, own += head_size(a_)) {
            rows_[i] = std::construct_at(reinterpret_cast<Rows*>(own), a_, steps_,
                                         a_.unit(first_unit + i), own + whole_lines(sizeof(Rows)));
        }
    }

    const Unit& first() const { return rows_[0]->unit(); }
    const Unit& last() const { return rows_[a_.span - 1]->unit(); }

    /// Goes on with the keys that are `here`, and asks for those that are next. `is_near`: these
    /// were asked for; it becomes whether the next ones are.
    void visit(Place here, const Place& next, bool& is_near) {
        const bool was_near = std::exchange(is_near, false);
        here.keys.end = seen_end(here.keys);
        if (here.keys.end == here.keys.begin) return;
        const RowsAhead keys = keys_at(a_, here), values = values_at(a_, here);
        if (!was_near) fetch(first_of(keys));
        score(keys, {others_of(keys), first_of(values)});
        is_near =
            weigh_and_add(here.keys, values, {others_of(values), first_of(keys_at(a_, next))});
    }

    void put(std::int64_t part, const Results& results) const {
        for (std::int64_t i = 0; i < a_.span; ++i) rows_[i]->put(part, results);
    }

private:
    int queries() const { return rows_[0]->count(); }

    /// Programs let attention look at more of a cache than is filled, so that one graph serves many
    /// tokens. What is hidden behind the last key that is seen is left out, in steps that vectors
    /// take at once.
    std::int64_t seen_end(Range tile) const {
        constexpr std::int64_t kStep = 16;
        std::int64_t end = tile.begin;
        for (std::int64_t i = 0; i < a_.span; ++i) end = std::max(end, rows_[i]->seen_end(tile));
        const std::int64_t steps = (end - tile.begin + kStep - 1) / kStep;
        return std::min(tile.begin + steps * kStep, tile.end);
    }

    static MatrixView view_of(const Tensor& t, const RowsAhead& rows) {
        return {t.type, rows.rows, rows.pitch, rows.count, t.ne[0]};
    }
    std::size_t offset_of(const Tensor& t, std::int64_t i, std::int64_t Unit::*head) const {
        return static_cast<std::size_t>(rows_[i]->unit().*head - first().*head) * t.nb[2];
    }

    void score(const RowsAhead& keys, const Ahead& ahead) {
        HeadScores heads[kMostHeads];
        for (std::int64_t i = 0; i < a_.span; ++i) {
            heads[i] = rows_[i]->scores(offset_of(a_.k, i, &Unit::key_head));
        }
        const std::span<const HeadScores> used(heads, static_cast<std::size_t>(a_.span));
        const MatrixView view = view_of(a_.k, keys);
        if (steps_.score != nullptr) return steps_.score(view, used, queries(), ahead);
        for_decoded(view, used, ahead,
                    [&](const MatrixView& rows, const HeadScores& head, std::int64_t first,
                        const Ahead& share) {
                        float* scores[kRowsUnit];
                        for (int q = 0; q < queries(); ++q) scores[q] = head.scores[q] + first;
                        const HeadScores one{0, head.queries, scores};
                        score_rows_of(GGML_TYPE_F32)(rows, {&one, 1}, queries(), share);
                    });
    }

    /// False: no key counts.
    bool weigh_and_add(Range tile, const RowsAhead& values, const Ahead& ahead) {
        HeadSums heads[kMostHeads];
        std::size_t count = 0;
        for (std::int64_t i = 0; i < a_.span; ++i) {
            if (!rows_[i]->weigh(tile)) continue;
            heads[count++] = rows_[i]->sums(offset_of(a_.v, i, &Unit::value_head));
        }
        if (count == 0) return false;
        const std::span<const HeadSums> used(heads, count);
        const MatrixView view = view_of(a_.v, values);
        if (steps_.add != nullptr) {
            steps_.add(view, used, queries(), ahead);
            return true;
        }
        for_decoded(view, used, ahead,
                    [&](const MatrixView& rows, const HeadSums& head, std::int64_t first,
                        const Ahead& share) {
                        const float* weights[kRowsUnit];
                        for (int q = 0; q < queries(); ++q) weights[q] = head.weights[q] + first;
                        const HeadSums one{0, weights, head.sums};
                        add_rows_of(GGML_TYPE_F32)(rows, {&one, 1}, queries(), share);
                    });
        return true;
    }

    /// Calls use(rows, head, first, share) for a few rows of a head at a time, from number `first`
    /// on, as f32.
    template <class Head, class Use>
    void for_decoded(const MatrixView& view, std::span<const Head> heads, const Ahead& ahead,
                     Use use) {
        const DecodeRow decode = decode_row_of(view.type);
        const auto count = static_cast<std::int64_t>(heads.size());
        const std::int64_t calls = (view.count + kDecodedRows - 1) / kDecodedRows * count;
        for (std::int64_t call = 0; call < calls; ++call) {
            const Head& head = heads[static_cast<std::size_t>(call % count)];
            const std::int64_t first = call / count * kDecodedRows;
            const std::byte* from = view.rows + head.offset;
            MatrixView rows{GGML_TYPE_F32, reinterpret_cast<const std::byte*>(decoded_),
                            static_cast<std::size_t>(view.depth) * sizeof(float),
                            std::min(kDecodedRows, view.count - first), view.depth};
            for (std::int64_t r = 0; r < rows.count; ++r) {
                decode(from + static_cast<std::size_t>(first + r) * view.pitch,
                       decoded_ + r * view.depth, view.depth);
            }
            use(rows, head, first,
                Ahead{share_of(ahead.first, call, calls), share_of(ahead.second, call, calls)});
        }
    }

    const Attention& a_;
    const Steps steps_;
    float* decoded_;
    Rows* rows_[kMostHeads];
};

}  // namespace

std::size_t rows_size(const Attention& a) {
    return decoded_size(a) + static_cast<std::size_t>(most_heads(a)) * head_size(a);
}

void attend_rows(const Attention& a, const Turn& turn, std::byte* memory, const Results& results) {
    Heads heads(a, a.first_unit_of(turn.piece), memory);
    const std::int64_t part = a.part_of(turn.piece), step = keys_of_tile(a);
    const Range keys = a.keys_of_part(part);
    bool is_near = turn.foreseen;
    for (std::int64_t begin = keys.begin; begin < keys.end; begin += step) {
        const Place here{tile_at(begin, keys, step), heads.first(), heads.last()};
        Place next{tile_at(here.keys.end, keys, step), here.first, here.last};
        if (here.keys.end == keys.end) next = beginning_of(a, turn.next);
        heads.visit(here, next, is_near);
    }
    heads.put(part, results);
}

}  // namespace heddle::cpu
