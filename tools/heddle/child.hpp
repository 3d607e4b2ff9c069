#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "heddle/result.hpp"

namespace heddle::tool {

/// This program once more, or another one, in a process of its own: what it does may crash or hang.
///
/// The child is executed anew and not only forked, because drivers of GPUs do not survive a fork.
/// It reports line by line through a pipe. What it and its plug-ins write as errors is kept, for
/// those who want to know what it said last.
class Child {
public:
    /// Where the child finds the pipe for its reports.
    static constexpr int kReportDescriptor = 3;

    using Seconds = std::chrono::duration<double>;

    /// What becomes of the child's standard output.
    enum class Output {
        kept,    ///< goes where its errors go: nothing that a plug-in prints may mix with results
        shared,  ///< is that of this process
    };

    /// Runs the command line of this process again, with `more` words.
    static Result<Child> start(const std::vector<std::string>& more, Output output);

    /// Runs another program of Heddle's that reports in the same way: its file, and its words.
    static Result<Child> start_program(std::vector<std::string> words, Output output);

    Child(Child&& other) noexcept;
    Child& operator=(Child&&) = delete;
    ~Child();  ///< ends it where it still runs

    /// The next line of its report; none if it has ended, or if none has come in time.
    std::optional<std::string> next_line(std::optional<Seconds> limit = {});

    /// Whether the last line did not come because time was up.
    bool is_late() const { return is_late_; }

    /// Kills the child where it still runs. Says how it ended: "SIGABRT", "exit status 3".
    std::string end();

    /// The last lines it wrote as errors since begin_words(), oldest first.
    std::vector<std::string> last_words() const;

private:
    static Result<Child> spawn(const char* file, std::vector<std::string> words, Output output);

    Child(pid_t process, int reports, int errors)
        : process_(process), reports_(reports), errors_(errors) {}

    bool wait_for_input(std::chrono::milliseconds most);
    void keep_the_last();
    bool reap(bool patiently);

    pid_t process_;  ///< -1 once it has been waited for
    int reports_, errors_;
    int status_ = 0;
    std::string unread_, said_;
    bool is_late_ = false, is_closed_ = false;
};

/// The side of the child: hides its reports from programs it starts, leaves no core dumps, and ends
/// together with the process that started it.
void become_child();

/// In the child: what is written as errors from now on are its last words, nothing before. In the
/// stream of errors itself, because the two pipes are read in no certain order.
void begin_words();

/// Sends a line to the process that started this one. Ends this one where that cannot be done.
void report_line(const std::string& line);

}  // namespace heddle::tool
