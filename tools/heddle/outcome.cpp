#include "outcome.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "commands.hpp"
#include "console.hpp"
#include "core/printable.hpp"
#include "json_text.hpp"

namespace heddle::tool {
namespace {

JsonFailures as_json = JsonFailures::none;

/// For the signal handler, which gets no argument.
UnfinishedFiles unfinished_files;

/// The signal ends the program as it would have without this function.
extern "C" void remove_unfinished_files(int signal) {
    unfinished_files.unlink_all();
    std::signal(signal, SIG_DFL);
    raise(signal);
}

/// Reading past the end of a mapped file. Other causes of the signal are none of ours.
extern "C" void tell_of_cut_file(int signal, siginfo_t* info, void*) {
    unfinished_files.unlink_all();
    if (info->si_code != BUS_ADRERR) {
        std::signal(signal, SIG_DFL);
        raise(signal);
        return;
    }
    constexpr std::string_view kSentence =
        "heddle: a mapped file was cut short by another program while it was in use\n";
    if (write(STDERR_FILENO, kSentence.data(), kSentence.size()) < 0) _exit(kFailure);
    _exit(kFailure);
}

/// The table of files, with the signals that end a program in charge of it from the first use on.
UnfinishedFiles* watched_files() {
    static const bool is_watched = [] {
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
            // What the program was started to ignore stays ignored, and in a conversation Ctrl-C
            // still ends an answer after a file was written.
            struct sigaction before {};
            const bool is_known = sigaction(number, nullptr, &before) == 0;
            if (is_known && before.sa_handler == SIG_DFL) {
                std::signal(number, remove_unfinished_files);
            }
        }
        return true;
    }();
    return is_watched ? &unfinished_files : nullptr;
}

}  // namespace

void tell_failures_as_json(JsonFailures how) { as_json = how; }

void tell_failure(std::string_view command, std::string_view sentence, int status) {
    print_beside(fmt::format("heddle{}{}: {}\n", command.empty() ? "" : " ", command,
                             printable(sentence, "\n\t")));
    const bool is_wanted =
        as_json == JsonFailures::alone ? !has_printed_results() : as_json == JsonFailures::as_line;
    if (!is_wanted) return;
    const nlohmann::json error{{"command", command}, {"message", sentence}, {"status", status}};
    print("{}\n", json_text({{"error", error}}, -1));
}

Result<> check_output_files(std::initializer_list<std::string_view> paths) {
    for (const std::string_view path : paths) {
        if (!path.empty()) HEDDLE_TRY(WholeFile::check(std::string(path)));
    }
    return ok();
}

int report_outcome(std::string_view command, const Result<>& outcome) {
    if (outcome) return kSuccess;
    tell_failure(command, outcome.error().message);
    return kFailure;
}

Result<WholeFile> new_file(const std::string& path) {
    return WholeFile::create(path, watched_files());
}

Result<> write_file(const std::string& path, std::string_view content) {
    return write_whole_file(path, content, watched_files());
}

void expect_files_cut_short() {
    struct sigaction action {};
    action.sa_sigaction = tell_of_cut_file;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, nullptr);
}

bool is_standard_output(const std::string& path) {
    struct stat file {
    }, output{};
    return stat(path.c_str(), &file) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
           file.st_dev == output.st_dev && file.st_ino == output.st_ino;
}

void keep_standard_streams() {
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
        // The lowest free number is this one. Open for the other direction, so that its use fails.
        if (open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
    }
}

Result<> finish_output() {
    const bool was_fine = std::ferror(stdout) == 0;
    errno = 0;
    if (std::fflush(stdout) == 0 && was_fine) return ok();
    return failure(Errc::io, "standard output cannot be written",
                   errno == 0 ? "" : text(": ", std::strerror(errno)));
}

}  // namespace heddle::tool
