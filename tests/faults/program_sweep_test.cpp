// The program `heddle` while its calls to the system fail, one after the other.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cli/program.hpp"
#include "tests/cli/small_model.hpp"
#include "tests/faults/fault_points.hpp"
#include "tests/faults/points_table.hpp"
#include "tests/faults/preloaded.hpp"
#include "tests/faults/shared_counter.hpp"

namespace heddle::faults {
namespace {

using cli_test::Directory;
using cli_test::Outcome;

constexpr long kFirstPoints = 12;  ///< all of them; later ones are drawn, unless all are asked for
constexpr int kMostFailures = 5;   ///< of one kind; the rest says nothing new
constexpr char kModel[] = "model.gguf";

constexpr Kind kKinds[] = {Kind::memory, Kind::mapping, Kind::open,    Kind::read,    Kind::write,
                           Kind::print,  Kind::thread,  Kind::process, Kind::library, Kind::symbol};

/// A command line. Words that begin with @ are files of the directory it runs in.
struct Command {
    const char* name;
    std::vector<std::string> words;
    /// What a complete text contains, where figures and descriptions in it may differ from run to
    /// run; its files then are the same in name and end.
    std::string mark = "";
    bool tells_in_text = false;  ///< failures may be part of the text that it was asked for
    friend void PrintTo(const Command& self, std::ostream* out) { *out << self.name; }
};

/// One line that says what failed, behind notes of files that were written.
bool is_one_sentence(std::string_view text) {
    while (text.starts_with("wrote "))
        text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
    return text.starts_with("heddle") && std::ranges::count(text, '\n') == 1;
}

class ProgramSweep : public testing::TestWithParam<Command> {
protected:
    ProgramSweep() : counter_(apart_.path("counter")) {
        setenv("LD_PRELOAD", HEDDLE_FAULTS_LIBRARY, 1);
        setenv(kReportVariable, report().c_str(), 1);
        setenv("OPENBLAS_NUM_THREADS", "1", 1);  // OpenBLAS tries for ever to get memory for more
        cli_test::SmallModel().write(here_.path(kModel));
        for (const std::string& word : GetParam().words) {
            words_.push_back(word[0] == '@' ? here_.path(word.substr(1)) : word);
        }
    }
    ~ProgramSweep() override { unsetenv("LD_PRELOAD"); }

    std::string report() const { return apart_.path("report"); }

    /// All files of the directory the program works in.
    std::map<std::string, std::string> files() const {
        std::map<std::string, std::string> all;
        for (const std::string& name : here_.files()) {
            const std::string content = cli_test::content_of(here_.path(name));
            const bool varies = !GetParam().mark.empty();
            all[name] = content.substr(varies ? std::max<std::size_t>(content.size(), 8) - 8 : 0);
        }
        return all;
    }

    void remove_results() {
        for (const std::string& name : here_.files()) {
            if (name != kModel) unlink(here_.path(name).c_str());
        }
    }

    /// What a run did not do that should have been done; empty if it did all.
    std::string missing(const Outcome& outcome) const {
        if (outcome.status != 0) return "its status";
        const std::string& mark = GetParam().mark;
        if (mark.empty() ? outcome.out != whole_.out
                         : outcome.out.find(mark) == std::string::npos) {
            return "its text";
        }
        return files() == whole_files_ ? "" : "its files";
    }

    /// A failure is one sentence and status 1. A file that is there all the same is whole.
    void check(const Outcome& outcome) const {
        const std::string what = missing(outcome);
        if (what.empty()) return;
        const bool is_line = is_one_sentence(outcome.err);
        const bool is_told = GetParam().tells_in_text && !outcome.out.empty();
        const bool is_sentence = outcome.status == 1 && (is_line || is_told);
        EXPECT_TRUE(is_sentence) << what << " is not as it should be: status " << outcome.status
                                 << "; it said: " << outcome.err
                                 << "\nand wrote: " << outcome.out.substr(0, 1000);
        for (const auto& [name, content] : files()) {
            const auto whole = whole_files_.find(name);
            EXPECT_TRUE(whole != whole_files_.end() && whole->second == content)
                << name << " is left over, and is not whole";
        }
    }

    /// One run with a fault. False if no point was left to fail.
    bool strike(Kind kind, long number, Fault fault) {
        unlink(report().c_str());
        arm(kind, number, fault);
        const Outcome outcome = cli_test::heddle(words_);
        const bool has_struck = fired();
        disarm();
        check(outcome);
        remove_results();
        return has_struck;
    }

    long sweep(Kind kind, Fault fault, int& failures) {
        long struck = 0;
        for (long number = first_point(); failures < kMostFailures;
             number = next_point(number, kFirstPoints)) {
            SCOPED_TRACE(std::string(name_of(kind)) + " " + std::to_string(number) +
                         (fault == Fault::once ? " once" : " from then on"));
            const int before = parts();
            const bool is_left = strike(kind, number, fault);
            if (parts() != before) {
                ++failures;
                std::printf("%s\n", cli_test::content_of(report()).c_str());
            }
            if (!is_left) break;
            ++struck;
        }
        return struck;
    }

    static int parts() {
        return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
    }

    const Directory apart_, here_;
    SharedCounter counter_;
    std::vector<std::string> words_;
    Outcome whole_;
    std::map<std::string, std::string> whole_files_;
};

TEST_P(ProgramSweep, SaysWhatFailedAndLeavesNothing) {
    whole_ = cli_test::heddle(words_);
    ASSERT_EQ(whole_.status, 0) << whole_.err;
    whole_files_ = files();
    remove_results();
    for (const Kind kind : kKinds) {
        int failures = 0;
        long points = 0;
        for (const Fault fault : {Fault::once, Fault::from_then_on}) {
            points += sweep(kind, fault, failures);
        }
        record_points(kind, points);
    }
    EXPECT_EQ(missing(cli_test::heddle(words_)), "") << "after all faults";
}

const Command kCommands[] = {
    {"run", {"run", "@model.gguf", "-p", "ab", "-n", "3", "--seed", "1", "-t", "2", "-q"}},
    {"run_mapped",
     {"run", "@model.gguf", "-p", "ab", "-n", "3", "--seed", "1", "-t", "2", "-q", "--mapped"}},
    {"run_on_sim",
     {"run", "@model.gguf", "-p", "ab", "-n", "3", "--seed", "1", "-q", "-d", "sim:devices=2"}},
    {"quantize", {"quantize", "@model.gguf", "@out.gguf", "Q8_0", "-t", "2"}},
    {"explain", {"explain", "@model.gguf", "-d", "sim", "--html", "@out.html"}, "placed by rules"},
    {"inspect", {"inspect", "@model.gguf"}},
    {"devices", {"devices"}, "CPU"},
    {"bench", {"bench", "sched", "--quick"}, "ns"},
    {"verify", {"verify", "-d", "sim", "--op", "ADD", "--isolate"}, "40 passed, 0 failed", true},
};

INSTANTIATE_TEST_SUITE_P(Commands, ProgramSweep, testing::ValuesIn(kCommands),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace heddle::faults
