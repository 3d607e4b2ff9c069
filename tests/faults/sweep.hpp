/// Runs a scenario again and again, each time with another point failing.
#pragma once

#include <cstddef>
#include <span>

#include "ggml.h"
#include "heddle/heddle.h"
#include "tests/faults/fault_points.hpp"

namespace heddle::faults {

/// What a scenario does about a step that failed.
enum class Answer {
    gives_up,     ///< leaves at once, and frees what it has
    tries_again,  ///< does the same step once more, on the same objects
};

/// Leaves a scenario. Caught by `sweep`.
struct GaveUp {};

/// One run of a scenario. The scenario itself allocates nothing: every allocation is the library's.
class Run {
public:
    explicit Run(Answer answer) : answer_(answer) {}

    /// The object `step` makes; null is its way to say that it failed.
    template <class Step>
    auto made(const char* what, Step&& step) {
        auto* object = begin(step);
        if (object == nullptr) {
            failed(what);
            object = begin(step);
            if (object == nullptr) failed_again(what);
        }
        return object;
    }

    /// Runs a step that says true for success.
    template <class Step>
    void worked(const char* what, Step&& step) {
        if (begin(step)) return;
        failed(what);
        if (!begin(step)) failed_again(what);
    }

    /// Runs a step that says how it went with a status.
    template <class Step>
    void succeeded(const char* what, Step&& step) {
        worked(what, [&] { return step() == GGML_STATUS_SUCCESS; });
    }

    /// Runs a step that has no way to report but heddle_last_error().
    template <class Step>
    void done(const char* what, Step&& step) {
        worked(what, [&] {
            step();
            return *heddle_last_error() == '\0';
        });
    }

    /// Results that must be right whenever a scenario comes this far.
    void expect(const char* what, bool holds);
    void expect_near(const char* what, std::span<const float> values,
                     std::span<const float> expected);

private:
    template <class Step>
    auto begin(Step& step) {
        heddle_clear_error();
        return step();
    }

    /// After a failure: gives up, or comes back for another attempt.
    void failed(const char* what);
    [[noreturn]] void failed_again(const char* what);

    const Answer answer_;
};

using Scenario = void (*)(Run& run);

/// Runs `scenario` with its first, second, ... point of each kind failing, until none fails any
/// more; for points that fail once and for those that stay failed, for callers who give up and for
/// those who try again. Each time it must report the failure or succeed all the same, leave nothing
/// behind (blocks, mappings, descriptors, threads), and afterwards run as if nothing had been.
void sweep(Scenario scenario, std::span<const Kind> kinds = kSystemKinds);

/// The same for the points of the devices as well; makes these anew.
void sweep_with_devices(Scenario scenario);

/// What became of a scenario in a process that has used nothing of the library before.
enum FirstUse { survived = 0, went_wrong = 1, nothing_failed = 2 };

/// Runs `scenario` with its `number`-th point of that kind failing, and once more with none.
FirstUse first_use(Scenario scenario, Kind kind, long number);

}  // namespace heddle::faults
