// What is made when it is first asked for - lists of kernels, registrations, pools, tables - while
// allocations fail. Every attempt needs a process of its own.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "heddle/plugins.h"
#include "tests/faults/points_table.hpp"
#include "tests/faults/small_model.hpp"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

constexpr char kPointVariable[] = "HEDDLE_TEST_FAULT";  // "KIND NUMBER"
constexpr long kMostPoints = 5000;

/// Touches everything once.
void use_everything(Run& run) {
    run.worked("counting devices", [] { return ggml_backend_dev_count() > 0; });
    run.worked("the processor",
               [] { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) != nullptr; });
    run.worked("counting records", [] { return heddle_plugin_count() > 0; });
    const ggml_backend_ptr stream(run.made("a stream", [] { return ggml_backend_cpu_init(); }));
    run.done("threads", [&] { ggml_backend_cpu_set_n_threads(stream.get(), 2); });
    const SmallModel model(run);
    const ggml_backend_buffer_ptr buffer(run.made(
        "memory", [&] { return ggml_backend_alloc_ctx_tensors(model.context(), stream.get()); }));
    model.fill(run);
    run.succeeded("computing",
                  [&] { return ggml_backend_graph_compute(stream.get(), model.graph()); });
    static const std::array<float, 256> zeros{}, ones = [] {
        std::array<float, 256> values;
        values.fill(1);
        return values;
    }();
    std::array<char, 512> encoded;
    run.worked("quantisation", [&] {
        return ggml_quantize_chunk(GGML_TYPE_IQ3_S, zeros.data(), encoded.data(), 0, 1, 256,
                                   ones.data()) > 0;
    });
    run.expect("the result is there", model.result()->data != nullptr);
}

/// Runs this program again with that point failing; gives its exit status, -1 for a crash.
int run_alone(Kind kind, long number) {
    const std::string point = std::to_string(static_cast<int>(kind)) + " " + std::to_string(number);
    const pid_t child = fork();
    if (child == 0) {
        setenv(kPointVariable, point.c_str(), 1);
        const int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDOUT_FILENO);
        execl("/proc/self/exe", "faults_test", static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// In a program that was started by the test below: runs the scenario and leaves.
class Alone : public testing::Environment {
    void SetUp() override {
        const char* point = std::getenv(kPointVariable);
        if (point == nullptr) return;
        char* rest = nullptr;
        const auto kind = static_cast<Kind>(std::strtol(point, &rest, 10));
        std::_Exit(first_use(use_everything, kind, std::strtol(rest, nullptr, 10)));
    }
};

[[maybe_unused]] testing::Environment* const alone =
    testing::AddGlobalTestEnvironment(new Alone);  // GoogleTest deletes it

class FirstUse : public testing::TestWithParam<Kind> {};

TEST_P(FirstUse, SurvivesEveryFailure) {
    int failures = 0;
    for (long number = 1; number < kMostPoints && failures < 5; ++number) {
        const int status = run_alone(GetParam(), number);
        if (status == nothing_failed) return record_points(GetParam(), number - 1);
        EXPECT_EQ(status, survived) << name_of(GetParam()) << " " << number << ", " << ++failures;
    }
    FAIL() << "no end after " << kMostPoints << " points, or too many failures";
}

INSTANTIATE_TEST_SUITE_P(EveryKind, FirstUse, testing::ValuesIn(kSystemKinds),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace heddle::faults
