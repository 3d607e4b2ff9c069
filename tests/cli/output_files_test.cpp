#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "model_test.hpp"

/// Files that the program writes: whole or not at all, and nothing else is touched.
namespace heddle::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::string>;

class OutputFiles : public ModelTest {
protected:
    std::vector<std::string> files() const { return directory_.files(); }

    /// Every way to write a file, to `to`.
    std::vector<Words> calls_to(const std::string& to) const {
        return {{"quantize", model_, to, "Q8_0"},
                {"explain", model_, "--dot", to},
                {"explain", model_, "--html", to},
                {"explain", model_, "--run", "--trace", to},
                {"run", model_, "-p", "a", "-n", "1", "--html", to}};
    }

    /// A device like the system's own, which a mistake could replace; "" where none can be made.
    std::string device(const std::string& name, unsigned minor) const {
        if (mknod(path(name).c_str(), S_IFCHR | 0666, makedev(1, minor)) != 0) return "";
        const int file = open(path(name).c_str(), O_WRONLY);
        if (file < 0) return "";
        close(file);
        return path(name);
    }

    static void limit_file_size() {
        const rlimit limit{30'000, 30'000};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
};

TEST_F(OutputFiles, GoThroughDevices) {
    std::string null = device("null", 3), full = device("full", 7);
    // Whoever may not make devices may not replace the system's either.
    if (null.empty()) null = "/dev/null";
    if (full.empty()) full = "/dev/full";
    const auto before = files();
    for (const Words& call : calls_to(null)) {
        const Outcome outcome = heddle(call);
        EXPECT_EQ(outcome.status, 0) << testing::PrintToString(call) << outcome.err;
        EXPECT_TRUE(fs::is_character_file(null));
    }
    for (const Words& call : calls_to(full)) {
        const Outcome outcome = heddle(call);
        EXPECT_EQ(outcome.status, 1) << testing::PrintToString(call);
        EXPECT_THAT(outcome.err, HasSubstr(full + ": cannot be written: No space left on device"));
        EXPECT_TRUE(fs::is_character_file(full));
    }
    EXPECT_EQ(files(), before);
}

TEST_F(OutputFiles, GoThroughAFifo) {
    ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
    for (const Words& call : calls_to(path("fifo"))) {
        std::string read;
        std::thread reader([&] { read = content_of(path("fifo")); });
        const Outcome outcome = heddle(call);
        reader.join();
        EXPECT_EQ(outcome.status, 0) << testing::PrintToString(call) << outcome.err;
        EXPECT_GT(read.size(), 1000u);
        EXPECT_TRUE(fs::is_fifo(path("fifo")));
    }
}

TEST_F(OutputFiles, AModelCanGoIntoAPipe) {
    const Outcome file = heddle({"quantize", model_, path("q8.gguf"), "Q8_0"});
    ASSERT_EQ(file.status, 0) << file.err;
    const Outcome printed = heddle({"quantize", model_, "/dev/stdout", "Q8_0"});
    EXPECT_EQ(printed.status, 0) << printed.err;
    EXPECT_TRUE(printed.out == content_of(path("q8.gguf"))) << printed.out.size();
    EXPECT_THAT(printed.err, HasSubstr("15 of 20 tensors changed"));
}

TEST_F(OutputFiles, ReplaceWhatALinkLeadsTo) {
    fs::create_directory(path("folder"));
    write_content(path("folder/real"), "old");
    fs::create_symlink("folder/real", path("link"));
    for (const Words& call : calls_to(path("link"))) {
        ASSERT_EQ(heddle(call).status, 0);
        EXPECT_TRUE(fs::is_symlink(path("link")));
        EXPECT_GT(fs::file_size(path("folder/real")), 1000u);
    }
}

TEST_F(OutputFiles, FollowNoPlantedLinks) {
    write_content(path("victim"), "precious");
    fs::create_symlink("victim", path("new.unfinished"));
    fs::create_symlink("victim", path("new.attempt"));
    for (const Words& call : calls_to(path("new"))) {
        ASSERT_EQ(heddle(call).status, 0);
        EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path("new"))));
        EXPECT_EQ(content_of(path("victim")), "precious");
        fs::remove(path("new"));
    }
}

TEST_F(OutputFiles, KeepTheModeOfWhatTheyReplace) {
    for (const Words& call : calls_to(path("secret"))) {
        write_content(path("secret"), "old");
        ASSERT_EQ(chmod(path("secret").c_str(), 0600), 0);
        ASSERT_EQ(heddle(call).status, 0);
        struct stat status {};
        ASSERT_EQ(stat(path("secret").c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777, 0600u);
        EXPECT_GT(status.st_size, 1000);
    }
}

TEST_F(OutputFiles, AreLeftAsTheyWereWhenTheDiskIsFull) {
    write_content(path("old"), "old");
    const auto before = files();
    for (const char* name : {"old", "new"}) {
        const Outcome outcome =
            heddle_after(limit_file_size, {"quantize", model_, path(name), "F16"});
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err, "heddle quantize: " + path(name) +
                                   ": cannot be written: File too large after 30000 bytes\n");
        EXPECT_EQ(files(), before);
        EXPECT_EQ(content_of(path("old")), "old");
    }
}

/// A terminal that takes no more text: whoever writes to it stands still until a signal comes.
class StoppedTerminal {
public:
    StoppedTerminal() : master_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
        if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) return;
        terminal_ = open(ptsname(master_), O_RDWR | O_NOCTTY | O_CLOEXEC);
        EXPECT_EQ(tcflow(terminal_, TCOOFF), 0);
    }
    ~StoppedTerminal() {
        close(terminal_);
        close(master_);
    }
    StoppedTerminal(const StoppedTerminal&) = delete;
    StoppedTerminal& operator=(const StoppedTerminal&) = delete;

    int descriptor() const { return terminal_; }

private:
    int master_, terminal_ = -1;
};

TEST_F(OutputFiles, AreTakenAwayWhenASignalEndsTheProgram) {
    const auto has_temporary = [&] {
        for (const std::string& name : files()) {
            if (name.starts_with(".heddle-")) return true;
        }
        return false;
    };
    const auto before = files();
    const std::string input = model_, output = path("new.gguf");
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        const StoppedTerminal terminal;
        const pid_t child = fork();
        if (child == 0) {
            // The line of progress, behind the first bytes of the file, stops the program.
            dup2(terminal.descriptor(), STDERR_FILENO);
            execl(HEDDLE_PROGRAM, HEDDLE_PROGRAM, "quantize", input.c_str(), output.c_str(), "Q8_0",
                  static_cast<char*>(nullptr));
            _exit(127);
        }
        while (!has_temporary() && waitpid(child, nullptr, WNOHANG) == 0) usleep(1000);
        EXPECT_TRUE(has_temporary());
        kill(child, number);
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
        EXPECT_EQ(files(), before);
    }
}

}  // namespace
}  // namespace heddle::cli_test
