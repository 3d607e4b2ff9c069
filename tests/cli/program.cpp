#include "program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace heddle::cli_test {
namespace {

/// In the child: streams become files, then the program takes over.
[[noreturn]] void become(const std::vector<std::string>& arguments, const std::string& input,
                         const Directory& directory, const std::function<void()>& prepare) {
    const std::string out = directory.path("out"), err = directory.path("err");
    // What is measured here must not be kept for others.
    setenv("XDG_CACHE_HOME", directory.path("cache").c_str(), 1);
    const auto redirect = [](const char* path, int flags, int to) {
        const int file = open(path, flags, 0600);
        if (file < 0 || dup2(file, to) < 0) _exit(127);
    };
    redirect(input.c_str(), O_RDONLY | O_NOCTTY, STDIN_FILENO);
    redirect(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    if (prepare) prepare();
    std::vector<char*> words{const_cast<char*>(HEDDLE_PROGRAM)};
    for (const std::string& argument : arguments) {
        words.push_back(const_cast<char*>(argument.c_str()));
    }
    words.push_back(nullptr);
    execv(HEDDLE_PROGRAM, words.data());
    _exit(127);
}

/// Runs the program with the file `input` for it to read.
Outcome outcome_of(const std::vector<std::string>& arguments, const std::string& input,
                   const Directory& directory, const std::function<void()>& prepare = {}) {
    Outcome outcome;
    const pid_t child = fork();
    if (child == 0) become(arguments, input, directory, prepare);
    int status = 0;
    rusage usage{};
    if (child < 0 || wait4(child, &status, 0, &usage) != child) {
        ADD_FAILURE() << "the program could not be started";
        return outcome;
    }
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = content_of(directory.path("out"));
    outcome.err = content_of(directory.path("err"));
    outcome.peak_bytes = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
    return outcome;
}

}  // namespace

Outcome heddle(const std::vector<std::string>& arguments, const std::string& input) {
    return heddle_after({}, arguments, input);
}

Outcome heddle_after(const std::function<void()>& prepare,
                     const std::vector<std::string>& arguments, const std::string& input) {
    const Directory directory;
    write_content(directory.path("in"), input);
    return outcome_of(arguments, directory.path("in"), directory, prepare);
}

Outcome heddle_at_terminal(const std::vector<std::string>& arguments, const std::string& input) {
    const Directory directory;
    const int typist = posix_openpt(O_RDWR | O_NOCTTY);
    if (typist < 0 || grantpt(typist) != 0 || unlockpt(typist) != 0) {
        ADD_FAILURE() << "no terminal can be had";
        return {};
    }
    const std::string terminal = ptsname(typist);
    const int held = open(terminal.c_str(), O_RDWR | O_NOCTTY);  // so that it stays as it is
    EXPECT_EQ(write(typist, input.data(), input.size()), static_cast<ssize_t>(input.size()));
    const Outcome outcome = outcome_of(arguments, terminal, directory);
    close(held);
    close(typist);
    return outcome;
}

Directory::Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-cli-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << name << ": cannot be made";
    root_ = name;
}

Directory::~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
}

std::vector<std::string> Directory::files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
        names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
}

std::string content_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void write_content(const std::string& path, const std::string& content) {
    std::ofstream out(path, std::ios::binary);
    out << content;
    if (!out.flush()) ADD_FAILURE() << path << ": cannot be written";
}

}  // namespace heddle::cli_test
