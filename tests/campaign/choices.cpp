#include "choices.hpp"

#include <utility>

namespace heddle::campaign {
namespace {

/// SplitMix64: seeds that follow each other give streams that have nothing in common.
std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

}  // namespace

Choices::Choices(std::uint64_t seed) : state_(mixed(seed + 0x632BE59BD9B4E019)) {
    made_.reserve(256);
}

Choices::Choices(std::vector<std::uint32_t> recorded)
    : replays_(true), recorded_(std::move(recorded)) {
    made_.reserve(256);
}

std::uint32_t Choices::next() {
    if (replays_) return made_.size() < recorded_.size() ? recorded_[made_.size()] : 0;
    state_ += 0x9E3779B97F4A7C15;
    return static_cast<std::uint32_t>(mixed(state_) >> 16);
}

std::uint32_t Choices::keep(std::uint32_t choice) {
    made_.push_back(choice);
    if (record_ == nullptr) return choice;
    const std::uint32_t at = record_->count.load(std::memory_order_relaxed);
    if (at < ChoiceRecord::kMost) record_->values[at] = choice;
    record_->count.store(at + 1, std::memory_order_relaxed);
    return choice;
}

std::uint32_t Choices::below(std::uint32_t n) {
    const std::uint32_t choice = next();
    return keep(n == 0 ? 0 : choice % n);
}

std::int64_t Choices::between(std::int64_t low, std::int64_t high) {
    // Unsigned: the whole range of 64 bits may be asked for.
    const bool up = high >= low;
    const std::uint64_t from = static_cast<std::uint64_t>(low);
    const std::uint64_t span =
        up ? static_cast<std::uint64_t>(high) - from : from - static_cast<std::uint64_t>(high);
    std::uint64_t step = 0;
    if (span < UINT32_MAX) {
        step = below(static_cast<std::uint32_t>(span) + 1);
    } else {
        step = bits();
        if (span != UINT64_MAX) step %= span + 1;
    }
    return static_cast<std::int64_t>(up ? from + step : from - step);
}

std::uint64_t Choices::bits() {
    const std::uint64_t low = keep(next());
    return (std::uint64_t{keep(next())} << 32) | low;
}

}  // namespace heddle::campaign
