#include "runtime/alloc/packer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace heddle::alloc {
namespace {

/// A packing is good if it exceeds the bound by no more than one part in so many, and bad if by
/// more than one in so many: worth much more work.
constexpr std::size_t kGood = 50, kBad = 12;

/// Steps taken to improve a packing that is not good, and one that is bad. A step is one or two
/// nanoseconds.
constexpr std::size_t kSteps = 1 << 12, kStepsIfBad = 1 << 20;

/// The same with several chunks: the bound says less there, so that being far from it is not bad.
constexpr std::size_t kStepsInChunks = 1 << 16;

/// With more blocks than that, orders are not searched: it would no longer be linear.
constexpr std::size_t kMostSearched = 1024;

/// How often a search is tried, each time with the blocks of a longer window.
constexpr int kWindows = 6;

/// Blocks are tiny, and not worth a search, if all up to their size together take no more than one
/// part in so many of the memory: on average over time, and at any time.
constexpr double kTinyOnAverage = 200;
constexpr std::size_t kTinyAtMost = 60;

/// With fewer blocks there is little to save by setting tiny ones aside.
constexpr std::size_t kFewBlocks = 64;

/// What to put to the bottom when a sweep begins: what stays longest divides nothing there.
std::int32_t latest(const Block& block) { return block.last; }
std::int32_t earliest(const Block& block) { return -block.first; }

}  // namespace

Result<const Packing*> Packer::pack(std::span<const Block> blocks, std::size_t chunk_limit) {
    blocks_ = blocks;
    total_ = SIZE_MAX;
    best_.places.clear();
    best_.chunks.clear();
    HEDDLE_TRY(measure());
    best_.bound = bound_;
    if (blocks.empty()) return &best_;
    sweep_.prepare(blocks_, end_);
    if (bound_ <= chunk_limit) pack_one_chunk();
    if (total_ > chunk_limit) pack_chunks(chunk_limit);
    return &best_;
}

Result<> Packer::measure() {
    sum_ = end_ = bound_ = peak_ = 0;
    for (const Block& block : blocks_) {
        end_ = std::max(end_, static_cast<std::size_t>(block.last));
        if (__builtin_add_overflow(sum_, block.size, &sum_) || sum_ > SIZE_MAX / 4) {
            return failure(Errc::out_of_memory, "planning memory: ", blocks_.size(),
                           " blocks take more bytes than can be counted");
        }
    }
    alive_.assign(end_ + 2, 0);
    for (const Block& block : blocks_) {
        alive_[static_cast<std::size_t>(block.first)] += block.size;
        alive_[static_cast<std::size_t>(block.last) + 1] -= block.size;
    }
    std::size_t alive = 0;
    for (std::size_t now = 0; now <= end_; ++now) {
        alive_[now] = alive += alive_[now];
        if (alive <= bound_) continue;
        bound_ = alive;
        peak_ = now;
    }
    return ok();
}

std::size_t Packer::good() const { return bound_ + bound_ / kGood; }

// ---- attempts ----------------------------------------------------------------------------------

void Packer::pack_one_chunk() {
    // Graphs of many equal layers have no peak to start at, but come and go in the same way often.
    constexpr std::size_t often = 16;
    const bool repeats = often * sweep_.count({peak_, peak_}) < blocks_.size();
    if (repeats && sweep(end_, {sum_, good(), Pieces::Side::low}, earliest)) return;
    const bool many = blocks_.size() > 2 * kMostSearched;
    // Where no search will follow, its result is wanted even if it is not good.
    if (sweep(peak_, {sum_, many ? SIZE_MAX : good()}, latest) && total_ <= good()) return;
    if (!many && search(widened({peak_, peak_}, sweep_.failed_at()))) return;
    const auto peak = static_cast<std::int32_t>(peak_);
    const auto far_reaching = [peak](const Block& block) {
        return std::max(peak - block.first, block.last - peak);
    };
    if (!many) sweep(peak_, {sum_, total_ - 1}, latest);
    if (total_ > good()) sweep(peak_, {sum_, total_ - 1}, far_reaching);
    if (total_ > good()) sweep(peak_, {sum_, total_ - 1}, earliest);
}

void Packer::pack_chunks(std::size_t limit) {
    total_ = SIZE_MAX;
    sweep(end_, {limit, total_ - 1, Pieces::Side::low}, earliest);
    if (total_ > good()) sweep(peak_, {limit, total_ - 1}, latest);
    if (total_ > good()) sweep(0, {limit, total_ - 1, Pieces::Side::low}, latest);
    if (total_ <= good() || blocks_.size() > kMostSearched) return;
    if (!fit({0, end_}, limit)) return;
    const std::size_t total = std::accumulate(fitted_.begin(), fitted_.end(), std::size_t{0});
    if (total >= total_) return;
    total_ = total;
    sweep_.move_result(best_);
    best_.chunks = fitted_;
}

template <class Key>
bool Packer::sweep(std::size_t pivot, const Sweep::Start& start, Key key) {
    if (!sweep_.run(pivot, start, key)) return false;
    adopt_sweep();
    return true;
}

void Packer::adopt_sweep() {
    total_ = sweep_.total();
    sweep_.move_result(best_);
}

// ---- search ------------------------------------------------------------------------------------

/// Searches for a good order of the blocks in a window, which grows until the others find room,
/// too. False if it finds nothing: for too many blocks, or too large ones.
bool Packer::search(Window window) {
    for (int i = 0; i < kWindows; ++i) {
        if (sweep_.count(window) > kMostSearched || !fit(window, sum_)) return false;
        const std::size_t most = std::max(good(), fitted_[0]);
        if (sweep_.run_from(window, fitted_[0], {sum_, most})) {
            adopt_sweep();
            return true;
        }
        window = widened(window, sweep_.failed_at());
    }
    return false;
}

/// The window with `time`, twice as many blocks, and the times around when memory is scarce.
Window Packer::widened(Window window, std::size_t time) const {
    const std::size_t enough = 2 * sweep_.count(window), much = bound_ - bound_ / 5;
    window = {std::min(window.first, time), std::max(window.last, time)};
    while (window.first > 0 || window.last < end_) {
        const bool back = window.last == end_ ||
                          (window.first > 0 && alive_[window.first - 1] >= alive_[window.last + 1]);
        const std::size_t next = back ? window.first - 1 : window.last + 1;
        const std::size_t count = sweep_.count(window);
        if (count >= kMostSearched || (count >= enough && alive_[next] < much)) break;
        (back ? window.first : window.last) = next;
    }
    return window;
}

/// Finds places for the blocks in a window, in chunks of `capacity` bytes. Tiny ones lie above the
/// others.
bool Packer::fit(const Window& window, std::size_t capacity) {
    const bool one_chunk = capacity >= sum_;
    inside_.clear();
    tiny_.clear();
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
        if (window.meets(blocks_[i]) && blocks_[i].size > 0) inside_.push_back(i);
    }
    const std::size_t tiny = one_chunk ? set_tiny_aside(window) : 1;
    const std::size_t tiny_total = tiny > 1 ? tiny_sweep_.total() : 0;

    // All sizes are multiples of a power of two.
    std::size_t digits = 0;
    for (const std::uint32_t i : inside_) digits |= blocks_[i].size >= tiny ? blocks_[i].size : 0;
    const int shift = std::countr_zero(digits);
    if (bound_ >> shift >= FirstFit::kTooMany / 2) return false;
    fill_items(window, tiny, shift);
    const std::size_t chunk = one_chunk
                                  ? FirstFit::kTooMany
                                  : std::min<std::size_t>(capacity >> shift, FirstFit::kTooMany);
    const auto largest = std::ranges::max_element(first_fit_.items(), {}, &FirstFit::Item::size);
    if (largest->size > chunk) return false;

    const auto units = [&](std::size_t size) {
        return static_cast<std::uint32_t>((size - tiny_total) >> shift);
    };
    first_fit_.prepare(static_cast<std::int32_t>(peak_ - window.first),
                       static_cast<std::uint32_t>(2 * (bound_ >> shift) + 1),
                       static_cast<std::uint32_t>(chunk));
    const std::size_t bad = bound_ + bound_ / kBad;
    const std::size_t steps_if_bad = one_chunk ? kStepsIfBad : kStepsInChunks;
    if (!first_fit_.search({units(good()), units(bad), kSteps, steps_if_bad})) return false;
    set_places(shift, chunk);
    return true;
}

/// Packs tiny blocks on their own, if that is little. Blocks below the size it returns are tiny.
std::size_t Packer::set_tiny_aside(const Window& window) {
    if (inside_.size() < kFewBlocks) return 1;
    const auto first = static_cast<std::int32_t>(window.first),
               last = static_cast<std::int32_t>(window.last);
    const auto clipped = [&](const Block& block) {
        return Block{block.size, 0, std::max(block.first, first) - first,
                     std::min(block.last, last) - first};
    };
    std::array<double, 65> bytes{};  // by the size's number of digits; times the time alive
    for (const std::uint32_t i : inside_) {
        const Block block = clipped(blocks_[i]);
        bytes[static_cast<std::size_t>(std::bit_width(block.size))] +=
            static_cast<double>(block.size) * (block.last - block.first + 1);
    }
    double left = static_cast<double>(bound_) / kTinyOnAverage *
                  static_cast<double>(window.last - window.first + 1);
    std::size_t digits = 0;
    while (digits < 63 && left >= bytes[digits]) left -= bytes[digits++];
    const std::size_t size = digits == 0 ? 1 : std::size_t{1} << (digits - 1);
    tiny_blocks_.clear();
    for (const std::uint32_t i : inside_) {
        if (blocks_[i].size >= size) continue;
        tiny_.push_back(i);
        tiny_blocks_.push_back(clipped(blocks_[i]));
    }
    if (tiny_.empty()) return 1;
    tiny_sweep_.prepare(tiny_blocks_, window.last - window.first);
    if (tiny_sweep_.run(0, {sum_, bound_ / kTinyAtMost}, latest)) return size;
    tiny_.clear();
    return 1;
}

void Packer::fill_items(const Window& window, std::size_t tiny, int shift) {
    const auto first = static_cast<std::int32_t>(window.first),
               last = static_cast<std::int32_t>(window.last);
    std::vector<FirstFit::Item>& items = first_fit_.items();
    items.clear();
    for (const std::uint32_t i : inside_) {
        const Block& block = blocks_[i];
        if (block.size < tiny) continue;
        items.push_back({.size = static_cast<std::uint32_t>(block.size >> shift),
                         .first = std::max(block.first, first) - first,
                         .last = std::min(block.last, last) - first,
                         .block = i,
                         .at = 0});
    }
}

void Packer::set_places(int shift, std::size_t chunk) {
    fitted_.assign(1, 0);
    for (const FirstFit::Item& item : first_fit_.items()) {
        const std::size_t index = item.at / chunk, offset = item.at % chunk;
        if (index >= fitted_.size()) fitted_.resize(index + 1);
        fitted_[index] = std::max(fitted_[index], (offset + item.size) << shift);
        sweep_.set_place(item.block, {static_cast<std::uint32_t>(index), offset << shift});
    }
    if (tiny_.empty()) return;
    const std::size_t top = fitted_[0];
    for (std::uint32_t i = 0; i < tiny_.size(); ++i) {
        sweep_.set_place(tiny_[i], {0, top + tiny_sweep_.place_of(i).offset});
    }
    fitted_[0] += tiny_sweep_.total();
}

Result<Packing> pack(std::span<const Block> blocks, std::size_t chunk_limit) {
    Packer packer;
    HEDDLE_TRY_ASSIGN(const Packing* const packing, packer.pack(blocks, chunk_limit));
    return *packing;
}

}  // namespace heddle::alloc
