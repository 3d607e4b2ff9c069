#include "sched/submit/submit.hpp"

#include <array>
#include <exception>

#include "runtime/buffer.hpp"
#include "runtime/placement.hpp"
#include "runtime/transfer.hpp"
#include "sched/submit/run.hpp"

namespace heddle::sched {
namespace {

/// What was submitted before memory ran out is under way, and is to be waited for like all that
/// fails.
Result<> submitted_by(Run& run) {
    try {
        return run.submit();
    } catch (const std::exception&) {
        return Error{Errc::out_of_memory, "out of memory"};
    }
}

Result<bool> probe_answers(const Runner& runner) {
    std::array<float, 16> written{}, read{};
    for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<float>(i) + 0.5F;

    Tensor probe{};
    probe.type = GGML_TYPE_F32;
    set_name(probe, "probe");
    for (std::size_t d = 0; d < 4; ++d) {
        probe.ne[d] = d == 0 ? static_cast<std::int64_t>(written.size()) : 1;
        probe.nb[d] = d == 0 ? sizeof(float) : sizeof written;
    }
    HEDDLE_TRY_ASSIGN(const OwnedBuffer buffer,
                      allocate(*runner.type, alloc_size_of(*runner.type, probe)));
    HEDDLE_TRY_ASSIGN(void* const base, base_of(*buffer));
    HEDDLE_TRY(place_tensor(*buffer, probe, base));
    HEDDLE_TRY(write_tensor_async(*runner.stream, probe, written.data(), 0, sizeof written));
    HEDDLE_TRY(finish(*runner.stream));
    HEDDLE_TRY(read_tensor_async(*runner.stream, probe, read.data(), 0, sizeof read));
    HEDDLE_TRY(finish(*runner.stream));
    return written == read;
}

}  // namespace

Submitter::Submitter(Team& team) : team_(team), state_(std::make_unique<RunState>(team)) {}

Submitter::~Submitter() {
    RunnerId culprit = kNoRunner;
    static_cast<void>(state_->queues.finish_all(false, culprit));
}

Result<> Submitter::run(const GraphIndex& index, Splits& splits, const Program& program,
                        const RunOptions& options) {
    failed_ = kNoRunner;
    Run run(*state_, team_, index, splits, program, options);
    auto submitted = submitted_by(run);
    if (submitted) return ok();
    auto failed = failed_with(std::move(submitted).error(), run.culprit());
    if (failed_ != kNoRunner && run.suspect() != kNoRunner && !answers(run.suspect())) {
        failed_ = run.suspect();
    }
    return failed;
}

Result<> Submitter::synchronize() {
    RunnerId culprit = kNoRunner;
    auto finished = state_->queues.finish_all(true, culprit);
    if (finished) return ok();
    return failed_with(std::move(finished).error(), culprit);
}

Result<> Submitter::failed_with(Error error, RunnerId culprit) {
    RunnerId another = kNoRunner;
    static_cast<void>(state_->queues.finish_all(true, another));
    if (state_->queues.take_old_failures()) error.code = Errc::aborted;
    if (error.code == Errc::aborted) return error;
    ++state_->failures;
    state_->queues.forget_refusals();
    if (error.code == Errc::device && culprit != team_.last()) failed_ = culprit;
    return error;
}

std::uint64_t Submitter::copies_made() const { return state_->copies_made; }
std::uint64_t Submitter::copies_skipped() const { return state_->copies_skipped; }

bool Submitter::answers(RunnerId runner) {
    static_cast<void>(take_old_failure(*team_[runner].stream));
    auto answer = probe_answers(team_[runner]);
    return answer && *answer;
}

}  // namespace heddle::sched
