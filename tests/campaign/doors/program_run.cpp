#include "tests/campaign/doors/program_run.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

namespace heddle::campaign {
namespace {

using Clock = std::chrono::steady_clock;

std::string content_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void limit(__rlimit_resource which, std::size_t most) {
    const rlimit both{most, most};
    if (most != 0) setrlimit(which, &both);
}

void redirect(const std::string& path, int flags, int to) {
    const int file = open(path.c_str(), flags, 0600);
    if (file < 0 || dup2(file, to) < 0) _exit(127);
    close(file);
}

/// In the child. Everything it needs is made before the process is split.
[[noreturn]] void become(const char* program, const ProgramRun& run, const std::string& out,
                         const std::string& err, char* const* words) {
    for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(err, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    redirect(out, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    if (run.out == ProgramRun::Out::full) redirect("/dev/full", O_WRONLY, STDOUT_FILENO);
    if (run.out == ProgramRun::Out::closed) close(STDOUT_FILENO);
    if (chdir(run.directory.c_str()) != 0) _exit(127);
    limit(RLIMIT_AS, run.memory);
    limit(RLIMIT_FSIZE, run.file_size);
    limit(RLIMIT_NPROC, run.processes);
    execv(program, words);
    _exit(127);
}

/// For a program that was interrupted: threads that wait for each other take long where every core
/// has other work.
constexpr std::chrono::seconds kMostToEnd{30};

/// Waits until `end` for the child; true if it is gone.
bool is_gone(pid_t child, Clock::time_point end, int& status) {
    auto pause = std::chrono::microseconds(500);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (Clock::now() > end) return false;
        std::this_thread::sleep_for(pause);
        if (pause < std::chrono::milliseconds(10)) pause *= 2;
    }
    return true;
}

}  // namespace

ProgramOutcome run_program(const std::string& program, const ProgramRun& run) {
    const std::string out = run.directory + ".out", err = run.directory + ".err";
    std::vector<char*> words{const_cast<char*>(program.c_str())};
    for (const std::string& each : run.arguments) words.push_back(const_cast<char*>(each.c_str()));
    words.push_back(nullptr);

    ProgramOutcome outcome;
    const pid_t child = fork();
    if (child == 0) become(program.c_str(), run, out, err, words.data());
    if (child < 0) return outcome;
    int status = 0;
    if (!is_gone(child, Clock::now() + std::chrono::seconds(run.seconds), status)) {
        outcome.was_stopped = true;
        kill(child, SIGINT);
        if (!is_gone(child, Clock::now() + kMostToEnd, status)) {
            outcome.hung = true;
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        }
    }
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = content_of(out);
    outcome.err = content_of(err);
    return outcome;
}

}  // namespace heddle::campaign
