#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/alloc/pieces.hpp"
#include "runtime/alloc/plan.hpp"

namespace heddle::alloc {

/// Blocks by the time they begin or end at: those of time t are `blocks[begin[t] .. begin[t + 1]]`.
/// Blocks of no size are left out.
struct Calendar {
    std::vector<std::uint32_t> begin, blocks;

    template <class TimeOf>
    void fill(std::span<const Block> all, std::size_t end, TimeOf time_of) {
        begin.assign(end + 3, 0);
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

/// Times from the first to the last, both included.
struct Window {
    std::size_t first, last;

    bool meets(const Block& block) const {
        return static_cast<std::size_t>(block.first) <= last &&
               first <= static_cast<std::size_t>(block.last);
    }
};

/// Places blocks as time passes: what begins takes the hole it fits best, what ends leaves one.
/// Linear in the number of blocks and times. Keeps its tables for the next blocks.
class Sweep {
public:
    /// How to begin, and with how much memory.
    struct Start {
        std::size_t capacity;  ///< of a chunk
        std::size_t most;      ///< bytes of all chunks; needing more is a failure
        Pieces::Side side = Pieces::Side::alike;
    };

    /// Nothing lives after `end`. The blocks are borrowed.
    void prepare(std::span<const Block> blocks, std::size_t end) {
        blocks_ = blocks;
        end_ = end;
        begins_.fill(blocks, end, [](const Block& block) { return block.first; });
        ends_.fill(blocks, end, [](const Block& block) { return block.last; });
        held_.resize(blocks.size());
        places_.assign(blocks.size(), Place{});
    }

    /// Starts with what is alive at `pivot`, without a gap, the highest `key` at the bottom, and
    /// lets time pass from there in both directions.
    template <class Key>
    bool run(std::size_t pivot, const Start& start, Key key) {
        pieces_.reset(start.capacity, start.side);
        most_ = start.most;
        starting_.clear();
        for_each_alive(pivot, [&](std::uint32_t i) {
            starting_.emplace_back(-std::int64_t{key(blocks_[i])}, i);
        });
        std::ranges::sort(starting_);
        for (const auto& [_, block] : starting_) take(block, pivot < end_);
        return spread({pivot, pivot}, true);
    }

    /// Starts with what is alive in `window`, all in one chunk of `used` bytes at the places that
    /// `set_place` gave them, and lets time pass from there in both directions.
    bool run_from(const Window& window, std::size_t used, const Start& start) {
        pieces_.reset(start.capacity, start.side);
        most_ = start.most;
        if (used > 0) pieces_.put({0, 0}, used, 0);
        return spread(window, false);
    }
    void set_place(std::uint32_t block, const Place& place) { places_[block] = place; }
    const Place& place_of(std::uint32_t block) const { return places_[block]; }

    /// After a failure: when it was.
    std::size_t failed_at() const { return failed_at_; }
    std::size_t total() const { return pieces_.total(); }

    /// How many blocks are alive in `window`.
    std::size_t count(const Window& window) const {
        return begins_.begin[window.last + 1] - ends_.begin[window.first];
    }

    /// What the last run gave, which did not fail.
    void move_result(Packing& packing) {
        std::swap(packing.places, places_);
        places_.resize(blocks_.size());
        packing.chunks.clear();
        for (const Pieces::Chunk& chunk : pieces_.chunks()) packing.chunks.push_back(chunk.used);
        // What takes no memory has a place, too.
        if (packing.chunks.empty()) packing.chunks.push_back(0);
    }

private:
    template <class Action>
    void for_each_alive(std::size_t time, Action action) const {
        const Window now{time, time};
        for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
            if (now.meets(blocks_[i]) && blocks_[i].size > 0) action(i);
        }
    }

    /// When a block is given back: later is more.
    std::int32_t until(const Block& block, bool forwards) const {
        return forwards ? block.last : -block.first;
    }

    /// `held` says that what is alive has its pieces already.
    bool spread(const Window& window, bool held) {
        if (window.last < end_) {
            if (!held) hold_alive(window.last, true);
            for (std::size_t now = window.last; now < end_; ++now) {
                if (!step(ends_.at(now), begins_.at(now + 1), true)) return fail(now + 1);
            }
        }
        if (window.first > 0) {
            if (!held || window.last < end_) hold_alive(window.first, false);
            for (std::size_t now = window.first; now > 0; --now) {
                if (!step(begins_.at(now), ends_.at(now - 1), false)) return fail(now - 1);
            }
        }
        return pieces_.total() <= most_ || fail(window.first);
    }

    bool fail(std::size_t time) {
        failed_at_ = time;
        return false;
    }

    /// Makes pieces of what is alive at `time`, where it has its place, and holes of the rest.
    void hold_alive(std::size_t time, bool forwards) {
        sorted_.clear();
        for_each_alive(time, [&](std::uint32_t i) {
            sorted_.emplace_back(places_[i].chunk, places_[i].offset, i);
        });
        std::ranges::sort(sorted_);
        pieces_.begin_refill();
        for (const auto& [chunk, offset, i] : sorted_) {
            held_[i] = pieces_.put({chunk, offset}, blocks_[i].size, until(blocks_[i], forwards));
        }
        pieces_.end_refill();
    }

    void take(std::uint32_t block, bool forwards) {
        held_[block] = pieces_.take(blocks_[block].size, until(blocks_[block], forwards));
        places_[block] = pieces_.place_of(held_[block]);
    }

    bool step(std::span<const std::uint32_t> over, std::span<const std::uint32_t> next,
              bool forwards) {
        for (const std::uint32_t block : over) pieces_.give(held_[block]);
        if (next.size() == 1) {
            take(next[0], forwards);
        } else if (next.size() > 1) {
            // What stays longest goes to the bottom, where it divides nothing.
            starting_.clear();
            for (const std::uint32_t i : next) {
                starting_.emplace_back(-std::int64_t{until(blocks_[i], forwards)}, i);
            }
            std::ranges::sort(starting_);
            for (const auto& [_, block] : starting_) take(block, forwards);
        }
        return next.empty() || pieces_.total() <= most_;
    }

    std::span<const Block> blocks_;
    std::size_t end_ = 0, most_ = 0, failed_at_ = 0;
    Calendar begins_, ends_;
    Pieces pieces_;
    std::vector<Pieces::Id> held_;  ///< the piece of each block that is alive
    std::vector<Place> places_;
    std::vector<std::pair<std::int64_t, std::uint32_t>> starting_;
    std::vector<std::tuple<std::uint32_t, std::size_t, std::uint32_t>> sorted_;
};

}  // namespace heddle::alloc
