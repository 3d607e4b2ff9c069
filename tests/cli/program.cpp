#include "program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace heddle::cli_test {
namespace {

/// In the child: streams become files, then the program takes over.
[[noreturn]] void become(const std::vector<std::string>& arguments, const Directory& directory) {
    const std::string out = directory.path("out"), err = directory.path("err");
    // What is measured here must not be kept for others.
    setenv("XDG_CACHE_HOME", directory.path("cache").c_str(), 1);
    const auto redirect = [](const char* path, int flags, int to) {
        const int file = open(path, flags, 0600);
        if (file < 0 || dup2(file, to) < 0) _exit(127);
    };
    redirect(directory.path("in").c_str(), O_RDONLY, STDIN_FILENO);
    redirect(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    std::vector<char*> words{const_cast<char*>(HEDDLE_PROGRAM)};
    for (const std::string& argument : arguments) {
        words.push_back(const_cast<char*>(argument.c_str()));
    }
    words.push_back(nullptr);
    execv(HEDDLE_PROGRAM, words.data());
    _exit(127);
}

}  // namespace

Outcome heddle(const std::vector<std::string>& arguments, const std::string& input) {
    const Directory directory;
    write_content(directory.path("in"), input);
    Outcome outcome;
    const pid_t child = fork();
    if (child == 0) become(arguments, directory);
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
