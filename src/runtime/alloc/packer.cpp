#include "runtime/alloc/packer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>

#include "runtime/alloc/first_fit.hpp"
#include "runtime/alloc/sweep.hpp"

namespace heddle::alloc {
namespace {

/// A packing is good if it exceeds the bound by no more than one part in so many, and bad if by
/// more than one in so many: worth much more work.
constexpr std::size_t kGood = 50, kBad = 12;

/// Steps taken to improve a packing that is not good, and one that is bad. A step is one or two
/// nanoseconds.
constexpr std::size_t kSteps = 1 << 14, kStepsIfBad = 1 << 20;

/// With more blocks than that, orders are not searched: it would no longer be linear.
constexpr std::size_t kMostSearched = 1024;

/// Blocks are tiny, and not worth a search, if all up to their size together take no more than one
/// part in so many of the memory: on average over time, and at any time.
constexpr double kTinyOnAverage = 200;
constexpr std::size_t kTinyAtMost = 60;

/// What to put to the bottom when a sweep begins: what stays longest divides nothing there.
std::int32_t latest(const Block& block) { return block.last; }
std::int32_t earliest(const Block& block) { return -block.first; }

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
        sweep(profile_.end, limit, total_ - 1, earliest);
        sweep(profile_.peak, limit, total_ - 1, latest);
        sweep(0, limit, total_ - 1, latest);
        if (total_ > good()) search(limit);
        return std::move(best_);
    }

private:
    std::size_t good() const { return profile_.bound + profile_.bound / kGood; }

    /// Cheap attempts first; the next one only if that was not good.
    void pack_one_chunk() {
        if (sweep(profile_.end, sum_, good(), earliest) || search(sum_)) return;
        sweep(profile_.peak, sum_, total_ - 1, latest);
        if (total_ > good()) sweep(profile_.peak, sum_, total_ - 1, earliest);
    }

    template <class Key>
    bool sweep(std::size_t pivot, std::size_t capacity, std::size_t most, Key key) {
        if (!sweep_.run(pivot, capacity, most, key)) return false;
        total_ = sweep_.total();
        best_ = sweep_.result();
        best_.bound = profile_.bound;
        return true;
    }

    std::size_t tiny_size() const;
    std::vector<Block> blocks_below(std::size_t size) const;
    int unit_of(std::size_t size) const;
    std::vector<FirstFit::Item> items_from(std::size_t size, int shift) const;
    bool search(std::size_t capacity);
    bool adopt(const FirstFit& fit, int shift, std::size_t chunk, std::size_t tiny,
               const Sweep& upper);

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

/// Searches for a good order of all but tiny blocks; those lie above them, if that does not need
/// another chunk. False if it finds nothing better: for too many blocks, or too large ones.
bool Packer::search(std::size_t capacity) {
    if (blocks_.size() > 2 * kMostSearched) return false;
    std::size_t tiny = capacity < sum_ ? 1 : tiny_size();
    std::vector<Block> above = blocks_below(tiny);
    Sweep upper(above, profile_.end);
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
    auto items = items_from(tiny, shift);
    const std::size_t chunk = std::min<std::size_t>(capacity >> shift, FirstFit::kTooMany);
    const auto largest = std::ranges::max_element(items, {}, &FirstFit::Item::size);
    if (largest->size > chunk) return false;
    FirstFit fit(std::move(items), static_cast<std::int32_t>(profile_.peak),
                 static_cast<std::uint32_t>(2 * (profile_.bound >> shift) + 1),
                 static_cast<std::uint32_t>(capacity < sum_ ? chunk : FirstFit::kTooMany));
    const std::size_t bad = profile_.bound + profile_.bound / kBad;
    if (!fit.search({units(good()), units(bad), kSteps, kStepsIfBad})) return false;
    return adopt(fit, shift, capacity < sum_ ? chunk : FirstFit::kTooMany, tiny, upper);
}

/// Takes what was found if it is better than what there is.
bool Packer::adopt(const FirstFit& fit, int shift, std::size_t chunk, std::size_t tiny,
                   const Sweep& upper) {
    const std::size_t top = std::size_t{fit.used()} << shift;
    std::vector<std::size_t> chunks(1);
    for (const FirstFit::Item& item : fit.items()) {
        if (item.at / chunk >= chunks.size()) chunks.resize(item.at / chunk + 1);
        std::size_t& used = chunks[item.at / chunk];
        used = std::max(used, (item.at % chunk + item.size) << shift);
    }
    chunks.back() += upper.total();
    const std::size_t total = std::accumulate(chunks.begin(), chunks.end(), std::size_t{0});
    if (total >= total_) return false;

    total_ = total;
    best_.chunks = std::move(chunks);
    best_.places.assign(blocks_.size(), Place{});
    for (const FirstFit::Item& item : fit.items()) {
        best_.places[item.block] = {static_cast<std::uint32_t>(item.at / chunk), (item.at % chunk)
                                                                                     << shift};
    }
    // There are none but in one chunk, or they have no size and lie at its begin.
    const std::vector<Place> over = upper.result().places;
    for (std::size_t i = 0, next = 0; i < blocks_.size() && upper.total() > 0; ++i) {
        if (blocks_[i].size < tiny) best_.places[i].offset = top + over[next++].offset;
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
