#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

/// What planning the memory of a graph works on and results in: plain data.
namespace heddle::alloc {

/// Memory that one tensor, or several one after the other, need for a while.
///
/// Time is counted in nodes: 0 is before the first one, node i runs at i + 1, and one more than the
/// number of nodes is after the last. `first` and `last` both belong to the block's life.
struct Block {
    std::size_t size = 0;  ///< bytes, a multiple of the arena's alignment
    std::int32_t arena = 0;
    std::int32_t first = 0, last = 0;

    bool operator==(const Block&) const = default;
};

/// Where a block lies: in which of its arena's chunks, and how many bytes in.
struct Place {
    std::uint32_t chunk = 0;
    std::size_t offset = 0;
};

/// Blocks of one arena, packed. Every chunk becomes one real buffer.
struct Packing {
    std::vector<Place> places;        ///< one for each block
    std::vector<std::size_t> chunks;  ///< bytes of each chunk
    std::size_t bound = 0;            ///< most bytes alive at one time: no packing takes less

    std::size_t total() const {
        return std::accumulate(chunks.begin(), chunks.end(), std::size_t{0});
    }
};

/// The memory of a whole graph.
struct Plan {
    std::vector<Block> blocks;
    std::vector<Place> places;                     ///< one for each block
    std::vector<std::vector<std::size_t>> chunks;  ///< bytes of each chunk of each arena
    std::vector<bool> steps;  ///< of each group of the graph: whether it was planned as one step

    bool drops_groups() const {
        return std::find(steps.begin(), steps.end(), false) != steps.end();
    }

    std::size_t bytes(std::size_t arena) const {
        return std::accumulate(chunks[arena].begin(), chunks[arena].end(), std::size_t{0});
    }

    /// Whether blocks of another graph may lie where these do. Block i goes to the place of block
    /// i, so it is enough that it is no larger and lives at no other time: what does not overlap
    /// here does not overlap there, however the two graphs are wired.
    bool covers(const std::vector<Block>& others) const {
        if (others.size() > blocks.size()) return false;
        for (std::size_t i = 0; i < others.size(); ++i) {
            const Block &mine = blocks[i], &other = others[i];
            if (other.arena != mine.arena || other.size > mine.size) return false;
            if (other.first < mine.first || other.last > mine.last) return false;
        }
        return true;
    }
};

}  // namespace heddle::alloc
