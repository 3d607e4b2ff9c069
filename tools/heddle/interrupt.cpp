#include "interrupt.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace heddle::tool {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

/// A byte goes in with each signal, so that who waits for input wakes up: the system may hand the
/// signal to another thread, or before the waiting begins.
int wake[2] = {-1, -1};

extern "C" void note_interrupt(int signal) {
    if (interrupted.exchange(true)) {
        std::signal(signal, SIG_DFL);
        raise(signal);
        return;
    }
    const int before = errno;
    constexpr char kByte = 0;
    if (write(wake[1], &kByte, 1) < 0) errno = before;  // full: then there is enough to wake up
    errno = before;
}

void empty_pipe() {
    char bytes[16];
    while (read(wake[0], bytes, sizeof bytes) > 0) continue;
}

}  // namespace

void watch_interrupts() {
    struct sigaction before {};
    // What the program was started to ignore is ignored on.
    if (sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
    if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) wake[0] = wake[1] = -1;
    struct sigaction action {};
    action.sa_handler = note_interrupt;  // without SA_RESTART: who waits for a line wakes up
    sigaction(SIGINT, &action, nullptr);
}

bool take_interrupt() { return interrupted.exchange(false); }
bool is_interrupted() { return interrupted; }

bool wait_for_input() {
    while (!is_interrupted()) {
        pollfd both[] = {{STDIN_FILENO, POLLIN, 0}, {wake[0], POLLIN, 0}};
        const int ready = poll(both, 2, -1);           // one below 0 is left out
        if (ready < 0 && errno != EINTR) return true;  // reading will say what is wrong
        if (ready <= 0) continue;
        if (both[1].revents != 0) empty_pipe();
        if (both[0].revents != 0 && !is_interrupted()) return true;
    }
    return false;
}

void end_by_interrupt() {
    std::fflush(stdout);
    std::signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    constexpr int kByInterrupt = 130;  // where the signal is blocked
    std::_Exit(kByInterrupt);
}

}  // namespace heddle::tool
