#include "shrink.hpp"

namespace heddle::campaign {
namespace {

using List = std::vector<std::uint32_t>;

/// The search for a smaller case.
class Shrinking {
public:
    Shrinking(Worker& worker, const Door& door, Failure failure, int attempts,
              std::chrono::seconds time)
        : worker_(worker),
          door_(door),
          best_(std::move(failure)),
          cause_(best_.cause()),
          left_(attempts),
          end_(std::chrono::steady_clock::now() + time) {}

    Failure run() {
        trim();
        for (bool smaller = true; smaller && has_time();) {
            smaller = false;
            for (std::size_t run = best_.choices.size() / 2; run > 0; run /= 2) {
                smaller |= each_run(run, &Shrinking::without);
                smaller |= each_run(run, &Shrinking::zeroed);
            }
            smaller |= lower();
        }
        return std::move(best_);
    }

private:
    bool has_time() const { return left_ > 0 && std::chrono::steady_clock::now() < end_; }

    /// What is beyond the end counts as 0.
    void trim() {
        while (!best_.choices.empty() && best_.choices.back() == 0) best_.choices.pop_back();
    }

    bool accept(List candidate) {
        if (!has_time()) return false;
        --left_;
        auto failure = worker_.replay(door_, candidate);
        if (!failure || failure->cause() != cause_) return false;
        // A case that ended early made fewer choices than it was given. One that fills up with
        // zeros has made more, which the next replay makes again.
        if (failure->choices.size() > candidate.size()) failure->choices = std::move(candidate);
        failure->seed = best_.seed;
        best_ = *std::move(failure);
        trim();
        return true;
    }

    bool each_run(std::size_t length, bool (Shrinking::*change)(std::size_t, std::size_t)) {
        bool smaller = false;
        // From the end: what comes late depends on what came early.
        for (std::size_t end = best_.choices.size(); end > 0 && has_time();) {
            const std::size_t begin = end > length ? end - length : 0;
            smaller |= (this->*change)(begin, end);
            end = std::min(begin, best_.choices.size());
        }
        return smaller;
    }

    bool without(std::size_t begin, std::size_t end) {
        List candidate = best_.choices;
        candidate.erase(candidate.begin() + static_cast<long>(begin),
                        candidate.begin() + static_cast<long>(end));
        return accept(std::move(candidate));
    }

    bool zeroed(std::size_t begin, std::size_t end) {
        List candidate = best_.choices;
        bool changes = false;
        for (std::size_t i = begin; i < end; ++i) changes |= std::exchange(candidate[i], 0) != 0;
        return changes && accept(std::move(candidate));
    }

    /// Each choice as low as it can be, by halves.
    bool lower() {
        bool smaller = false;
        for (std::size_t i = 0; i < best_.choices.size() && has_time(); ++i) {
            std::uint32_t low = 0;  // passes, or was tried before
            while (i < best_.choices.size() && low + 1 < best_.choices[i] && has_time()) {
                const std::uint32_t middle = low + (best_.choices[i] - low) / 2;
                List candidate = best_.choices;
                candidate[i] = middle;
                if (accept(std::move(candidate)))
                    smaller = true;
                else
                    low = middle;
            }
        }
        return smaller;
    }

    Worker& worker_;
    const Door& door_;
    Failure best_;
    std::string cause_;
    int left_;
    std::chrono::steady_clock::time_point end_;
};

}  // namespace

std::optional<Failure> shrink(Worker& worker, const Door& door, const Failure& failure,
                              int most_attempts, std::chrono::seconds most_time) {
    auto again = worker.replay(door, failure.choices);
    if (!again) return std::nullopt;
    again->seed = failure.seed;
    return Shrinking(worker, door, *std::move(again), most_attempts, most_time).run();
}

}  // namespace heddle::campaign
