#include "runtime/alloc/packer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

namespace heddle::alloc {
namespace {

constexpr std::size_t kUnplaced = SIZE_MAX;

/// A packing this close to the bound is not improved any more: one part in so many.
constexpr std::size_t kGoodEnough = 64;

/// How many neighbours there may be in all, and how many are looked at again to improve a packing:
/// for each block, and for small graphs in any case.
constexpr std::size_t kNeighboursPerBlock = 64, kNeighboursAlways = 1 << 20;
constexpr std::size_t kWorkPerBlock = 256, kWorkAlways = 1 << 16;

/// A packing that is further from the bound than one part in kBad is worth that much more work.
constexpr std::size_t kBad = 16, kWorkForBad = 64;

/// After so many attempts without success the next one starts from the best order again.
constexpr int kTrialsPerStart = 16;

/// Everything placed, in one line of addresses: chunk after chunk, each as large as it may become.
struct Layout {
    struct Chunk {
        std::size_t begin, capacity, used;
    };
    std::vector<std::size_t> addresses;
    std::vector<Chunk> chunks;
    std::size_t total = SIZE_MAX;  ///< bytes used in all chunks
};

std::size_t chunk_at(const Layout& layout, std::size_t address) {
    const auto after = std::ranges::upper_bound(layout.chunks, address, {}, &Layout::Chunk::begin);
    return static_cast<std::size_t>(after - layout.chunks.begin()) - 1;
}

/// Blocks by the time they begin or end at: those of time t are `blocks[begin[t] .. begin[t + 1]]`.
struct Calendar {
    std::vector<std::uint32_t> begin, blocks;

    template <class TimeOf>
    Calendar(std::span<const Block> all, std::size_t times, TimeOf time_of)
        : begin(times + 3), blocks(all.size()) {
        for (const Block& block : all) ++begin[static_cast<std::size_t>(time_of(block)) + 2];
        std::partial_sum(begin.begin(), begin.end(), begin.begin());
        for (std::uint32_t i = 0; i < all.size(); ++i) {
            blocks[begin[static_cast<std::size_t>(time_of(all[i])) + 1]++] = i;
        }
    }
    std::span<const std::uint32_t> at(std::size_t time) const {
        return std::span(blocks).subspan(begin[time], begin[time + 1] - begin[time]);
    }
};

std::size_t end_of_time(std::span<const Block> blocks) {
    std::int32_t end = 0;
    for (const Block& block : blocks) end = std::max(end, block.last);
    return static_cast<std::size_t>(end);
}

/// Free memory of one chunk while time passes, lowest address first.
class FreeList {
public:
    FreeList(std::size_t begin, std::size_t size) : end_(begin + size), stretches_{{begin, size}} {}

    /// The smallest stretch that is large enough, what was never used only where there is no other;
    /// kUnplaced if there is none.
    std::size_t take(std::size_t size) {
        std::size_t best = stretches_.size(), best_size = SIZE_MAX;
        for (std::size_t i = 0; i < stretches_.size(); ++i) {
            const Stretch& stretch = stretches_[i];
            const bool untouched = stretch.begin + stretch.size == end_;
            if (stretch.size < size || (untouched && best != stretches_.size())) continue;
            if (stretch.size > best_size) continue;
            best = i;
            best_size = stretch.size;
        }
        if (best == stretches_.size()) return kUnplaced;
        Stretch& stretch = stretches_[best];
        const std::size_t address = stretch.begin;
        stretch.begin += size;
        stretch.size -= size;
        if (stretch.size == 0) {
            stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(best));
        }
        return address;
    }

    void give(std::size_t begin, std::size_t size) {
        auto after = std::partition_point(stretches_.begin(), stretches_.end(),
                                          [&](const Stretch& s) { return s.begin < begin; });
        if (after != stretches_.begin()) {
            auto before = after - 1;
            if (before->begin + before->size == begin) {
                before->size += size;
                if (after != stretches_.end() && begin + size == after->begin) {
                    before->size += after->size;
                    stretches_.erase(after);
                }
                return;
            }
        }
        if (after != stretches_.end() && begin + size == after->begin) {
            after->begin = begin;
            after->size += size;
        } else {
            stretches_.insert(after, {begin, size});
        }
    }

private:
    struct Stretch {
        std::size_t begin, size;
    };
    std::size_t end_;
    std::vector<Stretch> stretches_;
};

class Packer {
public:
    Packer(std::span<const Block> blocks, std::size_t bound, std::size_t sum)
        : blocks_(blocks),
          bound_(bound),
          sum_(sum),
          times_(end_of_time(blocks)),
          begins_(blocks, times_, [](const Block& block) { return block.first; }),
          ends_(blocks, times_, [](const Block& block) { return block.last; }) {}

    /// The best layout found. Chunks are at most `limit` long where blocks allow.
    Layout run(std::size_t limit);

private:
    struct Taken {
        std::size_t begin, end;
    };
    using Order = std::vector<std::uint32_t>;

    void sweep(bool backwards, std::size_t capacity);
    std::size_t take(std::vector<FreeList>& free, std::size_t size, std::size_t capacity);
    Layout::Chunk& open_chunk(std::size_t size, std::size_t capacity);
    bool find_neighbours();
    std::vector<std::size_t> crowding() const;
    void search(std::size_t capacity);
    bool first_fit(const Order& order, std::size_t capacity);
    void improve(Order order, std::size_t capacity);
    void gather(std::uint32_t block);
    std::size_t lowest_fit(std::size_t size, std::size_t capacity);
    bool good_enough() const { return best_.total - bound_ <= bound_ / kGoodEnough; }
    bool is_bad() const { return best_.total - bound_ > bound_ / kBad; }
    bool keep_better() {
        trial_.total = 0;
        for (const Layout::Chunk& chunk : trial_.chunks) trial_.total += chunk.used;
        if (trial_.total >= best_.total) return false;
        std::swap(trial_, best_);
        return true;
    }

    std::span<const Block> blocks_;
    std::size_t bound_, sum_, times_;
    Calendar begins_, ends_;
    Layout best_, trial_;
    std::vector<std::uint32_t> neighbours_begin_, neighbours_;
    std::vector<Taken> taken_;  ///< what the neighbours of a block occupy
    std::size_t work_ = 0;
};

/// Lets time pass, forwards or backwards: what begins takes the hole it fits best, what ends leaves
/// one. Fast, and exact for chains; unlucky where large blocks come late.
void Packer::sweep(bool backwards, std::size_t capacity) {
    std::vector<FreeList> free;
    trial_.addresses.resize(blocks_.size());
    trial_.chunks.clear();
    Order starting;
    for (std::size_t step = 0; step <= times_; ++step) {
        const std::size_t now = backwards ? times_ - step : step;
        const auto begin = backwards ? ends_.at(now) : begins_.at(now);
        starting.assign(begin.begin(), begin.end());
        if (starting.size() > 1) {
            // What stays longest goes to the bottom, where it divides nothing.
            std::ranges::sort(starting, std::greater<>{}, [&](std::uint32_t i) {
                const Block& block = blocks_[i];
                return std::tuple(backwards ? -block.first : block.last, block.size, i);
            });
        }
        for (const std::uint32_t i : starting)
            trial_.addresses[i] = take(free, blocks_[i].size, capacity);
        for (const std::uint32_t i : backwards ? begins_.at(now) : ends_.at(now)) {
            if (blocks_[i].size == 0) continue;
            free[chunk_at(trial_, trial_.addresses[i])].give(trial_.addresses[i], blocks_[i].size);
        }
    }
    keep_better();
}

/// An address for `size` bytes in the first chunk that has them, or in a new one.
std::size_t Packer::take(std::vector<FreeList>& free, std::size_t size, std::size_t capacity) {
    for (std::size_t i = 0; i < free.size(); ++i) {
        Layout::Chunk& chunk = trial_.chunks[i];
        const std::size_t address = size > 0 ? free[i].take(size) : chunk.begin;
        if (address == kUnplaced) continue;
        chunk.used = std::max(chunk.used, address + size - chunk.begin);
        return address;
    }
    const Layout::Chunk& chunk = open_chunk(size, capacity);
    free.emplace_back(chunk.begin, chunk.capacity);
    return size > 0 ? free.back().take(size) : chunk.begin;
}

Layout::Chunk& Packer::open_chunk(std::size_t size, std::size_t capacity) {
    const std::size_t begin =
        trial_.chunks.empty() ? 0 : trial_.chunks.back().begin + trial_.chunks.back().capacity;
    // At least one byte, so that chunks have addresses of their own.
    const std::size_t room = std::max({size, capacity, std::size_t{1}});
    return trial_.chunks.emplace_back(
        Layout::Chunk{.begin = begin, .capacity = room, .used = size});
}

/// Lists for every block those that are alive while it is. False if that is too much.
bool Packer::find_neighbours() {
    const std::size_t n = blocks_.size();
    neighbours_begin_.assign(n + 1, 0);
    std::size_t pairs = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const Block& block = blocks_[i];
        const std::uint32_t begun = begins_.begin[static_cast<std::size_t>(block.last) + 1];
        const std::uint32_t ended = ends_.begin[static_cast<std::size_t>(block.first)];
        pairs += begun - ended - 1;
        if (pairs > std::max(kNeighboursPerBlock * n, kNeighboursAlways)) return false;
        neighbours_begin_[i + 1] = static_cast<std::uint32_t>(pairs);
    }
    neighbours_.resize(pairs);
    Order next(neighbours_begin_.begin(), neighbours_begin_.end() - 1), alive, position(n);
    for (std::size_t now = 0; now <= times_; ++now) {
        for (const std::uint32_t block : begins_.at(now)) {
            for (const std::uint32_t other : alive) {
                neighbours_[next[block]++] = other;
                neighbours_[next[other]++] = block;
            }
            position[block] = static_cast<std::uint32_t>(alive.size());
            alive.push_back(block);
        }
        for (const std::uint32_t block : ends_.at(now)) {
            alive[position[block]] = alive.back();
            position[alive.back()] = position[block];
            alive.pop_back();
        }
    }
    return true;
}

/// Fills `taken_` with what is placed already and alive with `block`, by address.
void Packer::gather(std::uint32_t block) {
    taken_.clear();
    const auto begin = neighbours_begin_[block], end = neighbours_begin_[block + 1];
    for (std::uint32_t i = begin; i < end; ++i) {
        const std::uint32_t other = neighbours_[i];
        const std::size_t address = trial_.addresses[other];
        if (address != kUnplaced) taken_.push_back({address, address + blocks_[other].size});
    }
    work_ += end - begin;
    std::ranges::sort(taken_, {}, &Taken::begin);
}

/// The lowest address with `size` free bytes in one chunk, a new chunk if there is none.
std::size_t Packer::lowest_fit(std::size_t size, std::size_t capacity) {
    std::size_t next = 0;  // in taken_
    for (Layout::Chunk& chunk : trial_.chunks) {
        std::size_t address = chunk.begin;
        const std::size_t chunk_end = chunk.begin + chunk.capacity;
        for (; next < taken_.size() && taken_[next].begin < chunk_end; ++next) {
            if (taken_[next].begin >= address + size) break;
            address = std::max(address, taken_[next].end);
        }
        if (address + size <= chunk_end) {
            chunk.used = std::max(chunk.used, address + size - chunk.begin);
            return address;
        }
        while (next < taken_.size() && taken_[next].begin < chunk_end) ++next;
    }
    return open_chunk(size, capacity).begin;
}

/// One block after the other goes to the lowest place that is free during its life. True if that is
/// better than all before.
bool Packer::first_fit(const Order& order, std::size_t capacity) {
    trial_.addresses.assign(blocks_.size(), kUnplaced);
    trial_.chunks.clear();
    for (const std::uint32_t block : order) {
        gather(block);
        trial_.addresses[block] = lowest_fit(blocks_[block].size, capacity);
    }
    work_ += order.size();
    return keep_better();
}

/// Blocks that ended up above the bound were placed too late: they go earlier next time. A little
/// chance, the same in every run, leads out of circles.
void Packer::improve(Order order, std::size_t capacity) {
    const std::size_t budget = std::max(kWorkPerBlock * blocks_.size(), kWorkAlways);
    const std::size_t enough = work_ + budget, at_most = work_ + kWorkForBad * budget;
    std::minstd_rand random(1);
    std::vector<float> rank(blocks_.size());
    Order best_order = order;
    for (int stale = 0; work_ < (is_bad() ? at_most : enough) && !good_enough(); ++stale) {
        if (stale % kTrialsPerStart == 0) {
            for (std::size_t i = 0; i < order.size(); ++i) {
                rank[best_order[i]] = static_cast<float>(i + 1);
            }
        }
        const bool better = first_fit(order, capacity);
        if (better) {
            best_order = order;
            stale = 0;
        }
        const Layout& latest = better ? best_ : trial_;
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            if (latest.addresses[i] + blocks_[i].size <= bound_) continue;
            rank[i] *= static_cast<float>(random() % 1024) / 1024;
        }
        std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(rank[i], i); });
    }
}

/// For each block the most bytes that are alive at one time during its life.
std::vector<std::size_t> Packer::crowding() const {
    std::vector<std::size_t> alive(times_ + 2);
    for (const Block& block : blocks_) {
        alive[static_cast<std::size_t>(block.first)] += block.size;
        alive[static_cast<std::size_t>(block.last) + 1] -= block.size;
    }
    std::partial_sum(alive.begin(), alive.end(), alive.begin());
    // Level k holds the maxima of 2^k times from each time on.
    std::vector<std::vector<std::size_t>> levels{std::move(alive)};
    for (std::size_t width = 1; 2 * width <= times_ + 1; width *= 2) {
        const std::vector<std::size_t>& below = levels.back();
        std::vector<std::size_t> level(below.size() - width);
        for (std::size_t i = 0; i < level.size(); ++i)
            level[i] = std::max(below[i], below[i + width]);
        levels.push_back(std::move(level));
    }
    std::vector<std::size_t> most(blocks_.size());
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const auto first = static_cast<std::size_t>(blocks_[i].first);
        const auto past = static_cast<std::size_t>(blocks_[i].last) + 1;
        const auto k = static_cast<std::size_t>(std::bit_width(past - first) - 1);
        most[i] = std::max(levels[k][first], levels[k][past - (std::size_t{1} << k)]);
    }
    return most;
}

/// Tries one order after the other, the most promising first, up to a layout that will do.
void Packer::search(std::size_t capacity) {
    sweep(false, capacity);
    if (good_enough()) return;
    sweep(true, capacity);
    if (good_enough() || !find_neighbours()) return;

    const std::vector<std::size_t> crowd = crowding();
    const auto length = [&](std::uint32_t i) { return blocks_[i].last - blocks_[i].first; };
    Order best_order, order(blocks_.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto attempt = [&](auto key) {
        if (good_enough()) return;
        std::ranges::sort(order, std::greater<>{}, key);
        if (first_fit(order, capacity) || best_order.empty()) best_order = order;
    };
    attempt([&](std::uint32_t i) { return std::tuple(blocks_[i].size, length(i), i); });
    for (const double weight : {0.1, 0.2, 0.35}) {
        attempt([&](std::uint32_t i) {
            return std::pair(static_cast<double>(blocks_[i].size) * std::pow(length(i) + 1, weight),
                             i);
        });
    }
    attempt([&](std::uint32_t i) { return std::tuple(crowd[i], length(i), blocks_[i].size, i); });
    if (!good_enough()) improve(std::move(best_order), capacity);
}

Layout Packer::run(std::size_t limit) {
    if (bound_ <= limit) {
        search(sum_);
        if (best_.total <= limit) return std::move(best_);
        best_ = {};
        work_ = 0;
    }
    search(limit);
    return std::move(best_);
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

std::size_t peak_of(std::span<const Block> blocks) {
    std::vector<std::size_t> change(end_of_time(blocks) + 2);
    for (const Block& block : blocks) {
        change[static_cast<std::size_t>(block.first)] += block.size;
        change[static_cast<std::size_t>(block.last) + 1] -= block.size;
    }
    std::size_t alive = 0, most = 0;
    for (const std::size_t step : change) most = std::max(most, alive += step);
    return most;
}

}  // namespace

Result<std::size_t> live_bound(std::span<const Block> blocks) {
    HEDDLE_TRY(total_size(blocks));
    return peak_of(blocks);
}

Result<Packing> pack(std::span<const Block> blocks, std::size_t chunk_limit) {
    HEDDLE_TRY_ASSIGN(const std::size_t sum, total_size(blocks));
    Packing packing;
    if (blocks.empty()) return packing;
    packing.bound = peak_of(blocks);
    const Layout layout = Packer(blocks, packing.bound, sum).run(chunk_limit);
    packing.places.resize(blocks.size());
    for (const Layout::Chunk& chunk : layout.chunks) packing.chunks.push_back(chunk.used);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const std::size_t chunk = chunk_at(layout, layout.addresses[i]);
        packing.places[i] = {static_cast<std::uint32_t>(chunk),
                             layout.addresses[i] - layout.chunks[chunk].begin};
    }
    return packing;
}

}  // namespace heddle::alloc
