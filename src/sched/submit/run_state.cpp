#include "sched/submit/run_state.hpp"

namespace heddle::sched {

// ---- progress ----------------------------------------------------------------------------------

void Progress::begin(std::size_t actions) {
    is_done_.assign(actions, 0);
    is_stopped_ = false;
}

void Progress::done(std::int32_t action) {
    const std::lock_guard guard(lock_);
    is_done_[static_cast<std::size_t>(action)] = 1;
    changed_.notify_all();
}

bool Progress::wait(std::int32_t action) {
    std::unique_lock guard(lock_);
    const auto i = static_cast<std::size_t>(action);
    changed_.wait(guard, [&] { return is_stopped_ || is_done_[i] != 0; });
    return !is_stopped_;
}

void Progress::stop() {
    const std::lock_guard guard(lock_);
    is_stopped_ = true;
    changed_.notify_all();
}

// ---- the thread --------------------------------------------------------------------------------

Helper::~Helper() {
    {
        const std::lock_guard guard(lock_);
        stops_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
}

void Helper::begin(std::function<void()> job) {
    const std::lock_guard guard(lock_);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    job_ = std::move(job);
    has_job_ = true;
    changed_.notify_all();
}

void Helper::join() {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return !has_job_; });
}

void Helper::work() {
    std::unique_lock guard(lock_);
    while (true) {
        changed_.wait(guard, [&] { return stops_ || has_job_; });
        if (!has_job_) return;
        guard.unlock();
        job_();
        guard.lock();
        has_job_ = false;
        changed_.notify_all();
    }
}

}  // namespace heddle::sched
