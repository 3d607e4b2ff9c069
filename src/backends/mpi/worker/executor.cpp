#include "backends/mpi/worker/executor.hpp"

#include <algorithm>

#include "heddle/backend/guard.hpp"
#include "heddle/heddle.h"

namespace heddle::mpi {
namespace {

Error stopped() { return failure(Errc::aborted, "the program asked to stop"); }

}  // namespace

void Executor::retire() {
    const std::lock_guard guard(lock_);
    stops_ = true;
    ended_ = ended_ || !is_offered_;
}

void Executor::abandon() {
    {
        const std::lock_guard guard(lock_);
        stops_ = abandoned_ = true;
    }
    stop_up_to(UINT64_MAX);
    driver_.wake();
}

bool Executor::has_ended() const {
    const std::lock_guard guard(lock_);
    return ended_;
}

Result<> Executor::submit(Job job) {
    {
        const std::lock_guard guard(lock_);
        if (job.place != submitted_ + 1) {
            return failure(Errc::corrupt, "command ", job.place, " of stream ", number_,
                           " behind command ", submitted_);
        }
        jobs_.push_back(std::move(job));
        ++submitted_;
        if (std::exchange(is_offered_, true)) return ok();
    }
    threads_.offer(shared_from_this());
    return ok();
}

void Executor::when_done(std::uint64_t place, Then then) {
    Result<> state = ok();
    {
        const std::lock_guard guard(lock_);
        if (done_ < place) {
            watchers_.push_back({place, std::move(then)});
            return;
        }
        state = state_;
    }
    then(state);
}

Result<> Executor::wait_for(std::uint64_t place) {
    driver_.wait([&] {
        const std::lock_guard guard(lock_);
        return done_ >= place || ended_ || abandoned_;
    });
    const std::lock_guard guard(lock_);
    return state_;
}

void Executor::work() {
    while (true) {
        Job job;
        {
            const std::lock_guard guard(lock_);
            if (jobs_.empty() || abandoned_) {
                is_offered_ = false;
                ended_ = stops_;
                break;
            }
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        perform(std::move(job));
    }
    driver_.wake();
}

bool Executor::next_runs_on() const {
    const std::lock_guard guard(lock_);
    return !jobs_.empty() && jobs_.front().runs_on;
}

void Executor::perform(Job job) {
    if (job.resumes) failure_.reset();
    bool goes_on = false;
    Span span{job.kind, traces_ ? clock_now() : 0, 0, job.transfer};
    if (failure_) {
        skip(job, *failure_);
    } else if (job.run) {
        auto done = attempt(job);
        if (job.runs_on) driver_.poll();  // the next graph may be here already
        // The device begins with the next graph while it is still at this one.
        goes_on = done && job.runs_on && next_runs_on();
        if (job.runs_on && !goes_on) {  // also where it was not begun: the one before may run on
            auto finished = finish_device();
            if (done) done = std::move(finished);
        }
        if (!done) failure_ = std::move(done).error();
    }
    if (span.start != 0 && is_of_stream(span.kind)) keep_span(span);
    const std::uint64_t place = job.place;
    outbox_.settle(job.bytes);
    job = {};  // lets go of memory before rank 0 hears of it
    if (!goes_on) advance(place);
}

void Executor::skip(const Job& job, const Error& error) {
    if (!job.skip) return;
    if (may_take_long(job.kind)) threads_.go_on_without_this_one();
    const auto skipped = plugin::attempt([&] { job.skip(error); });
    if (!skipped) driver_.drop_out(skipped.error());  // others wait for what it was to tell them
}

Result<> Executor::attempt(const Job& job) {
    running_ = job.place;
    if (is_stopped(job.place)) {
        if (job.runs_on) HEDDLE_TRY(finish_device());  // it may be at the graph before
        skip(job, stopped());
        return stopped();
    }
    if (may_take_long(job.kind)) threads_.go_on_without_this_one();
    return plugin::attempt([&] { return job.run(); });
}

void Executor::stop_up_to(std::uint64_t place) {
    std::uint64_t before = stopped_;
    while (before < place && !stopped_.compare_exchange_weak(before, place)) continue;
}

void Executor::let_device_ask(ggml_backend_dev_t owner) {
    const auto set =
        reinterpret_cast<ggml_backend_set_abort_callback_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(owner), "ggml_backend_set_abort_callback"));
    if (set == nullptr) return;
    const auto asked = [](void* data) {
        const auto* const stream = static_cast<const Executor*>(data);
        return stream->is_stopped(stream->running_);
    };
    set(stream_.get(), asked, this);
}

void Executor::set_tracing(bool on) {
    const std::lock_guard guard(lock_);
    spans_.clear();
    traces_ = on;
}

std::vector<Span> Executor::spans() const {
    const std::lock_guard guard(lock_);
    return {spans_.begin(), spans_.end()};
}

void Executor::keep_span(Span span) {
    span.end = clock_now();
    const std::lock_guard guard(lock_);
    if (spans_.size() == kMostSpans) spans_.pop_front();
    spans_.push_back(span);
}

Result<> Executor::finish_device() {
    heddle_clear_error();
    ggml_backend_synchronize(stream_.get());
    const std::string sentence = heddle_last_error();
    if (sentence.empty()) return ok();
    return failure(is_stopped(running_) ? Errc::aborted : Errc::device, sentence);
}

void Executor::advance(std::uint64_t place) {
    std::vector<Watcher> due;
    bool is_last = false;
    const Result<> state = failure_ ? Result<>(*failure_) : ok();
    {
        const std::lock_guard guard(lock_);
        done_ = place;
        state_ = state;
        const auto rest =
            std::stable_partition(watchers_.begin(), watchers_.end(),
                                  [&](const Watcher& watcher) { return watcher.place > place; });
        due.assign(std::make_move_iterator(rest), std::make_move_iterator(watchers_.end()));
        watchers_.erase(rest, watchers_.end());
        is_last = jobs_.empty();
    }
    driver_.wake();
    for (const Watcher& watcher : due) watcher.then(state);
    if (is_last) report(place);
}

void Executor::report(std::uint64_t place) {
    ByteWriter out = begin({.kind = Kind::done, .stream = number_, .place = place});
    put_outcome(out, failure_ ? Result<>(*failure_) : ok());
    outbox_.send(0, seal(std::move(out)));
}

}  // namespace heddle::mpi
