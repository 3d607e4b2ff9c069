#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "runtime/alloc/first_fit.hpp"
#include "runtime/alloc/plan.hpp"
#include "runtime/alloc/sweep.hpp"

namespace heddle::alloc {

/// Places the blocks of one arena so that those alive at the same time do not overlap, in as few
/// bytes as can be found quickly. Keeps its tables, so that the next blocks cost no allocation.
///
/// Cheap attempts come first, and the next one only if those were not good: sweeps through time
/// from different times on; then a search for the best order of the blocks around the time when
/// memory is scarce, and a sweep from there over the rest.
class Packer {
public:
    /// No chunk exceeds `chunk_limit`, but for a block that is larger by itself: it gets a chunk of
    /// its size. Equal blocks give equal results, whatever was packed before.
    ///
    /// The result is valid up to the next call. Fails if all blocks together cannot be counted.
    Result<const Packing*> pack(std::span<const Block> blocks, std::size_t chunk_limit);

private:
    Result<> measure();
    std::size_t good() const;

    void pack_one_chunk();
    void pack_chunks(std::size_t limit);
    template <class Key>
    bool sweep(std::size_t pivot, const Sweep::Start& start, Key key);
    void adopt_sweep();

    bool search(Window window);
    Window widened(Window window, std::size_t time) const;
    bool fit(const Window& window, std::size_t capacity);
    std::size_t set_tiny_aside(const Window& window);
    void fill_items(const Window& window, std::size_t tiny, int shift);
    void set_places(int shift, std::size_t chunk);

    std::span<const Block> blocks_;
    std::size_t sum_ = 0, end_ = 0;
    std::size_t bound_ = 0, peak_ = 0;  ///< the most bytes alive at one time, and the first such
    std::vector<std::size_t> alive_;    ///< bytes at each time
    Sweep sweep_;

    FirstFit first_fit_;
    std::vector<std::uint32_t> inside_, tiny_;  ///< blocks alive in the window; those set aside
    std::vector<Block> tiny_blocks_;            ///< the latter, seen from the window's begin
    Sweep tiny_sweep_;
    std::vector<std::size_t> fitted_;  ///< bytes of each chunk of what was fitted

    Packing best_;
    std::size_t total_ = SIZE_MAX;
};

/// The same, once.
Result<Packing> pack(std::span<const Block> blocks, std::size_t chunk_limit);

}  // namespace heddle::alloc
