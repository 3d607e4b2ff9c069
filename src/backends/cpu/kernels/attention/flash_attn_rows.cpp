#include "backends/cpu/kernels/attention/flash_attn_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "backends/cpu/dot/panel.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

/// Keys that are worked on together, at most; their scores stay in the first cache. Going from keys
/// to values and back costs time with memory, so it is not done more often.
constexpr std::int64_t kMostKeys = 512;

/// Where heads lie side by side, this much of the keys of all heads stays in the second cache, as
/// do their values, until all heads have passed.
constexpr std::size_t kTileBytes = 128 * 1024;
constexpr std::int64_t kLeastKeys = 32;

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
std::size_t values_size(const Attention& a) {
    return quant::codec_of(a.v.type) == nullptr ? 0 : lines_of_floats(kMostKeys * a.width());
}
// ... then what each of them has for itself.
std::size_t queries_size(const Attention& a) {
    return whole_lines(static_cast<std::size_t>(rows_of_unit(a)) *
                       prepared_pitch(multiplier_of(a.k.type), a.depth()));
}
std::size_t head_size(const Attention& a) {
    return queries_size(a) + lines_of_floats(rows_of_unit(a) * a.width());
}

/// Reads keys or values `rows` of some heads into the cache, from front to back: the processor sees
/// where this leads and fetches ahead. It does not where one head's rows are read, which lie apart,
/// and waits twice as long.
void fetch(const Tensor& t, Range rows, std::int64_t first_head, std::int64_t last_head,
           std::int64_t batch) {
    constexpr std::size_t kLine = 64;
    const std::size_t size =
        static_cast<std::size_t>(last_head - first_head) * t.nb[2] + row_size(t.type, t.ne[0]);
    for (std::int64_t j = rows.begin; j < rows.end; ++j) {
        const volatile std::byte* row = at(t, 0, j, first_head, batch);  // or nothing would be read
        for (std::size_t i = 0; i < size; i += kLine) (void)row[i];
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
          multiplier_(multiplier_of(a_.k.type)),
          score_(score_rows_of(a_.k.type)),
          add_(add_rows_of(a_.v.type)),
          values_(reinterpret_cast<float*>(shared + scores_size(a_))) {
        auto* scores = reinterpret_cast<float*>(shared);
        auto* sums = reinterpret_cast<float*>(own + queries_size(a_));
        for (int i = 0; i < count_; ++i) {
            const Row row = a_.row(unit_, i);
            query_[i].mask = a_.mask_row(row);
            query_[i].slope = a_.slope_of(row.i2);
            scores_[i] = scores + i * kMostKeys;
            sums_[i] = sums + i * a_.width();
            std::fill_n(sums_[i], a_.width(), 0.0f);
        }
        prepare(own);
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

    /// Goes on with the keys of `tile`, which are in the cache.
    void visit(Range tile) { visit(tile, {}, {}); }

    /// The same for keys that are not. What is read next is asked for meanwhile: the values, then
    /// the first keys of `later`.
    void visit(Range tile, Range later) {
        visit(tile, ahead(a_.v, unit_.value_head, tile), ahead(a_.k, unit_.key_head, later));
    }

    void put(std::int64_t part, const Results& results) const {
        for (int i = 0; i < count_; ++i) {
            results.put(a_.row(unit_, i), part, {query_[i].most, query_[i].total, sums_[i]});
        }
    }

private:
    /// Keys that are not read directly are multiplied with queries of their own kind.
    void prepare(std::byte* memory) {
        for (int i = 0; i < count_; ++i) {
            const std::byte* from = row_at(a_.q, a_.row(unit_, i));
            queries_[i] = reinterpret_cast<const float*>(from);
            if (score_ != nullptr) continue;
            prepare_row(multiplier_, a_.q.type, from, memory, a_.depth());
            prepared_[i] = memory;
            memory += prepared_pitch(multiplier_, a_.depth());
        }
    }

    void visit(Range tile, const RowsAhead& values, const RowsAhead& later) {
        if (is_masked(tile)) return;
        score(tile, values);
        bool any = false;
        for (int i = 0; i < count_; ++i) any |= weigh(i, tile);
        if (any) add_values(tile, later);
    }

    /// Where `range` is among keys or values, as far as a tile goes.
    RowsAhead ahead(const Tensor& t, std::int64_t head, Range range) const {
        if (range.begin >= range.end) return {};
        return {at(t, 0, range.begin, head, unit_.batch), t.nb[1],
                std::min(kMostKeys, range.end - range.begin), row_size(t.type, t.ne[0])};
    }

    void score(Range tile, const RowsAhead& next) {
        const Panel panel{a_.k.type, at(a_.k, 0, tile.begin, unit_.key_head, unit_.batch),
                          a_.k.nb[1], tile.end - tile.begin, a_.depth()};
        if (score_ == nullptr) return multiplier_.multiply(panel, prepared_, scores_, count_);
        score_(panel, next, queries_, scores_, count_);
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

    void add_values(Range tile, const RowsAhead& next) {
        const std::int64_t n = tile.end - tile.begin;
        Panel panel{a_.v.type, at(a_.v, 0, tile.begin, unit_.value_head, unit_.batch), a_.v.nb[1],
                    n, a_.width()};
        AddRows add = add_;
        if (add == nullptr) {
            const quant::Codec& codec = *quant::codec_of(a_.v.type);
            for (std::int64_t r = 0; r < n; ++r) {
                codec.decode(panel.rows + static_cast<std::size_t>(r) * panel.pitch,
                             values_ + r * a_.width(), a_.width());
            }
            panel = {GGML_TYPE_F32, reinterpret_cast<const std::byte*>(values_),
                     static_cast<std::size_t>(a_.width()) * sizeof(float), n, a_.width()};
            add = add_rows_of(GGML_TYPE_F32);
        }
        add(panel, next, scores_, sums_, count_);
    }

    const Attention& a_;
    const Unit unit_;
    const int count_;
    const SoftRows steps_;
    const Multiplier multiplier_;
    const ScoreRows score_;
    const AddRows add_;
    float* values_;
    Query query_[kRowsUnit];
    const float* queries_[kRowsUnit];
    const std::byte* prepared_[kRowsUnit];
    float *scores_[kRowsUnit], *sums_[kRowsUnit];
};

}  // namespace

std::size_t rows_size(const Attention& a) {
    const std::int64_t heads = a.is_interleaved() ? std::min(kMostHeads, a.units) : 1;
    return scores_size(a) + values_size(a) + static_cast<std::size_t>(heads) * head_size(a);
}

void attend_rows(const Attention& a, std::int64_t piece, std::byte* memory,
                 const Results& results) {
    std::byte* own = memory + scores_size(a) + values_size(a);
    std::array<std::optional<Rows>, kMostHeads> heads;
    const auto used = std::span(heads).first(static_cast<std::size_t>(a.span));
    std::int64_t unit = a.first_unit_of(piece);
    for (auto& head : used) {
        head.emplace(a, a.unit(unit++), memory, own);
        own += head_size(a);
    }
    const std::int64_t part = a.part_of(piece), step = keys_of_tile(a);
    const Range keys = a.keys_of_part(part);
    for (std::int64_t begin = keys.begin; begin < keys.end; begin += step) {
        const Range tile{begin, std::min(begin + step, keys.end)};
        if (a.span == 1) {
            used.front()->visit(tile, {tile.end, keys.end});
            continue;
        }
        if (std::ranges::all_of(used, [&](const auto& head) { return head->is_masked(tile); })) {
            continue;
        }
        const Unit &first = used.front()->unit(), &last = used.back()->unit();
        fetch(a.k, tile, first.key_head, last.key_head, first.batch);
        fetch(a.v, tile, first.value_head, last.value_head, first.batch);
        for (auto& head : used) head->visit(tile);
    }
    for (const auto& head : used) head->put(part, results);
}

}  // namespace heddle::cpu
