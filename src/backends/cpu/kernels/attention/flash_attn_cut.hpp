#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernel.hpp"
#include "ops/flash_attn.hpp"

/// How attention is cut into pieces that tasks work on, and where results of pieces go.
namespace heddle::cpu {

/// The score of a key that does not count.
inline constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Bytes up to the next cache line.
inline std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
inline std::size_t lines_of_floats(std::int64_t count) {
    return whole_lines(static_cast<std::size_t>(count) * sizeof(float));
}

/// Query heads that share both keys and values.
std::int64_t heads_per_group(const Tensor& node);

/// Rows of q that are worked on together: of `group` neighbouring heads, one token after the other.
struct Unit {
    std::int64_t first = 0, count = 0;  ///< among all rows of the heads
    std::int64_t head = 0, batch = 0;
    std::int64_t key_head = 0, value_head = 0;
};

/// A node of attention and how it is cut. A piece of work is a unit, or a few, and a part of the
/// keys.
struct Attention {
    const Tensor &node, &q, &k, &v;
    const Tensor *mask, *sinks;
    ops::FlashAttnExt::Params params;
    std::int64_t group;
    std::int64_t unit_rows, units_per_group, units;
    std::int64_t parts = 1, part_keys = 0;
    std::int64_t span = 1;  ///< units of a piece, which are neighbouring heads

    /// `unit_rows` at most are in a unit.
    Attention(const Tensor& node, std::int64_t unit_rows);

    std::int64_t depth() const { return q.ne[0]; }
    std::int64_t width() const { return v.ne[0]; }
    std::int64_t keys() const { return k.ne[1]; }
    std::int64_t pieces() const { return units / span * parts; }

    /// The heads of a key lie side by side in memory, as caches have them, and all queries of a
    /// head are in one unit: then it is better to go from key to key than from head to head.
    bool is_interleaved() const;

    /// Heads that are worked on together: `most` at most, and not so many that some tasks wait
    /// while others have a piece left. Results do not depend on it.
    void join_heads(int tasks, std::int64_t most);

    Unit unit(std::int64_t number) const;
    std::int64_t first_unit_of(std::int64_t piece) const { return piece / parts * span; }
    std::int64_t part_of(std::int64_t piece) const { return piece % parts; }
    Row row(const Unit& unit, std::int64_t i) const {
        const std::int64_t index = unit.first + i;
        return {index / group, unit.head + index % group, unit.batch};
    }
    Range keys_of_part(std::int64_t part) const;

    float slope_of(std::int64_t head) const;
    /// Halves, one for each key; null without a mask.
    const std::uint16_t* mask_row(const Row& row) const;
};

/// A task's turn to work on a piece.
struct Turn {
    std::int64_t piece = 0;
    std::int64_t next = 0;  ///< what it most likely works on after that; may be no piece at all
    bool foreseen = false;  ///< this piece was the last turn's next one
};

/// What a row of q has come to over some keys.
struct Outcome {
    float most = kNever;  ///< the largest score
    float total = 0;      ///< the sum of weights relative to it
    const float* sums = nullptr;
    std::int64_t step = 1;  ///< from one sum to the next
};

/// Takes rows of pieces and makes the result of them.
class Results {
public:
    /// `memory` has `size(attention)` bytes.
    Results(const Attention& attention, std::byte* memory)
        : a_(attention), parts_(reinterpret_cast<float*>(memory)) {}

    static std::size_t size(const Attention& attention);

    void put(const Row& row, std::int64_t part, const Outcome& outcome) const;

    /// This task's share of joining the parts, once all of them are there.
    void join(const Task& task) const;

private:
    void write(const Row& row, const Outcome& outcome) const;
    float* part_of(const Row& row, std::int64_t part) const;

    const Attention& a_;
    float* parts_;
};

/// What a mask has where a key is hidden: -inf.
inline constexpr std::uint16_t kHidden = 0xfc00;

/// Whether a tile of `count` mask values hides all keys, or none.
struct MaskKind {
    bool hides_all = true;
    bool is_zero = true;

    void add(const std::uint16_t* mask, std::int64_t count);
};

}  // namespace heddle::cpu
