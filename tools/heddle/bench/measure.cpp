#include "bench/measure.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "interrupt.hpp"

namespace heddle::tool::bench {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Result<Seconds> measure(const Effort& effort, const std::function<Result<>()>& body) {
    constexpr std::size_t kMostRuns = 100'000;
    HEDDLE_TRY(body());
    std::vector<double> times;
    const double begin = now();
    for (double last = begin; last - begin < effort.seconds ||
                              times.size() < static_cast<std::size_t>(effort.least_runs);) {
        if (times.size() == kMostRuns || (is_interrupted() && !times.empty())) break;
        HEDDLE_TRY(body());
        const double end = now();
        times.push_back(end - last);
        last = end;
    }
    std::ranges::sort(times);
    return Seconds{times.front(), times[times.size() / 2], static_cast<int>(times.size())};
}

double run_together(int threads, const std::function<void(int)>& body) {
    const auto count = static_cast<std::size_t>(threads);
    std::vector<double> begins(count), ends(count);
    std::atomic<int> waiting{threads};
    std::atomic<bool> is_given_up{false};
    const auto run = [&](std::size_t i) {
        waiting.fetch_sub(1);
        while (waiting.load(std::memory_order_acquire) > 0) std::this_thread::yield();
        if (is_given_up) return;
        begins[i] = now();
        body(static_cast<int>(i));
        ends[i] = now();
    };
    {
        std::vector<std::jthread> others;
        others.reserve(count);
        try {
            for (std::size_t i = 1; i < count; ++i) others.emplace_back(run, i);
        } catch (const std::system_error& error) {
            is_given_up = true;  // with fewer threads it would be another measurement
            waiting = 0;
            throw std::system_error(error.code(), text("thread ", others.size() + 1, " of ", count,
                                                       " cannot be started"));
        }
        run(0);
    }
    return std::ranges::max(ends) - std::ranges::min(begins);
}

}  // namespace heddle::tool::bench
