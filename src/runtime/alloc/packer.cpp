#include "runtime/alloc/packer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/alloc/first_fit.hpp"
#include "runtime/alloc/sweep.hpp"

namespace heddle::alloc {
namespace {

/// A packing is good if it exceeds the bound by no more than one part in so many, and bad if by
/// more than one in so many: worth much more work.
constexpr std::size_t kGood = 80, kBad = 13;

/// Steps taken to improve a packing that is not good, and one that is bad. A step is one or two
/// nanoseconds.
constexpr std::size_t kSteps = 1 << 14, kStepsIfBad = 1 << 20;

/// With more blocks than that, orders are not searched: it would no longer be linear.
constexpr std::size_t kMostSearched = 1024;

/// Blocks are tiny, and not worth a search, if all up to their size together take no more than one
/// part in so many of the memory: on average over time, and at any time.
constexpr double kTinyOnAverage = 400;
constexpr std::size_t kTinyAtMost = 100;

class Packer {
public:
    Packer(std::span<const Block> blocks, std::size_t sum)
        : blocks_(blocks), profile_(blocks), sum_(sum), sweep_(blocks, profile_.end) {}

    /// The best packing found. Chunks are at most `limit` long where blocks allow.
    Packing run(std::size_t limit) {
        best_.bound = profile_.bound;
        if (profile_.bound <= limit) {
            pack_one_chunk();
            if (total_ <= limit) return std::move(best_);
            total_ = SIZE_MAX;
        }
        for (const std::size_t pivot : {profile_.end, profile_.peak, std::size_t{0}}) {
            sweep(pivot, limit, total_ - 1);
        }
        return std::move(best_);
    }

private:
    std::size_t good() const { return profile_.bound + profile_.bound / kGood; }

    /// Cheap attempts first; the next one only if that was not good.
    void pack_one_chunk() {
        if (sweep(profile_.end, sum_, good()) || search()) return;
        sweep(profile_.peak, sum_, total_ - 1);
        if (total_ > good()) sweep(profile_.end, sum_, total_ - 1);
    }

    /// What reaches furthest from the pivot goes to the bottom, where it divides nothing.
    bool sweep(std::size_t pivot, std::size_t capacity, std::size_t most) {
        const auto key = [&](const Block& block) {
            return pivot == profile_.end ? -block.first : block.last;
        };
        if (!sweep_.run(pivot, capacity, most, key)) return false;
        total_ = sweep_.total();
        const std::size_t bound = best_.bound;
        best_ = sweep_.result();
        best_.bound = bound;
        return true;
    }

    std::size_t tiny_size() const;
    std::vector<Block> blocks_below(std::size_t size) const;
    int unit_of(std::size_t size) const;
    std::vector<FirstFit::Item> items_from(std::size_t size, int shift) const;
    bool search();

    std::span<const Block> blocks_;
    Profile profile_;
    std::size_t sum_;
    Sweep sweep_;
    Packing best_;
    std::size_t total_ = SIZE_MAX;
};

/// Blocks below that size are tiny.
std::size_t Packer::tiny_size() const {
    std::array<double, 65> bytes{};  // by the size's number of digits; times the time alive
    for (const Block& block : blocks_) {
        bytes[static_cast<std::size_t>(std::bit_width(block.size))] +=
            static_cast<double>(block.size) * (block.last - block.first + 1);
    }
    double left = static_cast<double>(profile_.bound) / kTinyOnAverage *
                  static_cast<double>(profile_.end + 1);
    std::size_t digits = 0;
    while (digits < 63 && left >= bytes[digits]) left -= bytes[digits++];
    return digits == 0 ? 1 : std::size_t{1} << (digits - 1);
}

/// Searches for a good order of all but tiny blocks; those lie above them. False if there are too
/// many, or too large ones.
bool Packer::search() {
    if (blocks_.size() > 2 * kMostSearched) return false;
    std::size_t tiny = tiny_size();
    std::vector<Block> above = blocks_below(tiny);
    Sweep upper(above, profile_.end);
    const auto latest = [](const Block& block) { return block.last; };
    if (!upper.run(0, sum_, profile_.bound / kTinyAtMost, latest)) {
        tiny = 1;  // what has no size
        above = blocks_below(tiny);
        upper = Sweep(above, profile_.end);
        upper.run(0, sum_, 0, latest);
    }
    if (blocks_.size() - above.size() > kMostSearched) return false;

    const int shift = unit_of(tiny);
    if (profile_.bound >> shift >= FirstFit::kTooMany / 2) return false;
    const auto units = [&](std::size_t size) {
        return static_cast<std::uint32_t>((size - upper.total()) >> shift);
    };
    FirstFit fit(items_from(tiny, shift), static_cast<std::int32_t>(profile_.peak),
                 static_cast<std::uint32_t>(2 * (profile_.bound >> shift) + 1));
    const std::size_t bad = profile_.bound + profile_.bound / kBad;
    if (!fit.search({units(good()), units(bad), kSteps, kStepsIfBad})) return false;

    const std::size_t top = std::size_t{fit.used()} << shift;
    total_ = top + upper.total();
    best_.chunks = {total_};
    best_.places.assign(blocks_.size(), Place{});
    for (const FirstFit::Item& item : fit.items()) {
        best_.places[item.block].offset = std::size_t{item.at} << shift;
    }
    const Packing over = upper.result();
    for (std::size_t i = 0, next = 0; i < blocks_.size(); ++i) {
        if (blocks_[i].size < tiny) best_.places[i].offset = top + over.places[next++].offset;
    }
    return true;
}

std::vector<Block> Packer::blocks_below(std::size_t size) const {
    std::vector<Block> below;
    for (const Block& block : blocks_) {
        if (block.size < size) below.push_back(block);
    }
    return below;
}

/// All sizes from `size` on are multiples of 2 to that power.
int Packer::unit_of(std::size_t size) const {
    std::size_t digits = 0;
    for (const Block& block : blocks_) {
        if (block.size >= size) digits |= block.size;
    }
    return std::countr_zero(digits);
}

std::vector<FirstFit::Item> Packer::items_from(std::size_t size, int shift) const {
    std::vector<FirstFit::Item> items;
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
        const Block& block = blocks_[i];
        if (block.size < size) continue;
        const auto units = static_cast<std::uint32_t>(block.size >> shift);
        items.push_back({units, block.first, block.last, i, 0});
    }
    return items;
}

Result<std::size_t> total_size(std::span<const Block> blocks) {
    std::size_t sum = 0;
    for (const Block& block : blocks) {
        if (__builtin_add_overflow(sum, block.size, &sum) || sum > SIZE_MAX / 4) {
            return failure(Errc::out_of_memory, "planning memory: ", blocks.size(),
                           " blocks take more bytes than can be counted");
        }
    }
    return sum;
}

}  // namespace

Result<std::size_t> live_bound(std::span<const Block> blocks) {
    HEDDLE_TRY(total_size(blocks));
    return Profile(blocks).bound;
}

Result<Packing> pack(std::span<const Block> blocks, std::size_t chunk_limit) {
    HEDDLE_TRY_ASSIGN(const std::size_t sum, total_size(blocks));
    if (blocks.empty()) return Packing{};
    return Packer(blocks, sum).run(chunk_limit);
}

}  // namespace heddle::alloc
