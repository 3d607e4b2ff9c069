#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "case_file.hpp"
#include "settings.hpp"
#include "shrink.hpp"

namespace heddle::campaign {

Settings& settings() {
    static Settings all;
    return all;
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- choices -----------------------------------------------------------------------------------

std::vector<std::int64_t> draw(Choices& choices) {
    return {
        choices.below(10),      choices.between(-5, 5), choices.between(INT64_MIN, INT64_MAX),
        choices.between(7, 3),  choices.one_in(3),      static_cast<std::int64_t>(choices.bits()),
        choices.pick({1, 2, 3})};
}

TEST(Choices, AreTheSameForTheSameSeedAndWhenReplayed) {
    Choices first(42), second(42);
    const auto drawn = draw(first);
    EXPECT_EQ(draw(second), drawn);
    Choices replayed(first.made());
    EXPECT_EQ(draw(replayed), drawn);
    EXPECT_EQ(replayed.made(), first.made());
}

TEST(Choices, AreTheSimplestWhereAReplayHasRunOut) {
    Choices none(std::vector<std::uint32_t>{});
    EXPECT_THAT(draw(none), ElementsAre(0, -5, INT64_MIN, 7, 0, 0, 1));
    EXPECT_EQ(none.below(0), 0U);
}

TEST(Choices, StayWithinTheirRange) {
    Choices choices(1);
    for (int i = 0; i < 1000; ++i) {
        EXPECT_LT(choices.below(3), 3U);
        const std::int64_t number = choices.between(-2, 2);
        EXPECT_TRUE(-2 <= number && number <= 2) << number;
        EXPECT_TRUE(choices.one_in(1));
    }
}

// ---- workers -----------------------------------------------------------------------------------

/// Passes until a choice is 17 or more; then it does what its name says.
bool strikes(Choices& choices, Trace& trace) {
    for (int i = 0; i < 20; ++i) {
        const std::uint32_t choice = choices.below(25);
        trace.line("choice ", choice);
        if (choice >= 17) return true;
    }
    return false;
}

std::string crash(Choices& choices, Trace& trace) {
    if (strikes(choices, trace)) raise(SIGFPE);
    return {};
}
std::string hang(Choices& choices, Trace& trace) {
    while (strikes(choices, trace)) usleep(1000);
    return {};
}
std::string end(Choices& choices, Trace& trace) {
    if (strikes(choices, trace)) _exit(7);
    return {};
}
std::string be_wrong(Choices& choices, Trace& trace) {
    return strikes(choices, trace) ? text("case ", getpid(), " is wrong\nin all its parts") : "";
}
std::string leak(Choices& choices, Trace& trace) {
    static std::vector<void*> lost(1000);  // where no checker of leaks is looking for them
    static std::size_t count = 0;
    if (strikes(choices, trace)) lost[count++] = std::malloc(10);
    return {};
}
std::string fill_a_cache(Choices&, Trace&) {
    static const std::string cache(100, 'x');
    return cache.empty() ? "empty" : "";
}

std::optional<Failure> first_failure(const Door& door) {
    Worker worker;
    const auto tallies = std::make_unique<Tally>();
    // Counted by the child in memory of its own: the parent's stays as it is.
    return worker.run(door, {.first_seed = 1, .cases = 100}, *tallies);
}

TEST(Worker, TellsHowACaseEnded) {
    auto failure = first_failure({"crash", "", 5, crash});
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, Failure::Kind::crashed);
    EXPECT_EQ(failure->code, SIGFPE);
    EXPECT_THAT(failure->summary(), HasSubstr("SIGFPE"));
    EXPECT_FALSE(failure->choices.empty());

    failure = first_failure({"hang", "", 1, hang});
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, Failure::Kind::hung);

    failure = first_failure({"end", "", 5, end});
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, Failure::Kind::ended);
    EXPECT_EQ(failure->code, 7);

    failure = first_failure({"wrong", "", 5, be_wrong});
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, Failure::Kind::wrong);
    EXPECT_EQ(failure->cause(), "case # is wrong");
}

TEST(Worker, FindsHeapThatIsLeftOverEachTimeButNotCaches) {
    const auto failure = first_failure({"leak", "", 5, leak});
    ASSERT_TRUE(failure);
    EXPECT_THAT(failure->what, HasSubstr("left over each time"));
    EXPECT_FALSE(first_failure({"cache", "", 5, fill_a_cache}));
}

TEST(Shrink, LeavesTheSmallestCaseThatFailsOfTheSameCause) {
    Worker worker;
    const Door door{"crash", "", 5, crash};
    const auto failure = first_failure(door);
    ASSERT_TRUE(failure);
    const auto smaller = shrink(worker, door, *failure, 200, std::chrono::seconds(60));
    ASSERT_TRUE(smaller);
    EXPECT_THAT(smaller->choices, ElementsAre(17));
    EXPECT_EQ(smaller->trace, "choice 17\n");
    EXPECT_EQ(smaller->seed, failure->seed);
}

TEST(Shrink, SaysSoWhenACaseFailsNoMore) {
    Worker worker;
    const Door door{"cache", "", 5, fill_a_cache};
    EXPECT_FALSE(shrink(worker, door, Failure{}, 200, std::chrono::seconds(60)));
}

// ---- files -------------------------------------------------------------------------------------

class CaseFileOf : public testing::TestWithParam<std::uint32_t> {};  // so many choices

TEST_P(CaseFileOf, IsReadAsItWasWritten) {
    const Door door{"crash", "", 5, crash};
    Failure failure;
    failure.seed = 9, failure.what = "value 3 is not 4\nsecond line", failure.trace = "x = 1\n";
    for (std::uint32_t i = 0; i < GetParam(); ++i) failure.choices.push_back(i * 0x1234567U);
    const auto path = std::filesystem::temp_directory_path() /
                      text("campaign-", getpid(), "-", file_name(door, failure));
    std::ofstream(path) << to_text(door, failure);
    const auto read = read_case(path);
    std::filesystem::remove(path);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->door, "crash");
    EXPECT_EQ(read->what, "value 3 is not 4");
    EXPECT_EQ(read->seed, 9U);
    EXPECT_EQ(read->choices, failure.choices);

    failure.what = "value 77 is not 8";  // only the numbers differ
    EXPECT_THAT(path.string(), HasSubstr(file_name(door, failure)));
}

INSTANTIATE_TEST_SUITE_P(Choices, CaseFileOf, testing::Values(0, 1, 10, 100));

TEST(CaseFile, IsRefusedIfItIsNone) {
    const auto path = std::filesystem::temp_directory_path() / text("campaign-", getpid());
    std::ofstream(path) << "something else\n";
    EXPECT_THAT(read_case(path).error().message, HasSubstr("its first line is 'something else'"));
    std::ofstream(path) << "heddle campaign case\nchoices: 1 x 3\n";
    EXPECT_THAT(read_case(path).error().message, HasSubstr("a choice is no number"));
    std::filesystem::remove(path);
    EXPECT_THAT(read_case(path).error().message, HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace heddle::campaign
