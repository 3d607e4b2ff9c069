#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "runtime/alloc/plan.hpp"

namespace heddle::alloc {

/// Memory while time passes: chunks, cut into pieces that are taken or free. Taking and giving cost
/// about the same however many pieces there are.
class Pieces {
public:
    using Id = std::uint32_t;

    /// Where a piece goes in a hole that is larger.
    enum class Side {
        low,   ///< always the same
        alike  ///< beside the neighbour that ends at more nearly the same time: then one hole is
               ///< left by both
    };

    struct Chunk {
        std::size_t capacity, used;
        Id last;  ///< the piece that ends at `used`
    };

    Pieces() { bins_.fill(kNone); }

    /// Forgets everything but its tables. New chunks have room for `capacity` bytes, or for the one
    /// piece that is larger.
    void reset(std::size_t capacity, Side side) {
        capacity_ = capacity;
        side_ = side;
        chunks_.clear();
        forget_pieces();
    }

    /// Chunks lose what is in them, and get it back in order of address: first this, then all that
    /// stays with `put`, then `end_refill`, which makes the rest a hole.
    void begin_refill() {
        forget_pieces();
        reached_.clear();
        for (Chunk& chunk : chunks_) {
            reached_.push_back(chunk.used);
            chunk.used = 0;
            chunk.last = kNone;
        }
    }
    Id put(Place place, std::size_t size, std::int32_t until) {
        while (place.chunk >= chunks_.size()) chunks_.push_back({capacity_, 0, kNone});
        Chunk& chunk = chunks_[place.chunk];
        chunk.capacity = std::max(chunk.capacity, place.offset + size);
        if (place.offset > chunk.used) add_hole(append(place.chunk, place.offset - chunk.used));
        const Id id = append(place.chunk, size);
        pieces_[id].until = until;
        return id;
    }
    void end_refill() {
        for (std::uint32_t i = 0; i < reached_.size(); ++i) {
            const std::size_t used = chunks_[i].used;
            if (used < reached_[i]) add_hole(append(i, reached_[i] - used));
        }
    }

    /// The smallest hole that will do; memory that was never used only where there is none.
    /// `size` is not 0. What is taken together is given back at `until`, earlier or later.
    Id take(std::size_t size, std::int32_t until) {
        Id hole = best_hole(size);
        if (hole == kNone) hole = hole_at_an_end(size);
        const Id taken = hole == kNone ? grow(size) : cut(hole, size, until);
        pieces_[taken].until = until;
        return taken;
    }

    void give(Id id) {
        const Id before = pieces_[id].previous, after = pieces_[id].next;
        if (before != kNone && pieces_[before].free) {
            remove_hole(before);
            Piece& piece = pieces_[id];
            piece.begin = pieces_[before].begin;
            piece.size += pieces_[before].size;
            piece.previous = pieces_[before].previous;
            if (piece.previous != kNone) pieces_[piece.previous].next = id;
            spare_.push_back(before);
        }
        if (after != kNone && pieces_[after].free) {
            remove_hole(after);
            pieces_[id].size += pieces_[after].size;
            pieces_[id].next = pieces_[after].next;
            link_back(id);
            spare_.push_back(after);
        }
        add_hole(id);
    }

    Place place_of(Id id) const { return {pieces_[id].chunk, pieces_[id].begin}; }
    const std::vector<Chunk>& chunks() const { return chunks_; }
    std::size_t total() const {
        std::size_t total = 0;
        for (const Chunk& chunk : chunks_) total += chunk.used;
        return total;
    }

private:
    static constexpr Id kNone = UINT32_MAX;
    /// Holes of one bin differ by one part in eight at most.
    static constexpr std::size_t kBinsPerDoubling = 8, kBins = 64 * kBinsPerDoubling;
    /// So many holes of a bin are compared; the first of the next bin is nearly as good.
    static constexpr int kCompared = 4;

    struct Piece {
        std::size_t begin, size;
        std::uint32_t chunk;
        Id previous = kNone, next = kNone;  ///< neighbours in the chunk
        Id previous_in_bin = kNone, next_in_bin = kNone;
        std::int32_t until = 0;
        bool free = false;
    };

    static std::size_t bin_of(std::size_t size) {
        const std::size_t at_least = std::max(size, kBinsPerDoubling);
        const auto power = static_cast<std::size_t>(std::bit_width(at_least)) - 4;
        return power * kBinsPerDoubling + (at_least >> power & (kBinsPerDoubling - 1));
    }

    void forget_pieces() {
        pieces_.clear();
        spare_.clear();
        for (std::size_t word = 0; word < filled_.size(); ++word) {
            for (std::uint64_t bits = filled_[word]; bits != 0; bits &= bits - 1) {
                bins_[64 * word + static_cast<std::size_t>(std::countr_zero(bits))] = kNone;
            }
            filled_[word] = 0;
        }
    }

    Id make(const Piece& piece) {
        if (spare_.empty()) {
            pieces_.push_back(piece);
            return static_cast<Id>(pieces_.size() - 1);
        }
        const Id id = spare_.back();
        spare_.pop_back();
        pieces_[id] = piece;
        return id;
    }

    /// Makes the piece's right neighbour, or the chunk, know it.
    void link_back(Id id) {
        const Piece& piece = pieces_[id];
        if (piece.next != kNone) {
            pieces_[piece.next].previous = id;
        } else {
            chunks_[piece.chunk].last = id;
        }
    }

    /// The part of a hole that is taken. The rest stays a hole.
    Id cut(Id hole, std::size_t size, std::int32_t until) {
        remove_hole(hole);
        const std::size_t rest = pieces_[hole].size - size;
        if (rest == 0) return hole;
        const bool high = side_ == Side::alike && ends_like_right_neighbour(hole, until);
        const std::size_t low_size = high ? rest : size;
        const Id after = make({.begin = pieces_[hole].begin + low_size,
                               .size = pieces_[hole].size - low_size,
                               .chunk = pieces_[hole].chunk,
                               .previous = hole,
                               .next = pieces_[hole].next});
        pieces_[hole].size = low_size;
        pieces_[hole].next = after;
        link_back(after);
        add_hole(high ? hole : after);
        return high ? after : hole;
    }

    /// Rather than like the left one. Begins of chunks never end.
    bool ends_like_right_neighbour(Id hole, std::int32_t until) const {
        const Id left = pieces_[hole].previous, right = pieces_[hole].next;
        if (right == kNone) return false;
        const std::int64_t left_until = left == kNone ? INT32_MAX : pieces_[left].until;
        return std::abs(pieces_[right].until - std::int64_t{until}) < std::abs(left_until - until);
    }

    void add_hole(Id id) {
        Piece& piece = pieces_[id];
        const std::size_t bin = bin_of(piece.size);
        piece.free = true;
        piece.previous_in_bin = kNone;
        piece.next_in_bin = bins_[bin];
        if (bins_[bin] != kNone) pieces_[bins_[bin]].previous_in_bin = id;
        bins_[bin] = id;
        filled_[bin / 64] |= std::uint64_t{1} << bin % 64;
    }

    void remove_hole(Id id) {
        Piece& piece = pieces_[id];
        piece.free = false;
        if (piece.next_in_bin != kNone) {
            pieces_[piece.next_in_bin].previous_in_bin = piece.previous_in_bin;
        }
        if (piece.previous_in_bin != kNone) {
            pieces_[piece.previous_in_bin].next_in_bin = piece.next_in_bin;
            return;
        }
        const std::size_t bin = bin_of(piece.size);
        bins_[bin] = piece.next_in_bin;
        if (bins_[bin] == kNone) filled_[bin / 64] &= ~(std::uint64_t{1} << bin % 64);
    }

    Id best_hole(std::size_t size) const {
        const std::size_t bin = bin_of(size);
        std::uint64_t bits = filled_[bin / 64] & ~std::uint64_t{0} << bin % 64;
        for (std::size_t word = bin / 64;;) {
            if (bits == 0) {
                if (++word == filled_.size()) return kNone;
                bits = filled_[word];
                continue;
            }
            const Id best =
                best_in_bin(64 * word + static_cast<std::size_t>(std::countr_zero(bits)), size);
            if (best != kNone) return best;
            bits &= bits - 1;
        }
    }

    Id best_in_bin(std::size_t bin, std::size_t size) const {
        Id best = kNone, id = bins_[bin];
        std::size_t best_size = SIZE_MAX;
        for (int i = 0; i < kCompared && id != kNone; ++i, id = pieces_[id].next_in_bin) {
            if (pieces_[id].size < size || pieces_[id].size >= best_size) continue;
            best = id;
            best_size = pieces_[id].size;
        }
        return best;
    }

    /// Takes memory at the end of the chunk that has to grow least, or of a new one.
    Id grow(std::size_t size) {
        std::size_t best = chunks_.size(), least = SIZE_MAX;
        for (std::size_t i = 0; i < chunks_.size(); ++i) {
            const std::size_t more = size - free_at_end(chunks_[i]);
            if (more >= least || more > chunks_[i].capacity - chunks_[i].used) continue;
            best = i;
            least = more;
        }
        if (best == chunks_.size()) chunks_.push_back({std::max(size, capacity_), 0, kNone});
        const std::size_t free = free_at_end(chunks_[best]);
        if (free == 0) return append(static_cast<std::uint32_t>(best), size);
        const Id last = chunks_[best].last;
        remove_hole(last);
        pieces_[last].size = size;
        chunks_[best].used += size - free;
        return last;
    }

    Id append(std::uint32_t index, std::size_t size) {
        Chunk& chunk = chunks_[index];
        const Id id =
            make({.begin = chunk.used, .size = size, .chunk = index, .previous = chunk.last});
        if (chunk.last != kNone) pieces_[chunk.last].next = id;
        chunk.last = id;
        chunk.used += size;
        return id;
    }

    std::size_t free_at_end(const Chunk& chunk) const {
        if (chunk.last == kNone || !pieces_[chunk.last].free) return 0;
        return pieces_[chunk.last].size;
    }

    /// Only for holes that were not among those compared.
    Id hole_at_an_end(std::size_t size) const {
        for (const Chunk& chunk : chunks_) {
            if (free_at_end(chunk) >= size) return chunk.last;
        }
        return kNone;
    }

    std::size_t capacity_ = 0;
    Side side_ = Side::low;
    std::vector<Chunk> chunks_;
    std::vector<std::size_t> reached_;  ///< what was used of each chunk before it is filled again
    std::vector<Piece> pieces_;
    std::vector<Id> spare_;  ///< pieces that are no more
    std::array<Id, kBins> bins_{};
    std::array<std::uint64_t, kBins / 64> filled_{};  ///< a bit for each bin that has a hole
};

}  // namespace heddle::alloc
