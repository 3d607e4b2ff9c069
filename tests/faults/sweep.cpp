#include "tests/faults/sweep.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tests/faults/allocation_faults.hpp"

namespace heddle::faults {
namespace {

/// A run takes milliseconds; one that takes this long hangs.
constexpr unsigned kMostSeconds = 60;

/// After so many failures of one sweep the rest says nothing new.
constexpr int kMostFailures = 5;

/// One way through all allocations.
struct Pass {
    const char* name;
    Fault fault;
    Answer answer;
};

constexpr Pass kPasses[] = {
    {"fails once, caller gives up", Fault::once, Answer::gives_up},
    {"fails once, caller tries again", Fault::once, Answer::tries_again},
    {"fails from then on", Fault::from_then_on, Answer::gives_up},
};

const char* current_pass = "";
long current_number = 0;

/// Says where a crash or a hang happened before it ends the program as it would have.
void tell_and_die(int signal) {
    char line[200];
    const int length = std::snprintf(line, sizeof line, "signal %d at allocation %ld (%s)\n",
                                     signal, current_number, current_pass);
    if (length > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) > 0) {
        print_failed_allocation();
    }
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void ignore_message(ggml_log_level, const char*, void*) {}

void prepare() {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set(ignore_message, nullptr);
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGALRM}) std::signal(signal, tell_and_die);
    arm(1, Fault::once);  // the first backtrace loads the unwinder
    std::free(std::malloc(1));
    disarm();
}

/// Runs the scenario; false if it gave up.
bool completes(Scenario scenario, Answer answer) {
    try {
        Run run(answer);
        scenario(run);
        return true;
    } catch (const GaveUp&) {
    } catch (const std::exception& exception) {
        disarm();
        ADD_FAILURE() << "an exception came out of the library: " << exception.what();
        print_failed_allocation();
    }
    return false;
}

/// What the first use of a thing allocates and keeps, the first failure included, is there
/// afterwards.
void warm_up(Scenario scenario) {
    current_pass = "nothing fails";
    EXPECT_TRUE(completes(scenario, Answer::gives_up));
    current_pass = "warming up";
    arm(1, Fault::once);
    completes(scenario, Answer::gives_up);
    disarm();
    EXPECT_TRUE(completes(scenario, Answer::gives_up));
}

/// One faulty run and the one after it. False when no allocation was left to fail.
bool strike(Scenario scenario, const Pass& pass, long number) {
    const long blocks = live_blocks();
    current_number = number;
    alarm(kMostSeconds);
    arm(number, pass.fault);
    completes(scenario, pass.answer);
    disarm();
    EXPECT_TRUE(completes(scenario, Answer::gives_up)) << "after the fault";
    alarm(0);
    EXPECT_EQ(live_blocks(), blocks) << "blocks are left over";
    return fired();
}

}  // namespace

void Run::expect(const char* what, bool holds) {
    if (holds) return;
    disarm();
    ADD_FAILURE() << what;
    throw GaveUp{};
}

void Run::expect_near(const char* what, std::span<const float> values,
                      std::span<const float> expected) {
    bool near = values.size() == expected.size();
    for (std::size_t i = 0; near && i < values.size(); ++i) {
        near = std::abs(values[i] - expected[i]) <= 1e-4f * (1 + std::abs(expected[i]));
    }
    expect(what, near);
}

void Run::failed(const char* what) {
    if (!fired()) {
        disarm();
        ADD_FAILURE() << what << " failed though no allocation did: " << heddle_last_error();
        throw GaveUp{};
    }
    expect("a failure left no sentence", *heddle_last_error() != '\0');
    if (answer_ == Answer::gives_up) throw GaveUp{};
}

void Run::failed_again(const char* what) {
    disarm();
    ADD_FAILURE() << what << " failed again: " << heddle_last_error();
    throw GaveUp{};
}

FirstUse first_use(Scenario scenario, long number) {
    prepare();
    current_number = number;
    alarm(kMostSeconds);
    arm(number, Fault::once);
    completes(scenario, Answer::gives_up);
    disarm();
    if (!fired()) return nothing_failed;
    return completes(scenario, Answer::gives_up) && !testing::Test::HasFailure() ? survived
                                                                                 : went_wrong;
}

void sweep(Scenario scenario) {
    prepare();
    int failures = 0;
    warm_up(scenario);
    for (const Pass& pass : kPasses) {
        current_pass = pass.name;
        long number = 1;
        for (bool is_left = true; is_left && failures < kMostFailures; ++number) {
            SCOPED_TRACE(std::string(pass.name) + ", allocation " + std::to_string(number));
            const auto* result = testing::UnitTest::GetInstance()->current_test_info()->result();
            const int before = result->total_part_count();
            is_left = strike(scenario, pass, number);
            if (result->total_part_count() == before) continue;
            ++failures;
            print_failed_allocation();
        }
        std::printf("%s: %ld allocations\n", pass.name, number - 2);
    }
    ggml_log_set(nullptr, nullptr);
    heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
}

}  // namespace heddle::faults
