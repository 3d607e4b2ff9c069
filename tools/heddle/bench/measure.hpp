#pragma once

#include <functional>

#include "heddle/result.hpp"

/// Taking times. Other programs only ever make a run slower, so the least of many is nearest to
/// what the machine can do; the median tells how much they disturb.
namespace heddle::tool::bench {

/// How long to go on measuring one thing.
struct Effort {
    double seconds;
    int least_runs;

    static Effort of(bool quick) { return quick ? Effort{0.02, 2} : Effort{0.4, 5}; }
};

/// Seconds of one run.
struct Seconds {
    double best = 0, median = 0;
    int runs = 0;

    double chosen(bool by_median) const { return by_median ? median : best; }
};

double now();  ///< seconds, of a clock that never goes back

/// Runs `body` again and again. The first run, which finds nothing prepared, does not count. After
/// Ctrl-C one run that counts is enough.
Result<Seconds> measure(const Effort& effort, const std::function<Result<>()>& body);

/// Seconds from the moment when the first of so many threads begins `body(thread)` until all are
/// done with it. Starting and ending threads does not count. Throws if the system has not so many.
double run_together(int threads, const std::function<void(int)>& body);

}  // namespace heddle::tool::bench
