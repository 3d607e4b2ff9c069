#pragma once

#include <utility>
#include <vector>

#include "backends/cuda/plan.hpp"

namespace heddle::cuda {

/// Steps that are taken out while they are gone through: a gap buffer. What is taken out leaves a
/// gap, and only the steps between the last gap and the next one move, not all that follow.
class StepList {
public:
    explicit StepList(std::vector<Step>& steps) : steps_(steps) {}
    ~StepList() {
        move_gap(size());
        steps_.resize(size());
    }
    StepList(const StepList&) = delete;
    StepList& operator=(const StepList&) = delete;

    std::size_t size() const { return steps_.size() - gap_; }
    Step& operator[](std::size_t i) { return steps_[place(i)]; }
    const Step& operator[](std::size_t i) const { return steps_[place(i)]; }

    /// Those that follow have lower numbers from then on.
    void take_out(std::size_t i) {
        move_gap(i);
        ++gap_;
    }

private:
    std::size_t place(std::size_t i) const { return i < begin_ ? i : i + gap_; }
    void move_gap(std::size_t to) {
        if (gap_ == 0) begin_ = to;
        for (; begin_ < to; ++begin_) steps_[begin_] = steps_[begin_ + gap_];
        for (; begin_ > to; --begin_) steps_[begin_ + gap_ - 1] = steps_[begin_ - 1];
    }

    std::vector<Step>& steps_;
    std::size_t begin_ = 0, gap_ = 0;  ///< the gap is before step `begin_`
};

}  // namespace heddle::cuda
