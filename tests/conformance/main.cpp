// Runs the rules. For `heddle conform` it also reports, line by line, how each one ended.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>

namespace {

/// Writes to the descriptor where `heddle conform` reads: "rules" and how many; for each "begin",
/// then "kept", "broken" or "none" (it does not apply), its name and why; "end". Tabs are between
/// them.
class RuleReporter : public testing::EmptyTestEventListener {
public:
    void OnTestProgramStart(const testing::UnitTest& all) override {
        report("rules", std::to_string(all.test_to_run_count()));
    }
    void OnTestProgramEnd(const testing::UnitTest&) override { report("end", ""); }
    void OnTestStart(const testing::TestInfo& rule) override {
        why_.clear();
        report("begin", name_of(rule));
    }
    void OnTestPartResult(const testing::TestPartResult& part) override {
        if (part.passed()) return;
        why_ += (why_.empty() ? "" : "; ") + std::string(part.message());
    }
    void OnTestEnd(const testing::TestInfo& rule) override {
        report(rule.result()->Skipped()  ? "none"
               : rule.result()->Passed() ? "kept"
                                         : "broken",
               name_of(rule));
        why_.clear();
    }

private:
    static constexpr int kReports = 3;

    static std::string name_of(const testing::TestInfo& rule) {
        return std::string(rule.test_suite_name()) + '.' + rule.name();
    }

    void report(const char* how, const std::string& subject) const {
        std::string why = why_;
        std::ranges::replace_if(
            why, [](char c) { return c == '\n' || c == '\t'; }, ' ');
        const std::string line = std::string(how) + '\t' + subject + '\t' + why + '\n';
        for (std::size_t done = 0; done < line.size();) {
            const ssize_t size = write(kReports, line.data() + done, line.size() - done);
            if (size <= 0) std::_Exit(EXIT_FAILURE);  // a report with a gap would pass for whole
            done += static_cast<std::size_t>(size);
        }
    }

    std::string why_;
};

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (std::getenv("HEDDLE_CONFORMANCE_ONLY") != nullptr) {
        const rlimit none{0, 0};
        setrlimit(RLIMIT_CORE, &none);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        testing::UnitTest::GetInstance()->listeners().Append(new RuleReporter);
    }
    return RUN_ALL_TESTS();
}
