// What is made when it is first asked for - lists of kernels, registrations, pools, tables - while
// allocations fail. Every attempt needs a process of its own.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "heddle/plugins.h"
#include "tests/faults/small_model.hpp"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

constexpr char kNumberVariable[] = "HEDDLE_TEST_FAULT";
constexpr long kMostAllocations = 5000;

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

/// Runs this program again with allocation `number` failing; gives its exit status, -1 for a crash.
int run_alone(long number) {
    const std::string value = std::to_string(number);
    const pid_t child = fork();
    if (child == 0) {
        setenv(kNumberVariable, value.c_str(), 1);
        execl("/proc/self/exe", "faults_test", "--gtest_filter=FirstUse.Alone",
              static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(FirstUse, Alone) {
    const char* number = std::getenv(kNumberVariable);
    if (number == nullptr) GTEST_SKIP() << "started by the next test";
    std::_Exit(first_use(use_everything, std::atol(number)));
}

TEST(FirstUse, SurvivesEveryFailure) {
    int failures = 0;
    for (long number = 1; number < kMostAllocations && failures < 5; ++number) {
        const int status = run_alone(number);
        if (status == nothing_failed) {
            std::printf("first use: %ld allocations\n", number - 1);
            return;
        }
        EXPECT_EQ(status, survived) << "allocation " << number << ", " << ++failures;
    }
    FAIL() << "no end after " << kMostAllocations << " allocations, or too many failures";
}

}  // namespace
}  // namespace heddle::faults
