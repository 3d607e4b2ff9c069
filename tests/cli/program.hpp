#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// Runs the program `heddle` and tells what came of it.
namespace heddle::cli_test {

struct Outcome {
    int status = -1;             ///< what it exited with; 128 and more: the signal that ended it
    std::string out, err;        ///< all it wrote
    std::size_t peak_bytes = 0;  ///< most memory it had at a time
};

/// `input` is what the program reads.
Outcome heddle(const std::vector<std::string>& arguments, const std::string& input = "");

/// The same in surroundings of its own: `prepare` runs before the program, in its process. Streams
/// that it redirects are not told of.
Outcome heddle_after(const std::function<void()>& prepare,
                     const std::vector<std::string>& arguments, const std::string& input = "");

/// The same with somebody typing it: the program reads from a terminal, at most a page of text.
Outcome heddle_at_terminal(const std::vector<std::string>& arguments, const std::string& input);

/// The same with somebody looking on: all that the program writes goes to a terminal, and is told
/// of as `out`, in the order in which it came.
Outcome heddle_on_screen(const std::vector<std::string>& arguments);

/// A directory for the running test, empty at first.
class Directory {
public:
    Directory();
    ~Directory();
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;

    std::string path(const std::string& name) const { return (root_ / name).string(); }
    std::vector<std::string> files() const;  ///< names, sorted

private:
    std::filesystem::path root_;
};

std::string content_of(const std::string& path);
void write_content(const std::string& path, const std::string& content);

}  // namespace heddle::cli_test
