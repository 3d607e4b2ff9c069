#include "session.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

namespace heddle::cli_test {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

/// In the child: the terminal becomes its own, so that Ctrl-C reaches it.
[[noreturn]] void become(const std::string& terminal, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment, const std::string& home) {
    setsid();
    const int file = open(terminal.c_str(), O_RDWR);
    if (file < 0 || ioctl(file, TIOCSCTTY, 0) != 0) _exit(127);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(file, stream);
    setenv("HOME", home.c_str(), 1);
    setenv("XDG_CACHE_HOME", home.c_str(), 1);
    setenv("XDG_STATE_HOME", home.c_str(), 1);
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
    std::vector<char*> words{const_cast<char*>(HEDDLE_PROGRAM)};
    for (const std::string& argument : arguments) {
        words.push_back(const_cast<char*>(argument.c_str()));
    }
    words.push_back(nullptr);
    execv(HEDDLE_PROGRAM, words.data());
    _exit(127);
}

}  // namespace

Session::Session(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment, unsigned short columns)
    : terminal_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (terminal_ < 0 || grantpt(terminal_) != 0 || unlockpt(terminal_) != 0) {
        ADD_FAILURE() << "no terminal can be had";
        return;
    }
    const std::string name = ptsname(terminal_);
    winsize size{};
    size.ws_col = columns;
    size.ws_row = 24;
    ioctl(terminal_, TIOCSWINSZ, &size);
    child_ = fork();
    if (child_ == 0) become(name, arguments, environment, directory_.path(""));
}

Session::~Session() {
    if (child_ > 0) {
        kill(child_, SIGKILL);
        waitpid(child_, nullptr, 0);
    }
    close(terminal_);
}

void Session::type(const std::string& keys) {
    EXPECT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

bool Session::look(int milliseconds) {
    pollfd waiting{terminal_, POLLIN, 0};
    if (poll(&waiting, 1, milliseconds) <= 0) return true;
    char bytes[4096];
    const ssize_t count = read(terminal_, bytes, sizeof bytes);
    if (count <= 0) return false;  // the program has closed its side
    screen_.append(bytes, static_cast<std::size_t>(count));
    return true;
}

bool Session::sees(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
        const std::size_t at = screen_.find(text, seen_);
        if (at != std::string::npos) {
            seen_ = at + text.size();
            return true;
        }
        if (!look(50) && screen_.find(text, seen_) == std::string::npos) break;
    }
    ADD_FAILURE() << "'" << text << "' was not seen; on the screen is\n" << screen_;
    return false;
}

bool Session::has_ended() const {
    siginfo_t info{};
    return child_ <= 0 ||
           (waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid != 0);
}

int Session::leave() {
    for (int i = 0; i < 50 && !has_ended(); ++i) {
        press_ctrl_d();
        for (int k = 0; k < 20 && !has_ended(); ++k) look(50);
    }
    return status();
}

int Session::status() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    int status = 0;
    while (child_ > 0 && std::chrono::steady_clock::now() < end) {
        look(20);
        if (waitpid(child_, &status, WNOHANG) != child_) continue;
        child_ = -1;
        while (look(0)) {  // what is left
            pollfd waiting{terminal_, POLLIN, 0};
            if (poll(&waiting, 1, 0) <= 0) break;
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    ADD_FAILURE() << "the program does not end; on the screen is\n" << screen_;
    return -1;
}

}  // namespace heddle::cli_test
