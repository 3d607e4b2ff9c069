#include "child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

extern char** environ;  // NOLINT: the system's own declaration is optional

namespace heddle::tool {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr char kBeginWords = '\x1e';           // "record separator"; nobody writes it otherwise
constexpr std::size_t kKeptErrors = 8192;      // bytes: a message and a backtrace
constexpr std::size_t kLongestLine = 1 << 20;  // bytes; what is longer is no report
constexpr milliseconds kLookAround{200};       // how often a silent child is asked whether it lives
constexpr std::chrono::seconds kPatience{5};   // for a killed process; a stuck driver may hold it

/// A file descriptor, closed in the end.
class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) close(number_);
    }
    int get() const { return number_; }
    int release() { return std::exchange(number_, -1); }

private:
    int number_;
};

struct Pipe {
    Descriptor from, to;
};

Error system_failure(std::string_view what, int number) {
    return failure(Errc::io, what, ": ", std::strerror(number));
}

/// A pipe whose ends no child inherits unasked, out of the way of the numbers a child is given.
Result<Pipe> make_pipe() {
    constexpr int kOutOfTheWay = 16;
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return system_failure("no pipe can be had", errno);
    const Descriptor from(ends[0]), to(ends[1]);
    Pipe pipe{Descriptor(fcntl(from.get(), F_DUPFD_CLOEXEC, kOutOfTheWay)),
              Descriptor(fcntl(to.get(), F_DUPFD_CLOEXEC, kOutOfTheWay))};
    if (pipe.from.get() < 0 || pipe.to.get() < 0) {
        return system_failure("no pipe can be had", errno);
    }
    return pipe;
}

/// The words this process was started with.
Result<std::vector<std::string>> own_words() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    if (words.empty() || file.bad()) return failure(Errc::io, "/proc/self/cmdline cannot be read");
    return words;
}

/// What the descriptors of a child become.
class FileActions {
public:
    FileActions() { posix_spawn_file_actions_init(&actions_); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;
    ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }

    void give(const Descriptor& descriptor, int number) {
        posix_spawn_file_actions_adddup2(&actions_, descriptor.get(), number);
    }
    void give_nothing_to_read() {
        posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    }
    const posix_spawn_file_actions_t* get() const { return &actions_; }

private:
    posix_spawn_file_actions_t actions_;
};

/// Appends what there is to read. False at the end of the pipe.
bool read_into(std::string& text, int descriptor) {
    std::array<char, 4096> piece;
    const ssize_t size = read(descriptor, piece.data(), piece.size());
    if (size > 0) text.append(piece.data(), static_cast<std::size_t>(size));
    return size > 0 || (size < 0 && errno == EINTR);
}

bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t size = write(descriptor, text.data(), text.size());
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

std::string ending_text(int status) {
    if (!WIFSIGNALED(status)) return text("exit status ", WEXITSTATUS(status));
    const char* const name = sigabbrev_np(WTERMSIG(status));
    return name != nullptr ? text("SIG", name) : text("signal ", WTERMSIG(status));
}

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& more, Output output) {
    HEDDLE_TRY_ASSIGN(std::vector<std::string> words, own_words());
    // Behind a bare "--" they would be no options.
    words.insert(std::ranges::find(words, "--"), more.begin(), more.end());
    return spawn("/proc/self/exe", std::move(words), output);
}

Result<Child> Child::start_program(std::vector<std::string> words, Output output) {
    const std::string file = words.front();
    return spawn(file.c_str(), std::move(words), output);
}

Result<Child> Child::spawn(const char* file, std::vector<std::string> words, Output output) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& each : words) arguments.push_back(each.data());
    arguments.push_back(nullptr);

    HEDDLE_TRY_ASSIGN(Pipe reports, make_pipe());
    HEDDLE_TRY_ASSIGN(Pipe errors, make_pipe());
    FileActions actions;
    actions.give_nothing_to_read();
    if (output == Output::kept) actions.give(errors.to, STDOUT_FILENO);
    actions.give(errors.to, STDERR_FILENO);
    actions.give(reports.to, kReportDescriptor);
    pid_t process = -1;
    const int problem =
        posix_spawn(&process, file, actions.get(), nullptr, arguments.data(), environ);
    if (problem != 0) return system_failure(text(file, " cannot be started"), problem);
    return Child(process, reports.from.release(), errors.from.release());
}

Child::Child(Child&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      reports_(std::exchange(other.reports_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      status_(other.status_),
      unread_(std::move(other.unread_)),
      said_(std::move(other.said_)),
      is_late_(other.is_late_),
      is_closed_(other.is_closed_) {}

Child::~Child() {
    end();
    for (const int descriptor : {reports_, errors_}) {
        if (descriptor >= 0) close(descriptor);
    }
}

/// Reads what has come within that time. False if there is nothing more to come.
bool Child::wait_for_input(milliseconds most) {
    std::array<pollfd, 2> waiting{pollfd{reports_, POLLIN, 0}, pollfd{errors_, POLLIN, 0}};
    const int ready = poll(waiting.data(), waiting.size(), static_cast<int>(most.count()));
    if (ready < 0) return errno == EINTR;
    if (ready == 0) {
        // A process of the child may hold the pipes open after its end. What it wrote between the
        // last look and its end is still to come.
        if (process_ < 0) return false;
        reap(false);
        return true;
    }
    if (waiting[1].revents != 0 && !read_into(said_, errors_)) {
        close(std::exchange(errors_, -1));  // poll passes over what is below 0
    }
    keep_the_last();
    return waiting[0].revents == 0 || read_into(unread_, reports_);
}

void Child::keep_the_last() {
    if (said_.size() > 2 * kKeptErrors) said_.erase(0, said_.size() - kKeptErrors);
}

std::optional<std::string> Child::next_line(std::optional<Seconds> limit) {
    const auto begin = Clock::now();
    is_late_ = false;
    for (;;) {
        if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
            std::string line = unread_.substr(0, end);
            unread_.erase(0, end + 1);
            return line;
        }
        if (unread_.size() > kLongestLine) unread_.clear();
        milliseconds most = kLookAround;
        if (limit) {
            const Seconds left = *limit - (Clock::now() - begin);
            is_late_ = left.count() <= 0;
            if (is_late_) return {};
            most = std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds(1), kLookAround);
        }
        is_closed_ = !wait_for_input(most);
        if (is_closed_) return {};
    }
}

bool Child::reap(bool patiently) {
    const auto begin = Clock::now();
    while (process_ > 0) {
        const pid_t ended = waitpid(process_, &status_, WNOHANG);
        if (ended == process_ || (ended < 0 && errno != EINTR)) process_ = -1;
        if (process_ < 0 || !patiently || Clock::now() - begin > kPatience) break;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return process_ < 0;
}

std::string Child::end() {
    // A child whose pipe has closed is about to end by itself, and how it does is the question.
    if (is_closed_) reap(true);
    if (process_ > 0) {
        kill(process_, SIGKILL);
        if (!reap(true)) {
            process_ = -1;  // it is left to itself
            return "cannot be killed";
        }
    }
    // What it said last may still be in the pipe, which a process of the child may hold open.
    if (errors_ >= 0) {
        fcntl(errors_, F_SETFL, O_NONBLOCK);
        while (read_into(said_, errors_)) keep_the_last();
    }
    return ending_text(status_);
}

std::vector<std::string> Child::last_words() const {
    std::vector<std::string> lines;
    const std::size_t begin = said_.rfind(kBeginWords);
    for (std::size_t at = begin == std::string::npos ? 0 : begin + 1; at < said_.size();) {
        const std::size_t end = std::min(said_.find('\n', at), said_.size());
        if (end > at) lines.push_back(said_.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

void become_child() {
    fcntl(Child::kReportDescriptor, F_SETFD, FD_CLOEXEC);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void begin_words() { static_cast<void>(write_all(STDERR_FILENO, {&kBeginWords, 1})); }

void report_line(const std::string& line) {
    if (write_all(Child::kReportDescriptor, line + '\n')) return;
    // A report with a gap would be taken for the whole.
    const char* const reason = std::strerror(errno);
    for (const std::string_view words : {"a report cannot be written: ", reason, "\n"}) {
        static_cast<void>(write_all(STDERR_FILENO, words));
    }
    std::_Exit(EXIT_FAILURE);
}

}  // namespace heddle::tool
