#include "program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

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

/// A pseudo-terminal; it stays as it is for as long as the object lives.
class Terminal {
public:
    Terminal() : user_(posix_openpt(O_RDWR | O_NOCTTY)) {
        if (user_ < 0 || grantpt(user_) != 0 || unlockpt(user_) != 0) {
            ADD_FAILURE() << "no terminal can be had";
            return;
        }
        name_ = ptsname(user_);
        program_ = open(name_.c_str(), O_RDWR | O_NOCTTY);
    }
    ~Terminal() {
        close(program_);
        close(user_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    int user() const { return user_; }        ///< where people type and look
    int program() const { return program_; }  ///< where the program reads and writes
    const std::string& name() const { return name_; }

private:
    int user_, program_ = -1;
    std::string name_;
};

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
    const Terminal terminal;
    EXPECT_EQ(write(terminal.user(), input.data(), input.size()),
              static_cast<ssize_t>(input.size()));
    return outcome_of(arguments, terminal.name(), directory);
}

Outcome heddle_on_screen(const std::vector<std::string>& arguments) {
    const Directory directory;
    const Terminal terminal;
    // A terminal holds little: somebody has to read while the program writes.
    std::string seen;
    std::jthread reader([&](const std::stop_token& stop) {
        pollfd waiting{terminal.user(), POLLIN, 0};
        for (bool is_last = false; !is_last;) {
            is_last = stop.stop_requested();  // then what is left is read
            while (poll(&waiting, 1, 10) > 0) {
                char bytes[4096];
                const ssize_t count = read(terminal.user(), bytes, sizeof bytes);
                if (count <= 0) break;
                seen.append(bytes, static_cast<std::size_t>(count));
            }
        }
    });
    write_content(directory.path("in"), "");
    Outcome outcome = outcome_of(arguments, directory.path("in"), directory, [&] {
        dup2(terminal.program(), STDOUT_FILENO);
        dup2(terminal.program(), STDERR_FILENO);
        setenv("TERM", "xterm", 1);
    });
    reader.request_stop();
    reader.join();
    outcome.out = seen;
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
