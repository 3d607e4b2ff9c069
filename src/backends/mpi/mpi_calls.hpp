#pragma once

// The C interface alone.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "backends/mpi/fabric.hpp"

/// Calls of MPI: what they say, and those that may not come back.
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
