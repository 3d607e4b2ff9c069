#include "team.hpp"

#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace heddle::tool {

void run_on_threads(int threads, const std::function<void()>& work) {
    std::mutex lock;
    std::exception_ptr problem;
    const auto run = [&]() noexcept {
        try {
            work();
        } catch (...) {
            const std::lock_guard guard(lock);
            if (!problem) problem = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> others;  // are waited for, however this block is left
        try {
            for (int i = 1; i < threads; ++i) others.emplace_back(run);
        } catch (const std::exception&) {
            // No more threads or no memory for them: those there are do it all.
        }
        run();
    }
    if (problem) std::rethrow_exception(problem);
}

}  // namespace heddle::tool
