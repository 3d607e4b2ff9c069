#include "ops/flash_attn.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "backends/cpu/dot/panel.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::uint16_t kMasked = 0xfc00;  ///< -inf as a half

/// Queries and keys that are worked on together; their scores, queries and results stay in the
/// first cache.
constexpr std::int64_t kQueries = 16;
constexpr std::int64_t kKeys = 64;

/// With few queries the keys are cut into parts of at least so many, which are joined in the end.
/// How many depends on the shapes alone, so that results do not depend on the number of threads.
constexpr std::int64_t kKeysOfPart = 512;
constexpr std::int64_t kWantedUnits = 64;

std::int64_t blocks_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
std::size_t lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The attention with everything that its pieces need.
///
/// Heads that share keys and values are worked on together: a unit is up to `kQueries` rows of q,
/// taken from `group` neighbouring heads of one token after the other.
struct Attention {
    const Tensor &node, &q, &k, &v;
    const Tensor *mask, *sinks;
    ops::FlashAttnExt::Params params;
    Multiplier multiplier;
    const quant::Codec* codec;  ///< of v; null: its rows are added as they are
    SoftRows rows;
    std::int64_t keys, group, units_per_group, units, parts, keys_per_part;
    std::size_t query_pitch;

    explicit Attention(const Tensor& y)
        : node(y),
          q(*y.src[0]),
          k(*y.src[1]),
          v(*y.src[2]),
          mask(y.src[3]),
          sinks(y.src[4]),
          params(unpack<ops::FlashAttnExt::Params>(y)),
          multiplier(multiplier_of(k.type)),
          codec(quant::codec_of(v.type)),
          rows(soft_rows_of(codec != nullptr ? GGML_TYPE_F32 : v.type)),
          keys(k.ne[1]),
          group(std::max<std::int64_t>(1, std::gcd(q.ne[2] / k.ne[2], q.ne[2] / v.ne[2]))),
          units_per_group(blocks_of(q.ne[1] * group, kQueries)),
          units(q.ne[3] * (q.ne[2] / group) * units_per_group),
          parts(1),
          keys_per_part(keys),
          query_pitch(prepared_pitch(multiplier, q.ne[0])) {
        const std::int64_t wanted = units > 0 ? blocks_of(kWantedUnits, units) : 1;
        parts = std::clamp<std::int64_t>(keys / kKeysOfPart, 1, wanted);
        keys_per_part = std::max(kKeys, blocks_of(blocks_of(keys, parts), kKeys) * kKeys);
        parts = std::max<std::int64_t>(1, blocks_of(keys, keys_per_part));
    }

    std::int64_t width() const { return v.ne[0]; }

    // Scratch memory: what each task has for itself, then the parts of all rows of q.
    std::size_t queries_size() const { return kQueries * query_pitch; }
    std::size_t scores_size() const { return kQueries * kKeys * sizeof(float); }
    std::size_t values_size() const {
        return codec == nullptr ? 0 : lines(static_cast<std::size_t>(kKeys * width()) * 4);
    }
    std::size_t sums_size() const {
        return lines(static_cast<std::size_t>(kQueries * width()) * 4);
    }
    std::size_t task_size() const {
        return queries_size() + scores_size() + values_size() + sums_size();
    }
    /// Floats of a part of a row: the largest score, the sum of weights, the weighted values.
    std::size_t part_length() const { return static_cast<std::size_t>(width()) + 2; }
    std::size_t parts_size() const {
        if (parts == 1) return 0;
        return static_cast<std::size_t>(row_count(q) * parts) * part_length() * sizeof(float);
    }

    float slope_of(std::int64_t head) const {
        if (params.max_bias <= 0) return 1;
        const auto low =
            static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(q.ne[2])));
        const float base = std::exp2(-params.max_bias / static_cast<float>(low));
        const float between = std::exp2(-params.max_bias / 2 / static_cast<float>(low));
        return head < low ? std::pow(base, static_cast<float>(head + 1))
                          : std::pow(between, static_cast<float>(2 * (head - low) + 1));
    }

    const std::uint16_t* mask_row(const Row& row) const {
        if (mask == nullptr) return nullptr;
        return at<const std::uint16_t>(*mask, 0, row.i1, row.i2 % mask->ne[2],
                                       row.i3 % mask->ne[3]);
    }
};

/// One row of q on its way through the keys.
struct Query {
    Row row{};  ///< token, head, batch
    float slope = 1;
    const std::uint16_t* mask = nullptr;
    float most = kNever;  ///< the largest score so far
    float total = 0;      ///< the weights so far
    float* sums = nullptr;
};

/// The work of one task on one unit.
class Unit {
public:
    Unit(const Attention& attention, const Task& task, std::int64_t number) : a_(attention) {
        std::byte* memory = task.scratch + static_cast<std::size_t>(task.index) * a_.task_size();
        queries_ = memory;
        scores_ = reinterpret_cast<float*>(memory + a_.queries_size());
        values_ = reinterpret_cast<float*>(memory + a_.queries_size() + a_.scores_size());
        auto* sums = reinterpret_cast<float*>(memory + a_.task_size() - a_.sums_size());

        const std::int64_t heads = a_.q.ne[2] / a_.group;
        const std::int64_t first = number % a_.units_per_group * kQueries;
        const std::int64_t head = number / a_.units_per_group % heads * a_.group;
        batch_ = number / (a_.units_per_group * heads);
        key_head_ = head / (a_.q.ne[2] / a_.k.ne[2]);
        value_head_ = head / (a_.q.ne[2] / a_.v.ne[2]);
        count_ = static_cast<int>(std::min(kQueries, a_.q.ne[1] * a_.group - first));
        for (int i = 0; i < count_; ++i) {
            const std::int64_t index = first + i;
            Query& query = query_[i];
            query.row = {index / a_.group, head + index % a_.group, batch_};
            query.slope = a_.slope_of(query.row.i2);
            query.mask = a_.mask_row(query.row);
            query.sums = sums + i * a_.width();
            prepare(i);
        }
    }

    /// Goes through keys `range`, a tile at a time.
    void visit(Range range) {
        for (std::int64_t j = range.begin; j < range.end; j += kKeys) {
            const std::int64_t n = std::min(kKeys, range.end - j);
            if (is_masked(j, n)) continue;
            score(j, n);
            bool any = false;
            for (int i = 0; i < count_; ++i) any |= weigh(i, j, n);
            if (any) add_values(j, n);
        }
    }

    std::span<Query> queries() { return {query_, static_cast<std::size_t>(count_)}; }

private:
    void prepare(int i) {
        const std::byte* from = row_at(a_.q, query_[i].row);
        std::byte* to = queries_ + static_cast<std::size_t>(i) * a_.query_pitch;
        prepared_[i] = from;
        score_rows_[i] = scores_ + i * kKeys;
        std::memset(query_[i].sums, 0, static_cast<std::size_t>(a_.width()) * sizeof(float));
        // Halves are multiplied with the queries as they are: nothing is gained by rounding them.
        if (a_.multiplier.prepared == GGML_TYPE_F32) return;
        prepare_row(a_.multiplier, a_.q.type, from, to, a_.q.ne[0]);
        prepared_[i] = to;
    }

    bool is_masked(std::int64_t j, std::int64_t n) const {
        for (int i = 0; i < count_; ++i) {
            const std::uint16_t* mask = query_[i].mask;
            if (mask == nullptr) return false;
            if (!std::all_of(mask + j, mask + j + n, [](auto m) { return m == kMasked; })) {
                return false;
            }
        }
        return true;
    }

    void score(std::int64_t j, std::int64_t n) {
        const Panel panel{a_.k.type, at(a_.k, 0, j, key_head_, batch_), a_.k.nb[1], n, a_.k.ne[0]};
        a_.multiplier.multiply(panel, prepared_, score_rows_, count_);
    }

    /// Turns scores into weights relative to the largest score so far. False: all weights are 0.
    bool weigh(int i, std::int64_t j, std::int64_t n) {
        Query& query = query_[i];
        float* scores = score_rows_[i];
        const ScoreRule rule{a_.params.scale, a_.params.logit_softcap, query.slope,
                             query.mask != nullptr ? query.mask + j : nullptr};
        const float most = a_.rows.finish(rule, scores, n);
        if (most == kNever) {
            std::fill(scores, scores + n, 0.0f);
            return false;
        }
        if (!(most <= query.most)) {
            const float factor = std::exp(query.most - most);
            query.most = most;
            query.total *= factor;
            a_.rows.scale(factor, query.sums, a_.width());
        }
        query.total += a_.rows.exponentiate(query.most, scores, n);
        return true;
    }

    void add_values(std::int64_t j, std::int64_t n) {
        const void* rows = at(a_.v, 0, j, value_head_, batch_);
        std::size_t pitch = a_.v.nb[1];
        if (a_.codec != nullptr) {
            rows = values_;
            pitch = static_cast<std::size_t>(a_.width()) * sizeof(float);
            for (std::int64_t r = 0; r < n; ++r) {
                a_.codec->decode(at(a_.v, 0, j + r, value_head_, batch_), values_ + r * a_.width(),
                                 a_.width());
            }
        }
        for (int i = 0; i < count_; ++i) {
            a_.rows.add_rows(score_rows_[i], rows, pitch, n, query_[i].sums, a_.width());
        }
    }

    const Attention& a_;
    std::byte* queries_;
    float *scores_, *values_;
    std::int64_t batch_, key_head_, value_head_;
    int count_;
    Query query_[kQueries];
    const std::byte* prepared_[kQueries];
    float* score_rows_[kQueries];
};

/// Writes a row of the result. A sink is one more score whose value is zero.
void write(const Attention& a, const Row& row, float most, float total, const float* sums) {
    float* to = at<float>(a.node, 0, row.i2, row.i1, row.i3);
    float factor = 1;
    if (a.sinks != nullptr) {
        const float sink = *at<const float>(*a.sinks, row.i2);
        const float joint = std::max(most, sink);
        factor = most == kNever ? 0 : std::exp(most - joint);
        total = total * factor + std::exp(sink - joint);
    }
    // Without any key that counts the row is zero.
    const float scale = most == kNever || total == 0 ? 0 : factor / total;
    for (std::int64_t d = 0; d < a.width(); ++d) to[d] = scale == 0 ? 0 : sums[d] * scale;
}

float* part_of(const Attention& a, const Task& task, std::int64_t row, std::int64_t part) {
    auto* all = reinterpret_cast<float*>(task.scratch +
                                         static_cast<std::size_t>(task.count) * a.task_size());
    return all + static_cast<std::size_t>(row * a.parts + part) * a.part_length();
}

std::int64_t number_of(const Attention& a, const Row& row) {
    return (row.i3 * a.q.ne[2] + row.i2) * a.q.ne[1] + row.i1;
}

void join_parts(const Attention& a, const Task& task) {
    for_rows(a.q, task.share(row_count(a.q)), [&](Row row) {
        float* joint = part_of(a, task, number_of(a, row), 0);
        for (std::int64_t part = 1; part < a.parts; ++part) {
            const float* next = part_of(a, task, number_of(a, row), part);
            if (next[0] == kNever) continue;
            const float most = std::max(joint[0], next[0]);
            const float mine = joint[0] == kNever ? 0 : std::exp(joint[0] - most);
            const float theirs = std::exp(next[0] - most);
            joint[0] = most;
            for (std::size_t i = 1; i < a.part_length(); ++i) {
                joint[i] = joint[i] * mine + next[i] * theirs;
            }
        }
        write(a, row, joint[0], joint[1], joint + 2);
    });
}

std::string_view objection(const Tensor& node) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const Tensor *mask = node.src[3], *sinks = node.src[4];
    if (q.type != GGML_TYPE_F32) return "q is not f32";
    if (dot_type_of(k.type) == GGML_TYPE_COUNT) return "keys of this type cannot be multiplied";
    const bool is_plain =
        v.type == GGML_TYPE_F32 || v.type == GGML_TYPE_F16 || v.type == GGML_TYPE_BF16;
    if (!is_plain && quant::codec_of(v.type) == nullptr) return "values of this type";
    for (const Tensor* rows : {&q, &k, &v}) {
        if (rows->nb[0] != size_of(rows->type)) return "rows of q, k or v are not dense";
    }
    if (v.ne[1] != k.ne[1]) return "k and v differ in the number of rows";
    if (k.ne[2] == 0 || v.ne[2] == 0 || q.ne[2] % k.ne[2] != 0 || q.ne[2] % v.ne[2] != 0) {
        return "the heads of k or v do not divide those of q";
    }
    if (mask != nullptr) {
        if (mask->type != GGML_TYPE_F16 || mask->nb[0] != 2) return "the mask is not dense f16";
        if (mask->ne[0] < k.ne[1] || mask->ne[1] < q.ne[1]) return "the mask is too small";
    }
    if (sinks != nullptr && (sinks->type != GGML_TYPE_F32 || sinks->ne[0] < q.ne[2])) {
        return "sinks are not one f32 for each head";
    }
    if (node.type != GGML_TYPE_F32 || node.nb[0] != 4) return "the result is not dense f32";
    return {};
}

Demand demand(const Tensor& node, int threads) {
    const Attention a(node);
    const double flops = 2.0 * static_cast<double>(row_count(a.q)) *
                         static_cast<double>(a.q.ne[0] + a.width()) * static_cast<double>(a.keys);
    const int tasks = worthwhile_tasks(0, flops, a.units * a.parts, threads);
    return {.tasks = tasks,
            .scratch = static_cast<std::size_t>(tasks) * a.task_size() + a.parts_size()};
}

void run(const Tensor& node, const Task& task) {
    if (is_empty(node)) return;
    const Attention a(node);
    for (std::int64_t piece = task.take(); piece < a.units * a.parts; piece = task.take()) {
        const std::int64_t part = piece % a.parts, begin = part * a.keys_per_part;
        Unit unit(a, task, piece / a.parts);
        unit.visit({begin, std::min(begin + a.keys_per_part, a.keys)});
        for (const Query& query : unit.queries()) {
            if (a.parts == 1) {
                write(a, query.row, query.most, query.total, query.sums);
                continue;
            }
            float* to = part_of(a, task, number_of(a, query.row), part);
            to[0] = query.most;
            to[1] = query.total;
            std::memcpy(to + 2, query.sums, static_cast<std::size_t>(a.width()) * sizeof(float));
        }
    }
    if (a.parts == 1) return;
    task.sync();
    join_parts(a, task);
}

}  // namespace

extern const Kernel kFlashAttn{.name = "flash_attn",
                               .op = GGML_OP_FLASH_ATTN_EXT,
                               .objection = objection,
                               .run = run,
                               .demand = demand};

}  // namespace heddle::cpu
