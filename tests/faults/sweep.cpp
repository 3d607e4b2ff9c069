#include "tests/faults/sweep.hpp"

#include <execinfo.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tests/faults/faulty_devices.hpp"
#include "tests/faults/held.hpp"
#include "tests/faults/points_table.hpp"

namespace heddle::faults {
namespace {

/// A run takes milliseconds; one that takes this long hangs.
constexpr unsigned kMostSeconds = 60;

/// After so many failures of one sweep the rest says nothing new.
constexpr int kMostFailures = 5;

/// All points up to this one, whatever the hurry.
constexpr long kFirstPoints = 400;

/// One way through all points of a kind.
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

/// A copy or a node fails once; a device that is lost stays so.
bool applies(const Pass& pass, Kind kind) {
    if (!is_planned(kind)) return true;
    return (pass.fault == Fault::from_then_on) == (kind == Kind::device_lost);
}

const char* current_pass = "";
const char* current_kind = "";
long current_number = 0;
bool planned_failure = false;

bool begin_fault(Kind kind, long number, Fault fault) {
    planned_failure = is_planned(kind) && plan_failure(kind, number);
    if (is_planned(kind)) return planned_failure;
    arm(kind, number, fault);
    return true;
}

void end_fault() {
    disarm();
    if (planned_failure) mend_devices();
}

bool has_failed() { return planned_failure || fired(); }

/// Says where a crash or a hang happened before it ends the program as it would have.
void tell_and_die(int signal) {
    disarm();
    char line[200];
    const int length = std::snprintf(line, sizeof line, "signal %d at %s %ld (%s)\n", signal,
                                     current_kind, current_number, current_pass);
    if (length > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) > 0) {
        print_failed_point();
        void* frames[40];
        backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
    }
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void ignore_message(ggml_log_level, const char*, void*) {}

void prepare() {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set(ignore_message, nullptr);
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGALRM}) std::signal(signal, tell_and_die);
    arm(Kind::memory, 1, Fault::once);  // the first backtrace loads the unwinder
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
        end_fault();
        ADD_FAILURE() << "an exception came out of the library: " << exception.what();
        print_failed_point();
    }
    return false;
}

/// What the first use of a thing allocates and keeps, the first failure included, is there
/// afterwards.
void warm_up(Scenario scenario, Kind kind) {
    current_pass = "nothing fails";
    EXPECT_TRUE(completes(scenario, Answer::gives_up));
    current_pass = "warming up";
    if (begin_fault(kind, 1, Fault::once)) completes(scenario, Answer::gives_up);
    end_fault();
    EXPECT_TRUE(completes(scenario, Answer::gives_up));
}

/// One faulty run and the one after it. False when no point was left to fail.
bool strike(Scenario scenario, Kind kind, const Pass& pass, long number) {
    current_number = number;
    alarm(kMostSeconds);
    if (!begin_fault(kind, number, pass.fault)) return false;
    completes(scenario, pass.answer);
    const bool has_struck = has_failed();
    end_fault();
    EXPECT_TRUE(completes(scenario, Answer::gives_up)) << "after the fault";
    alarm(0);
    return has_struck;
}

/// The same, and nothing may be left over. What a first failure makes and keeps, such as room for a
/// longer sentence, is not made again by a second one.
bool strike_without_loss(Scenario scenario, Kind kind, const Pass& pass, long number) {
    bool has_struck = false;
    std::string difference;
    for (int attempt = 0; attempt < 2; ++attempt) {
        const Held before = Held::now();
        has_struck = strike(scenario, kind, pass, number);
        difference = held_after(before).difference_to(before);
        if (difference.empty()) return has_struck;
    }
    ADD_FAILURE() << "something is left over: " << difference;
    return has_struck;
}

/// All points of one kind, each in one way. Gives how many there were to fail.
long sweep_pass(Scenario scenario, Kind kind, const Pass& pass, int& failures) {
    current_pass = pass.name;
    long struck = 0;
    const auto* result = testing::UnitTest::GetInstance()->current_test_info()->result();
    for (long number = first_point(); failures < kMostFailures;
         number = next_point(number, kFirstPoints)) {
        SCOPED_TRACE(std::string(pass.name) + ", " + name_of(kind) + " " + std::to_string(number));
        const int before = result->total_part_count();
        const bool is_left = strike_without_loss(scenario, kind, pass, number);
        if (result->total_part_count() != before) {
            ++failures;
            print_failed_point();
        }
        if (!is_left) break;
        ++struck;
    }
    return struck;
}

}  // namespace

void Run::expect(const char* what, bool holds) {
    if (holds) return;
    end_fault();
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
    if (!has_failed()) {
        end_fault();
        ADD_FAILURE() << what << " failed though nothing was made to: " << heddle_last_error();
        throw GaveUp{};
    }
    if (*heddle_last_error() == '\0') {
        end_fault();
        ADD_FAILURE() << what << " failed and left no sentence";
        throw GaveUp{};
    }
    if (answer_ == Answer::gives_up) throw GaveUp{};
}

void Run::failed_again(const char* what) {
    end_fault();
    ADD_FAILURE() << what << " failed again: " << heddle_last_error();
    throw GaveUp{};
}

FirstUse first_use(Scenario scenario, Kind kind, long number) {
    prepare();
    current_kind = name_of(kind);
    current_number = number;
    alarm(kMostSeconds);
    arm(kind, number, Fault::once);
    completes(scenario, Answer::gives_up);
    disarm();
    if (!fired()) return nothing_failed;
    return completes(scenario, Answer::gives_up) && !testing::Test::HasFailure() ? survived
                                                                                 : went_wrong;
}

void sweep(Scenario scenario, std::span<const Kind> kinds) {
    prepare();
    int failures = 0;
    for (const Kind kind : kinds) {
        current_kind = name_of(kind);
        warm_up(scenario, kind);
        long points = 0;
        for (const Pass& pass : kPasses) {
            if (applies(pass, kind)) points += sweep_pass(scenario, kind, pass, failures);
        }
        record_points(kind, points);
    }
    ggml_log_set(nullptr, nullptr);
    heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
}

void sweep_with_devices(Scenario scenario) {
    configure_devices(true);
    prepare();
    current_kind = "no kind";
    EXPECT_TRUE(completes(scenario, Answer::gives_up));
    take_record();
    configure_devices();
    sweep(scenario);
    sweep(scenario, kDeviceKinds);
}

}  // namespace heddle::faults
