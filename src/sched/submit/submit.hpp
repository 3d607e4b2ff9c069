#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sched/plan/plan.hpp"

/// The fourth stage: actions become calls on streams, waits become events.
namespace heddle::sched {

/// When an action was really done, by the device's queue, on the host's clock.
struct Timing {
    std::int32_t action = 0;
    double submitted = 0, start = 0, end = 0;  ///< seconds since the run began
    bool skipped = false;                      ///< the copy was up to date
    bool known = false;                        ///< start and end are
    double began = 0;                          ///< the run, in seconds of the steady clock
};

/// What one run is to do besides.
struct RunOptions {
    int slot = 0;
    /// The caller's wish to see nodes: asked with `ask` true before, called with false when a
    /// wanted node is computed. False then ends the run.
    bool (*observer)(Tensor* node, bool ask, void* data) = nullptr;
    void* observer_data = nullptr;
    std::vector<Timing>* timings = nullptr;  ///< filled in if given; null costs nothing
    bool synchronous = false;  ///< wait after every action: what it would cost without overlap
};

/// Submits programs. Keeps what outlives a run: the queues' own streams, events, threads.
class Submitter {
public:
    explicit Submitter(Team& team);
    ~Submitter();  ///< waits for everything

    /// Begins a run and returns when all is submitted, all that runs on the host is done, and the
    /// caller may write its inputs again. Devices may go on with what they were given: `splits`
    /// has to stay until the next `synchronize`. Stops at the first failure: the sentence names the
    /// device and the node, and everything submitted is done. Errc::aborted if the observer ended
    /// it.
    Result<> run(const GraphIndex& index, Splits& splits, const Program& program,
                 const RunOptions& options);

    /// Waits for all streams. Fails with what went wrong meanwhile.
    Result<> synchronize();

    /// Whose device the last failure was of; kNoRunner if it was of none.
    RunnerId failed() const { return failed_; }

    /// Copies since the beginning; those left out had their bytes in place already.
    std::uint64_t copies_made() const;
    std::uint64_t copies_skipped() const;

    /// Whether the device does what it is told: a few bytes are written and read back.
    bool answers(RunnerId runner);

private:
    Result<> failed_with(Error error, RunnerId culprit);

    Team& team_;
    std::unique_ptr<class RunState> state_;
    RunnerId failed_ = kNoRunner;
};

}  // namespace heddle::sched
