#pragma once

// The C interface alone.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "backends/mpi/fabric.hpp"

/// Calls of MPI: how it begins, what they say, and those that may not come back.
namespace heddle::mpi {

inline std::string sentence_of(int code) {
    std::array<char, MPI_MAX_ERROR_STRING> words{};
    int length = 0;
    MPI_Error_string(code, words.data(), &length);
    return {words.data(), static_cast<std::size_t>(length)};
}

inline Result<> check(int code, std::string_view what) {
    if (code == MPI_SUCCESS) return ok();
    return failure(Errc::device, "MPI: ", what, ": ", sentence_of(code));
}

/// Whether MPI was begun here, and so ends here; else the program does both.
inline std::atomic<bool>& is_ours() {
    static std::atomic<bool> ours{false};
    return ours;
}

inline bool has_ended() {
    int ended = 0;
    MPI_Finalized(&ended);
    return ended != 0;
}

inline void set_unless_set(const char* name, const char* value) { setenv(name, value, 0); }

/// One loss must not end the job, and workers need their cores. Once a connection broke, Open MPI
/// looks at the others every 10 ms only, unless it is told to do so always. It would yield each
/// time it is asked in vain, which takes milliseconds on busy cores; Backoff knows better when to.
inline void choose_settings() {
    set_unless_set("OMPI_MCA_orte_enable_recovery", "1");
    set_unless_set("OMPI_MCA_hwloc_base_binding_policy", "none");
    set_unless_set("OMPI_MCA_rmaps_base_oversubscribe", "1");
    set_unless_set("OMPI_MCA_mpi_yield_when_idle", "0");
    set_unless_set("OMPI_MCA_mpi_event_tick_rate", "1");
}

inline std::string_view name_of_level(int level) {
    return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
           : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
           : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                            : "MPI_THREAD_MULTIPLE";
}

/// Heddle's threads call MPI one at a time, but the program's own know nothing of them.
inline Result<> initialize() {
    choose_settings();
    int is_on = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&is_on);
    if (has_ended()) return failure(Errc::unsupported, "MPI: it has ended in this process");
    if (is_on == 0) {
        HEDDLE_TRY(check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level),
                         "it does not start"));
        is_ours() = true;
    }
    MPI_Query_thread(&level);
    if (!is_ours() && level < MPI_THREAD_MULTIPLE) {
        return failure(Errc::unsupported, "MPI: this program began it with ", name_of_level(level),
                       ", but Heddle calls it from a thread of its own: call MPI_Init_thread with "
                       "MPI_THREAD_MULTIPLE");
    }
    if (level >= MPI_THREAD_SERIALIZED) return ok();
    return failure(Errc::unsupported, "MPI: this library can be used by one thread only");
}

/// While it lives, failures on a communicator come back as codes, whatever the program wants.
class ReturnsCodes {
public:
    explicit ReturnsCodes(MPI_Comm ranks) : ranks_(ranks) {
        MPI_Comm_get_errhandler(ranks_, &before_);
        MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
    }
    ~ReturnsCodes() {
        MPI_Comm_set_errhandler(ranks_, before_);
        MPI_Errhandler_free(&before_);
    }
    ReturnsCodes(const ReturnsCodes&) = delete;
    ReturnsCodes& operator=(const ReturnsCodes&) = delete;

private:
    const MPI_Comm ranks_;
    MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

/// Runs `body` on a thread that is left behind if it takes longer than `limit`. What `body` uses
/// must live as long as the process.
template <class Body>
bool within(std::chrono::milliseconds limit, Body body) {
    struct State {
        std::mutex lock;
        std::condition_variable changed;
        bool done = false;
    };
    const auto state = std::make_shared<State>();
    const NoPipeSignal guard_of_thread;
    std::thread([state, body = std::move(body)] {
        body();
        const std::lock_guard guard(state->lock);
        state->done = true;
        state->changed.notify_all();
    }).detach();
    std::unique_lock guard(state->lock);
    return state->changed.wait_for(guard, limit, [&] { return state->done; });
}

}  // namespace heddle::mpi
