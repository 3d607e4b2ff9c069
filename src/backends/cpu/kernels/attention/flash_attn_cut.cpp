#include "backends/cpu/kernels/attention/flash_attn_cut.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace heddle::cpu {
namespace {

/// With few units the keys are cut into parts of at least so many, which are joined in the end. How
/// many depends on the shapes alone, so that results do not depend on the number of threads.
constexpr std::int64_t kLeastPartKeys = 512;
constexpr std::int64_t kWantedPieces = 64;

/// Where heads lie side by side in memory, threads should rather share the keys than the heads.
constexpr std::int64_t kLeastInterleavedKeys = 192;
constexpr std::int64_t kMostInterleavedParts = 16;

/// So much more of all tasks' time must be in use for fewer heads to be worked on together.
constexpr double kWorthwhileUse = 0.15;

/// Parts begin at whole tiles.
constexpr std::int64_t kPartStep = 64;

std::int64_t blocks_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

/// Floats of a part of a row: the largest score, the sum of weights, the weighted values.
std::size_t part_length(const Attention& a) { return static_cast<std::size_t>(a.width()) + 2; }

}  // namespace

std::int64_t heads_per_group(const Tensor& node) {
    const std::int64_t heads = node.src[0]->ne[2];
    return std::max<std::int64_t>(1,
                                  std::gcd(heads / node.src[1]->ne[2], heads / node.src[2]->ne[2]));
}

// ---- cutting -----------------------------------------------------------------------------------

Attention::Attention(const Tensor& y, std::int64_t rows)
    : node(y),
      q(*y.src[0]),
      k(*y.src[1]),
      v(*y.src[2]),
      mask(y.src[3]),
      sinks(y.src[4]),
      params(unpack<ops::FlashAttnExt::Params>(y)),
      group(heads_per_group(y)),
      unit_rows(rows),
      units_per_group(blocks_of(q.ne[1] * group, unit_rows)),
      units(q.ne[3] * (q.ne[2] / group) * units_per_group) {
    const bool interleaved = is_interleaved();
    const std::int64_t least = interleaved ? kLeastInterleavedKeys : kLeastPartKeys;
    const std::int64_t wanted = interleaved ? kMostInterleavedParts
                                : units > 0 ? blocks_of(kWantedPieces, units)
                                            : 1;
    parts = std::clamp<std::int64_t>(keys() / least, 1, wanted);
    part_keys = std::max(kPartStep, blocks_of(blocks_of(keys(), parts), kPartStep) * kPartStep);
    parts = std::max<std::int64_t>(1, blocks_of(keys(), part_keys));
}

bool Attention::is_interleaved() const {
    return units_per_group == 1 && q.ne[2] > group && k.nb[2] < k.nb[1] && v.nb[2] < v.nb[1];
}

void Attention::join_heads(int tasks, std::int64_t most) {
    if (!is_interleaved()) return;
    const std::int64_t groups = q.ne[2] / group;
    std::int64_t best = 1;
    double best_use = 0;  // of all tasks' time
    for (span = std::min(groups, most); span >= 1; --span) {
        if (groups % span != 0) continue;
        const std::int64_t turns = blocks_of(pieces(), tasks);
        const double use = static_cast<double>(pieces()) / static_cast<double>(turns * tasks);
        if (use <= best_use + kWorthwhileUse) continue;
        best = span;
        best_use = use;
    }
    span = best;
}

Unit Attention::unit(std::int64_t number) const {
    const std::int64_t groups = q.ne[2] / group;
    Unit made;
    made.first = number % units_per_group * unit_rows;
    made.count = std::min(unit_rows, q.ne[1] * group - made.first);
    made.head = number / units_per_group % groups * group;
    made.batch = number / (units_per_group * groups);
    made.key_head = made.head / (q.ne[2] / k.ne[2]);
    made.value_head = made.head / (q.ne[2] / v.ne[2]);
    return made;
}

Range Attention::keys_of_part(std::int64_t part) const {
    return {part * part_keys, std::min((part + 1) * part_keys, keys())};
}

float Attention::slope_of(std::int64_t head) const {
    if (params.max_bias <= 0) return 1;
    const auto low = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(q.ne[2])));
    const float base = std::exp2(-params.max_bias / static_cast<float>(low));
    const float between = std::exp2(-params.max_bias / 2 / static_cast<float>(low));
    return head < low ? std::pow(base, static_cast<float>(head + 1))
                      : std::pow(between, static_cast<float>(2 * (head - low) + 1));
}

const std::uint16_t* Attention::mask_row(const Row& row) const {
    if (mask == nullptr) return nullptr;
    return at<const std::uint16_t>(*mask, 0, row.i1, row.i2 % mask->ne[2], row.i3 % mask->ne[3]);
}

// ---- results -----------------------------------------------------------------------------------

std::size_t Results::size(const Attention& a) {
    if (a.parts == 1) return 0;
    return static_cast<std::size_t>(row_count(a.q) * a.parts) * part_length(a) * sizeof(float);
}

float* Results::part_of(const Row& row, std::int64_t part) const {
    const std::int64_t number = (row.i3 * a_.q.ne[2] + row.i2) * a_.q.ne[1] + row.i1;
    return parts_ + static_cast<std::size_t>(number * a_.parts + part) * part_length(a_);
}

void Results::put(const Row& row, std::int64_t part, const Outcome& outcome) const {
    if (a_.parts == 1) return write(row, outcome);
    float* to = part_of(row, part);
    to[0] = outcome.most;
    to[1] = outcome.total;
    for (std::int64_t d = 0; d < a_.width(); ++d) to[2 + d] = outcome.sums[d * outcome.step];
}

/// A sink is one more score whose value is zero.
void Results::write(const Row& row, const Outcome& outcome) const {
    float* to = at<float>(a_.node, 0, row.i2, row.i1, row.i3);
    float total = outcome.total, factor = 1;
    if (a_.sinks != nullptr && total != 0) {
        const float sink = *at<const float>(*a_.sinks, row.i2);
        const float joint = std::max(outcome.most, sink);
        factor = std::exp(outcome.most - joint);
        total = total * factor + std::exp(sink - joint);
    }
    // Without any key that counts the row is zero.
    if (total == 0) return std::fill(to, to + a_.width(), 0.0f);
    const float scale = factor / total;
    for (std::int64_t d = 0; d < a_.width(); ++d) to[d] = outcome.sums[d * outcome.step] * scale;
}

void Results::join(const Task& task) const {
    if (a_.parts == 1) return;
    task.sync();
    for_rows(a_.q, task.share(row_count(a_.q)), [&](const Row& row) {
        float* joint = part_of(row, 0);
        for (std::int64_t part = 1; part < a_.parts; ++part) {
            const float* next = part_of(row, part);
            if (next[1] == 0) continue;
            const float most = std::max(joint[0], next[0]);
            const float mine = joint[1] == 0 ? 0 : std::exp(joint[0] - most);
            const float theirs = std::exp(next[0] - most);
            joint[0] = most;
            for (std::size_t i = 1; i < part_length(a_); ++i) {
                joint[i] = joint[i] * mine + next[i] * theirs;
            }
        }
        write(row, {joint[0], joint[1], joint + 2});
    });
}

// ---- masks -------------------------------------------------------------------------------------

void MaskKind::add(const std::uint16_t* mask, std::int64_t count) {
    unsigned any = 0, other = 0;
    for (std::int64_t j = 0; j < count; ++j) {
        any |= mask[j];
        other |= mask[j] ^ kHidden;
    }
    is_zero = is_zero && any == 0;
    hides_all = hides_all && other == 0;
}

}  // namespace heddle::cpu
