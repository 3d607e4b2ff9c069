#include "core/whole_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace heddle {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class WholeFileTest : public testing::Test {
protected:
    WholeFileTest() {
        std::string name = (fs::temp_directory_path() / "heddle-file-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << name << ": cannot be made";
        root_ = name;
    }
    ~WholeFileTest() override { fs::remove_all(root_); }

    std::string path(const std::string& name) const { return (root_ / name).string(); }
    std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(root_)) {
            names.push_back(entry.path().filename().string());
        }
        std::ranges::sort(names);
        return names;
    }
    static std::string content(const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    static void put(const std::string& path, const std::string& text) {
        std::ofstream(path, std::ios::binary) << text;
    }
    static mode_t mode_of(const std::string& path) {
        struct stat status {};
        EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
        return status.st_mode & 07777;
    }

    /// A device like the system's own, which a mistake of ours could replace.
    std::string device(const std::string& name, unsigned minor) const {
        if (mknod(path(name).c_str(), S_IFCHR | 0666, makedev(1, minor)) != 0)
            return "/dev/" + name;
        const int file = open(path(name).c_str(), O_WRONLY);
        if (file < 0) return "/dev/" + name;  // this file system has none
        close(file);
        return path(name);
    }

    /// How a child that runs `body` ends: what it exits with, or 128 and the signal.
    static int ending_of(const std::function<int()>& body) {
        const pid_t child = fork();
        if (child == 0) _exit(body());
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

private:
    fs::path root_;
};

TEST_F(WholeFileTest, HasItsNameOnlyWhenItIsFinished) {
    const std::string text(200'000, 'x');
    {
        auto file = WholeFile::create(path("a"));
        ASSERT_TRUE(file) << file.error().message;
        ASSERT_TRUE(file->write(text));
        EXPECT_FALSE(fs::exists(path("a")));
        ASSERT_TRUE(file->finish());
        EXPECT_EQ(content(path("a")), text);
    }
    EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(WholeFileTest, LeavesWhatWasThereWhenItIsGivenUp) {
    put(path("a"), "old");
    {
        auto file = WholeFile::create(path("a"));
        ASSERT_TRUE(file);
        ASSERT_TRUE(file->write(std::string(200'000, 'x')));
    }
    EXPECT_EQ(content(path("a")), "old");
    EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(WholeFileTest, HasTheModeOfTheFileItReplaces) {
    put(path("a"), "old");
    for (const mode_t mode : {0600, 0640, 0666, 0755}) {
        ASSERT_EQ(chmod(path("a").c_str(), mode), 0);
        ASSERT_TRUE(write_whole_file(path("a"), "new"));
        EXPECT_EQ(mode_of(path("a")), mode);
    }
}

TEST_F(WholeFileTest, HasTheModeThatTheUmaskLeavesWhereItIsNew) {
    const mode_t before = umask(0027);
    const auto written = write_whole_file(path("a"), "new");
    umask(before);
    ASSERT_TRUE(written);
    EXPECT_EQ(mode_of(path("a")), 0640u);
}

TEST_F(WholeFileTest, ReplacesTheFileThatLinksLeadTo) {
    fs::create_directory(path("folder"));
    put(path("folder/real"), "old");
    fs::create_symlink("folder/real", path("first"));
    fs::create_symlink(path("first"), path("second"));
    fs::create_symlink("folder/fresh", path("dangling"));
    ASSERT_TRUE(write_whole_file(path("second"), "new"));
    EXPECT_EQ(content(path("folder/real")), "new");
    ASSERT_TRUE(write_whole_file(path("dangling"), "born"));
    EXPECT_EQ(content(path("folder/fresh")), "born");
    for (const char* link : {"first", "second", "dangling"}) {
        EXPECT_TRUE(fs::is_symlink(path(link))) << link;
    }
}

TEST_F(WholeFileTest, RefusesWhatIsNoFile) {
    fs::create_symlink("loop", path("loop"));
    fs::create_directory(path("folder"));
    const auto refusal = [&](const std::string& name) {
        auto written = write_whole_file(name, "x");
        return written ? "" : written.error().message;
    };
    EXPECT_EQ(refusal(path("loop")),
              path("loop") + ": cannot be written: Too many levels of symbolic links");
    EXPECT_EQ(refusal(path("folder")), path("folder") + ": cannot be written: Is a directory");
    EXPECT_EQ(refusal(path("new/")), path("new/") + ": cannot be written: is no name of a file");
    EXPECT_EQ(refusal(path("no/such")),
              path("no/such") + ": cannot be written: No such file or directory");
    EXPECT_EQ(refusal(""), ": cannot be written: is no name of a file");
    EXPECT_FALSE(WholeFile::check(path("folder")));
    EXPECT_FALSE(WholeFile::check(path("no/such")));
    EXPECT_TRUE(WholeFile::check(path("new")));
    EXPECT_THAT(names(), ElementsAre("folder", "loop"));
}

TEST_F(WholeFileTest, GoesThroughDevices) {
    const std::string null = device("null", 3), full = device("full", 7);
    ASSERT_TRUE(write_whole_file(null, "x"));
    EXPECT_TRUE(fs::is_character_file(null));
    EXPECT_TRUE(WholeFile::check(null));
    fs::create_symlink(full, path("link"));
    const auto written = write_whole_file(path("link"), std::string(371, 'x'));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().message,
              path("link") + ": cannot be written: No space left on device after 0 bytes");
    EXPECT_TRUE(fs::is_character_file(full));
    EXPECT_TRUE(fs::is_symlink(path("link")));
}

TEST_F(WholeFileTest, GoesThroughAFifo) {
    ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
    EXPECT_TRUE(WholeFile::check(path("fifo")));  // waits for no reader
    const std::string text(300'000, 'y');
    std::string read;
    std::thread reader([&] { read = content(path("fifo")); });
    const auto written = write_whole_file(path("fifo"), text);
    reader.join();
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(read, text);
    EXPECT_TRUE(fs::is_fifo(path("fifo")));
}

TEST_F(WholeFileTest, GoesOnWhereTheOutputOfTheProgramIs) {
    std::fflush(stdout);  // or the child may write what this process has not
    const int status = ending_of([&] {
        const int file = open(path("out").c_str(), O_WRONLY | O_CREAT, 0600);
        if (dup2(file, STDOUT_FILENO) < 0) return 2;
        if (write(STDOUT_FILENO, "one ", 4) != 4) return 3;
        if (!write_whole_file("/dev/stdout", "two ")) return 4;
        return write(STDOUT_FILENO, "three", 5) == 5 ? 0 : 5;
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(content(path("out")), "one two three");
}

TEST_F(WholeFileTest, SaysHowManyBytesAFullDiskTook) {
    put(path("a"), "old");
    const int status = ending_of([&] {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{100'000, 100'000};
        setrlimit(RLIMIT_FSIZE, &limit);
        const auto written = write_whole_file(path("a"), std::string(371'000, 'x'));
        if (written) return 2;
        return written.error().message ==
                       path("a") + ": cannot be written: File too large after 100000 bytes"
                   ? 0
                   : 3;
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(content(path("a")), "old");
    EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(WholeFileTest, IsWrittenInPlaceWhereTheFolderTakesNoFiles) {
    const int status = ending_of([&] {
        // For root nothing is forbidden.
        if (getuid() == 0 && (chown(path("").c_str(), 65534, 65534) != 0 || setuid(65534) != 0)) {
            return 2;
        }
        put(path("a"), "old and longer");
        if (chmod(path("").c_str(), 0500) != 0) return 3;
        const bool refused = !write_whole_file(path("new"), "x");
        const bool written = bool(write_whole_file(path("a"), "new"));
        chmod(path("a").c_str(), 0400);
        const bool kept = !write_whole_file(path("a"), "newer");
        return refused && written && kept ? 0 : 4;
    });
    EXPECT_EQ(status, 0);
    chmod(path("").c_str(), 0700);
    EXPECT_EQ(content(path("a")), "new");
    EXPECT_THAT(names(), ElementsAre("a"));
}

UnfinishedFiles& unfinished() {
    static UnfinishedFiles names;
    return names;
}

TEST_F(WholeFileTest, CanBeTakenAwayByASignalHandler) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        unfinished();
        std::signal(SIGTERM, [](int) {
            unfinished().unlink_all();
            _exit(7);
        });
        auto finished = WholeFile::create(path("first"), &unfinished());
        auto begun = WholeFile::create(path("second"), &unfinished());
        if (!finished || !begun || !finished->finish()) _exit(2);
        if (!begun->write(std::string(200'000, 'x')) || write(ready[1], "r", 1) != 1) _exit(3);
        for (;;) pause();
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(names().size(), 2u);
    kill(child, SIGTERM);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_THAT(names(), ElementsAre("first"));
    close(ready[0]);
    close(ready[1]);
}

}  // namespace
}  // namespace heddle
