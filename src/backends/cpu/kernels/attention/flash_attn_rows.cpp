#include "backends/cpu/kernels/attention/flash_attn_rows.hpp"

#include <algorithm>
#include <cmath>

#include "backends/cpu/dot/panel.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

/// Keys that are worked on together; their scores stay in the first cache. Going from keys to
/// values and back costs time with memory, so it is not done more often.
constexpr std::int64_t kKeys = 512;

/// One row of q on its way through the keys.
struct Query {
    const std::uint16_t* mask = nullptr;
    float slope = 1;
    float most = kNever;  ///< the largest score so far
    float total = 0;      ///< the weights so far
};

// Scratch memory of a task, in this order. Sizes are for any instruction set.
std::size_t queries_size(const Attention& a) {
    return kRowsUnit * prepared_pitch(multiplier_of(a.k.type), a.depth());
}
std::size_t scores_size() { return lines_of_floats(kRowsUnit * kKeys); }
std::size_t sums_size(const Attention& a) { return lines_of_floats(kRowsUnit * a.width()); }
std::size_t values_size(const Attention& a) {
    return quant::codec_of(a.v.type) == nullptr ? 0 : lines_of_floats(kKeys * a.width());
}

class Rows {
public:
    Rows(const Attention& attention, const Unit& unit, std::byte* memory)
        : a_(attention),
          unit_(unit),
          count_(static_cast<int>(unit.count)),
          steps_(soft_rows()),
          multiplier_(multiplier_of(a_.k.type)),
          score_(score_rows_of(a_.k.type)),
          add_(add_rows_of(a_.v.type)) {
        auto* scores = reinterpret_cast<float*>(memory + queries_size(a_));
        auto* sums = reinterpret_cast<float*>(memory + queries_size(a_) + scores_size());
        values_ =
            reinterpret_cast<float*>(memory + queries_size(a_) + scores_size() + sums_size(a_));
        for (int i = 0; i < count_; ++i) {
            const Row row = a_.row(unit_, i);
            query_[i].mask = a_.mask_row(row);
            query_[i].slope = a_.slope_of(row.i2);
            scores_[i] = scores + i * kKeys;
            sums_[i] = sums + i * a_.width();
            std::fill_n(sums_[i], a_.width(), 0.0f);
        }
        prepare(memory);
    }

    /// Goes through keys `range`, a tile at a time.
    void visit(Range range) {
        for (std::int64_t j = range.begin; j < range.end; j += kKeys) {
            const std::int64_t n = std::min(kKeys, range.end - j);
            if (is_masked(j, n)) continue;
            score(j, n);
            bool any = false;
            for (int i = 0; i < count_; ++i) any |= weigh(i, j, n);
            if (any) add_values(j, n, rows_ahead(a_.k, unit_.key_head, {j + n, range.end}));
        }
    }

    Outcome outcome(std::int64_t i) const { return {query_[i].most, query_[i].total, sums_[i]}; }

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

    /// The first of `keys`, as far as a tile goes.
    RowsAhead rows_ahead(const Tensor& t, std::int64_t head, Range keys) const {
        if (keys.begin >= keys.end) return {};
        return {at(t, 0, keys.begin, head, unit_.batch), t.nb[1],
                std::min(kKeys, keys.end - keys.begin), row_size(t.type, t.ne[0])};
    }

    void score(std::int64_t j, std::int64_t n) {
        const Panel panel{a_.k.type, at(a_.k, 0, j, unit_.key_head, unit_.batch), a_.k.nb[1], n,
                          a_.depth()};
        if (score_ == nullptr) return multiplier_.multiply(panel, prepared_, scores_, count_);
        score_(panel, rows_ahead(a_.v, unit_.value_head, {j, j + n}), queries_, scores_, count_);
    }

    bool is_masked(std::int64_t j, std::int64_t n) const {
        if (a_.mask == nullptr) return false;
        MaskKind kind;
        for (int i = 0; i < count_ && kind.hides_all; ++i) {
            if (i == 0 || query_[i].mask != query_[i - 1].mask) kind.add(query_[i].mask + j, n);
        }
        return kind.hides_all;
    }

    /// Turns scores into weights relative to the largest score so far. False: all weights are 0.
    bool weigh(int i, std::int64_t j, std::int64_t n) {
        Query& query = query_[i];
        float* scores = scores_[i];
        const ScoreRule rule{a_.params.scale, a_.params.logit_softcap, query.slope,
                             query.mask != nullptr ? query.mask + j : nullptr};
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

    void add_values(std::int64_t j, std::int64_t n, const RowsAhead& ahead) {
        Panel panel{a_.v.type, at(a_.v, 0, j, unit_.value_head, unit_.batch), a_.v.nb[1], n,
                    a_.width()};
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
        add(panel, ahead, scores_, sums_, count_);
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
    return queries_size(a) + scores_size() + sums_size(a) + values_size(a);
}

void attend_rows(const Attention& a, std::int64_t number, std::int64_t part, std::byte* memory,
                 const Results& results) {
    const Unit unit = a.unit(number);
    Rows rows(a, unit, memory);
    rows.visit(a.keys_of_part(part));
    for (std::int64_t i = 0; i < unit.count; ++i)
        results.put(a.row(unit, i), part, rows.outcome(i));
}

}  // namespace heddle::cpu
