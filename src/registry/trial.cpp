#include "registry/trial.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
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
#include <optional>
#include <string>
#include <utility>

#include "ggml-backend-impl.h"
#include "registry/table_check.hpp"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

/// How far the child has come: one byte through the pipe as each step begins.
enum class Step : char { opening = 1, scoring, starting, reading, done };

std::string_view place_of(Step step) {
    switch (step) {
        case Step::scoring:
            return "in ggml_backend_score";
        case Step::starting:
            return "in ggml_backend_init";
        case Step::reading:
            return "while its tables were read";
        default:
            return "while it was opened";
    }
}

std::string name_of_signal(int number) {
    struct Row {
        int number;
        const char* name;
    };
    static constexpr Row kNames[] = {
        {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
        {SIGILL, "SIGILL"},   {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"},
        {SIGSYS, "SIGSYS"},   {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"}};
    for (const Row& row : kNames) {
        if (row.number == number) return row.name;
    }
    return text("signal ", number);
}

/// A file descriptor, owned.
class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() { close(); }

    int number() const { return number_; }
    void close() {
        if (number_ >= 0) ::close(std::exchange(number_, -1));
    }

private:
    int number_;
};

struct Pipe {
    Descriptor reading, writing;

    static std::optional<Pipe> make() {
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
        fcntl(ends[0], F_SETFL, O_NONBLOCK);  // others than the child may have the writing end
        return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
    }
};

/// No signal is delivered to this thread for a while.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
};

// ---- the child ---------------------------------------------------------------------------------

/// Cuts the child off from what it has of the program: handlers, files, messages.
void leave_program(int words, pid_t parent) {
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction usual = {};
        usual.sa_handler = SIG_DFL;
        sigaction(signal, &usual, nullptr);  // fails for those that cannot be changed
    }
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_FAILURE);  // it died before that

    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    // A plug-in that calls exit() meets this handler before those of the program.
    std::atexit([] { _exit(EXIT_FAILURE); });
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
}

/// Whatever a plug-in says when it is asked for everything that loading asks it for.
template <class OnStep>
void load_and_read(const char* path, const OnStep& begin) {
    begin(Step::opening);
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    begin(Step::scoring);
    auto* score = reinterpret_cast<int (*)()>(dlsym(library, "ggml_backend_score"));
    if (score != nullptr && score() <= 0) return;  // it would not be started
    begin(Step::starting);
    auto* init = reinterpret_cast<ggml_backend_reg_t (*)()>(dlsym(library, "ggml_backend_init"));
    const ggml_backend_reg_t registration = init != nullptr ? init() : nullptr;
    if (registration == nullptr) return;
    begin(Step::reading);
    if (registration->api_version != GGML_BACKEND_API_VERSION || !check_tables(registration)) {
        return;
    }
    for (ggml_backend_dev_t device : usable_devices(registration).devices) {
        // Not its memory: asking for that makes some drivers start the device.
        (void)device->iface.get_description(device);
        (void)device->iface.get_type(device);
    }
}

[[noreturn]] void run_child(const char* path, int progress, int words, pid_t parent) {
    leave_program(words, parent);
    const auto begin = [&](Step step) {
        const char byte = static_cast<char>(step);
        (void)!write(progress, &byte, 1);
    };
    try {
        load_and_read(path, begin);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the loader catches it too, and says so
    }
    begin(Step::done);
    _exit(EXIT_SUCCESS);
}

// ---- the parent --------------------------------------------------------------------------------

/// The child as its parent sees it. Ends with it.
class Child {
public:
    Child(pid_t id, Descriptor progress, Descriptor words)
        : id_(id), progress_(std::move(progress)), words_(std::move(words)) {}
    ~Child() { end(); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    /// Waits until the child has ended, is done, or `limit` has passed. It is gone afterwards.
    void watch(std::chrono::milliseconds limit) {
        const auto latest = Clock::now() + limit;
        while (step_ != Step::done && !has_ended() && !is_late_) {
            wait_for_news(latest);
            is_late_ = Clock::now() >= latest;
        }
        end();
        while (progress_.number() >= 0 && read_progress()) continue;
        while (words_.number() >= 0 && read_words()) continue;
    }

    Result<> verdict(std::chrono::milliseconds limit) const {
        if (step_ == Step::done) return ok();
        const std::string where =
            text(" while it was loaded (", place_of(step_), ')', last_words());
        if (is_late_) {
            return failure(Errc::device, "was not done after ", limit.count() / 1000.0, " s",
                           where);
        }
        if (!status_) return failure(Errc::device, "ended", where);
        if (WIFSIGNALED(*status_)) {
            return failure(Errc::device, "ended with ", name_of_signal(WTERMSIG(*status_)), where);
        }
        return failure(Errc::device, "ended the process", where);
    }

private:
    bool has_ended() {
        int status = 0;
        const pid_t ended = waitpid(id_, &status, WNOHANG);
        if (ended == id_) status_ = status;
        is_gone_ |= ended == id_ || (ended < 0 && errno == ECHILD);  // reaped elsewhere
        return is_gone_;
    }

    void end() noexcept {
        if (std::exchange(is_gone_, true)) return;
        kill(id_, SIGKILL);
        while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) continue;
    }

    /// Until something can be read, for a while that ends at `latest`. Both pipes are
    /// closed when the child ends, and just before its parent can see that.
    void wait_for_news(Clock::time_point latest) {
        const bool is_open = progress_.number() >= 0 || words_.number() >= 0;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(latest - Clock::now());
        const auto longest = std::chrono::milliseconds(is_open ? 1000 : 1);
        std::array<pollfd, 2> files{
            {{progress_.number(), POLLIN, 0}, {words_.number(), POLLIN, 0}}};
        if (poll(files.data(), files.size(),
                 static_cast<int>(std::clamp(left, {}, longest).count())) <= 0) {
            return;
        }
        if (files[0].revents != 0) read_progress();
        if (files[1].revents != 0) read_words();
    }

    /// False, and the pipe closed, when there is no more.
    bool read_progress() {
        char byte = 0;
        const auto count = read(progress_.number(), &byte, 1);
        if (count == 1 && step_ != Step::done) step_ = static_cast<Step>(byte);
        if (count != 1) progress_.close();
        return count == 1;
    }

    bool read_words() {
        std::array<char, 512> more;
        const auto count = read(words_.number(), more.data(), more.size());
        if (count <= 0) {
            words_.close();
            return false;
        }
        said_.append(more.data(), static_cast<std::size_t>(count));
        constexpr std::size_t kKept = 300;
        if (said_.size() > kKept) said_.erase(0, said_.size() - kKept);
        return true;
    }

    /// What it wrote last: most say why they give up.
    std::string last_words() const {
        std::string said = said_;
        while (!said.empty() && static_cast<unsigned char>(said.back()) <= ' ') said.pop_back();
        said.erase(0, said.find_last_of('\n') + 1);
        std::replace_if(
            said.begin(), said.end(), [](unsigned char c) { return c < ' '; }, ' ');
        return said.empty() ? "" : text("; it said: ", said);
    }

    pid_t id_;
    Descriptor progress_, words_;
    Step step_ = Step::opening;
    std::optional<int> status_;
    bool is_late_ = false, is_gone_ = false;
    std::string said_;
};

/// The system has refused what a child needs; errno says why.
Error no_child(std::string_view what) {
    return failure(Errc::io, "cannot be tried in a child process: no ", what, " can be made (",
                   std::strerror(errno), "); HEDDLE_PLUGIN_TRIAL=0 loads it without a trial");
}

}  // namespace

Result<> try_loading(const std::filesystem::path& path, std::chrono::milliseconds limit) {
    auto progress = Pipe::make(), words = Pipe::make();
    if (!progress || !words) return no_child("pipe");
    const pid_t parent = getpid();
    pid_t id = -1;
    {
        const SignalsBlocked while_forking;  // the child has none of the program's handlers run
        id = fork();
        if (id == 0) {
            run_child(path.c_str(), progress->writing.number(), words->writing.number(), parent);
        }
    }
    if (id < 0) return no_child("process");
    progress->writing.close();
    words->writing.close();
    Child child(id, std::move(progress->reading), std::move(words->reading));
    child.watch(limit);
    return child.verdict(limit);
}

}  // namespace heddle
