#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "runtime/alloc/pieces.hpp"
#include "runtime/alloc/plan.hpp"

namespace heddle::alloc {

/// How many bytes are alive when.
struct Profile {
    std::size_t end = 0;   ///< the last time anything is alive
    std::size_t peak = 0;  ///< the first time the most bytes are alive
    std::size_t bound = 0;

    explicit Profile(std::span<const Block> blocks) {
        for (const Block& block : blocks) end = std::max(end, static_cast<std::size_t>(block.last));
        std::vector<std::size_t> change(end + 2);
        for (const Block& block : blocks) {
            change[static_cast<std::size_t>(block.first)] += block.size;
            change[static_cast<std::size_t>(block.last) + 1] -= block.size;
        }
        std::size_t alive = 0;
        for (std::size_t now = 0; now <= end; ++now) {
            alive += change[now];
            if (alive <= bound) continue;
            bound = alive;
            peak = now;
        }
    }
};

/// Blocks by the time they begin or end at: those of time t are `blocks[begin[t] .. begin[t + 1]]`.
/// Blocks of no size are left out.
struct Calendar {
    std::vector<std::uint32_t> begin, blocks;

    template <class TimeOf>
    Calendar(std::span<const Block> all, std::size_t end, TimeOf time_of) : begin(end + 3) {
        for (const Block& block : all) {
            begin[static_cast<std::size_t>(time_of(block)) + 2] += block.size > 0;
        }
        std::partial_sum(begin.begin(), begin.end(), begin.begin());
        blocks.resize(begin.back());
        for (std::uint32_t i = 0; i < all.size(); ++i) {
            if (all[i].size == 0) continue;
            blocks[begin[static_cast<std::size_t>(time_of(all[i])) + 1]++] = i;
        }
    }
    std::span<const std::uint32_t> at(std::size_t time) const {
        return {blocks.data() + begin[time], begin[time + 1] - begin[time]};
    }
};

/// Places blocks as time passes: what begins takes the hole it fits best, what ends leaves one.
/// Linear in the number of blocks and times.
class Sweep {
public:
    Sweep(std::span<const Block> blocks, std::size_t end)
        : blocks_(blocks),
          end_(end),
          begins_(blocks, end, [](const Block& block) { return block.first; }),
          ends_(blocks, end, [](const Block& block) { return block.last; }),
          pieces_(0),
          held_(blocks.size()) {}

    /// Starts with what is alive at `pivot`, without a gap, the highest `key` at the bottom, and
    /// lets time pass from there in both directions. False, and nothing of use, once more than
    /// `most` bytes are taken.
    template <class Key>
    bool run(std::size_t pivot, std::size_t capacity, std::size_t most, Key key) {
        pieces_ = Pieces(capacity);
        places_.assign(blocks_.size(), Place{});
        most_ = most;
        gather(pivot, key);
        for (const auto& [_, block] : stacked_) take(block);
        const bool both_ways = pivot > 0 && pivot < end_;
        if (both_ways) {
            stacked_pieces_ = pieces_;
            held_at_pivot_ = held_;
        }
        for (std::size_t now = pivot; now < end_; ++now) {
            if (!step(ends_.at(now), begins_.at(now + 1), true)) return false;
        }
        if (both_ways) {
            pieces_.rewind(stacked_pieces_);
            std::swap(held_, held_at_pivot_);
        }
        for (std::size_t now = pivot; now > 0; --now) {
            if (!step(begins_.at(now), ends_.at(now - 1), false)) return false;
        }
        return pieces_.total() <= most;
    }

    std::size_t total() const { return pieces_.total(); }

    /// What the last run that succeeded gave.
    Packing result() const {
        Packing packing{.places = places_, .chunks = {}, .bound = 0};
        for (const Pieces::Chunk& chunk : pieces_.chunks()) packing.chunks.push_back(chunk.used);
        // What takes no memory has a place, too.
        if (packing.chunks.empty()) packing.chunks.push_back(0);
        return packing;
    }

private:
    template <class Key>
    void gather(std::size_t pivot, Key key) {
        stacked_.clear();
        const auto now = static_cast<std::int32_t>(pivot);
        for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
            const Block& block = blocks_[i];
            if (block.first <= now && now <= block.last && block.size > 0) {
                stacked_.emplace_back(-std::int64_t{key(block)}, i);
            }
        }
        std::ranges::sort(stacked_);
    }

    void take(std::uint32_t block) {
        held_[block] = pieces_.take(blocks_[block].size);
        places_[block] = pieces_.place_of(held_[block]);
    }

    bool step(std::span<const std::uint32_t> over, std::span<const std::uint32_t> next,
              bool forwards) {
        for (const std::uint32_t block : over) pieces_.give(held_[block]);
        if (next.size() == 1) {
            take(next[0]);
        } else if (next.size() > 1) {
            // What stays longest goes to the bottom, where it divides nothing.
            starting_.clear();
            for (const std::uint32_t i : next) {
                const std::int32_t stays = forwards ? -blocks_[i].last : blocks_[i].first;
                starting_.emplace_back(stays, i);
            }
            std::ranges::sort(starting_);
            for (const auto& [_, block] : starting_) take(block);
        }
        return next.empty() || pieces_.total() <= most_;
    }

    std::span<const Block> blocks_;
    std::size_t end_, most_ = 0;
    Calendar begins_, ends_;
    Pieces pieces_, stacked_pieces_{0};
    std::vector<Pieces::Id> held_, held_at_pivot_;  ///< the piece of each block that is alive
    std::vector<Place> places_;
    std::vector<std::pair<std::int64_t, std::uint32_t>> stacked_, starting_;
};

}  // namespace heddle::alloc
