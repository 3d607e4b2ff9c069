#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace heddle::campaign {

/// Memory that outlives a crash, for the choices of a case under way.
struct ChoiceRecord {
    static constexpr std::uint32_t kMost = 1U << 18;

    std::atomic<std::uint32_t> count;  ///< may exceed `kMost`: what is beyond it is not kept
    std::uint32_t values[kMost];
};

/// Everything random in a case is a choice. A case is the list of its choices: recorded while it is
/// drawn from a seed, replayed from a file, made smaller by leaving choices out and lowering them.
/// So 0 must always be the simplest choice, and a replay that runs out of choices gets 0.
class Choices {
public:
    explicit Choices(std::uint64_t seed);
    explicit Choices(std::vector<std::uint32_t> recorded);

    /// 0 .. n-1; n = 0 gives 0.
    std::uint32_t below(std::uint32_t n);
    /// `low` is the simplest, also when `high` is lower.
    std::int64_t between(std::int64_t low, std::int64_t high);
    /// False is the simplest; always true for n = 1.
    bool one_in(std::uint32_t n) { return n > 0 && below(n) == n - 1; }
    /// Any 64 bits.
    std::uint64_t bits();

    /// The first is the simplest.
    template <class T>
    T pick(std::initializer_list<T> choices) {
        return choices.begin()[below(static_cast<std::uint32_t>(choices.size()))];
    }
    template <class T>
    T& pick(std::span<T> choices) {
        return choices[below(static_cast<std::uint32_t>(choices.size()))];
    }

    const std::vector<std::uint32_t>& made() const { return made_; }

    /// Every choice from now on is written to `record`, too.
    void keep_in(ChoiceRecord& record) { record_ = &record; }

private:
    std::uint32_t next();
    std::uint32_t keep(std::uint32_t choice);

    bool replays_ = false;
    std::uint64_t state_ = 0;
    std::vector<std::uint32_t> recorded_;
    std::vector<std::uint32_t> made_;
    ChoiceRecord* record_ = nullptr;
};

}  // namespace heddle::campaign
