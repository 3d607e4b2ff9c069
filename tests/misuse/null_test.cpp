// NULL for every parameter of every function, in the mode in which failures are returned.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/misuse/null_calls.hpp"
#include "tests/misuse/test_support.hpp"

namespace heddle::misuse {

const Objects& objects() {
    static const Objects made = [] {
        Objects all{};
        all.context = ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = false});
        all.tensor = ggml_new_tensor_2d(all.context, GGML_TYPE_F32, 256, 4);
        all.graph = ggml_new_graph_custom(all.context, 64, true);
        ggml_build_forward_expand(all.graph, ggml_scale(all.context, all.tensor, 2));
        all.stream = ggml_backend_cpu_init();
        ggml_backend_cpu_set_n_threads(all.stream, 1);
        all.device = ggml_backend_get_device(all.stream);
        all.registration = ggml_backend_dev_backend_reg(all.device);
        all.type = ggml_backend_cpu_buffer_type();
        all.buffer = ggml_backend_buft_alloc_buffer(all.type, 1 << 16);
        all.scheduler = ggml_backend_sched_new(&all.stream, nullptr, 1, 64, false, false);
        all.file = gguf_init_empty();
        constexpr std::size_t kRoom = 4 << 20;  // for 256 rows of 256 of the largest numbers
        all.memory =
            mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return all;
    }();
    return made;
}

namespace {

/// A directory that each process makes anew, and removes once it is in it.
std::string gone_directory() {
    return (std::filesystem::temp_directory_path() / ("heddle-null-" + std::to_string(getpid())))
        .native();
}

/// What becomes of a process that makes this call; empty if it comes back from it.
template <class Call>
std::string outcome_of(const Call& call) {
    const pid_t child = fork();
    if (child == 0) {
        const int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, STDIN_FILENO);  // what is not found in a file is not waited for at a terminal
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        // Functions that write files write them where nobody can: this directory is gone.
        const std::string directory = gone_directory();
        if (mkdir(directory.c_str(), 0700) != 0 || chdir(directory.c_str()) != 0 ||
            rmdir(directory.c_str()) != 0) {
            _exit(EXIT_FAILURE);
        }
        alarm(20);
        call();
        // Coverage is written by what runs at the end of a process.
        std::getenv("LLVM_PROFILE_FILE") != nullptr ? std::exit(EXIT_SUCCESS) : _exit(EXIT_SUCCESS);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return "could not be tried";
    if (WIFSIGNALED(status)) return strsignal(WTERMSIG(status));
    return WEXITSTATUS(status) == EXIT_SUCCESS ? "" : "ended the process";
}

TEST_F(Misuse, NoFunctionDiesOfNullsAlone) {
    ASSERT_GT(all_functions().size(), 700U);
    objects();
    for (const Function& function : all_functions()) {
        EXPECT_EQ(outcome_of([&] { function.call_with_nothing(); }), "") << function.name;
    }
}

TEST_F(Misuse, NoFunctionDiesOfOneNullAmongOthers) {
    objects();
    for (const Function& function : all_functions()) {
        for (std::size_t i = 0; i < function.is_pointer.size(); ++i) {
            if (!function.is_pointer[i]) continue;
            EXPECT_EQ(outcome_of([&] { function.call_without(i); }), "")
                << function.name << ", parameter " << i + 1;
        }
    }
}

TEST_F(Misuse, AccessorsSayWhatWasNull) {
    const auto said = [](const auto& call) {
        heddle_clear_error();
        EXPECT_FALSE(call());
        return std::string(heddle_last_error());
    };
    EXPECT_EQ(said([] { return ggml_nelements(nullptr) != 0; }),
              "ggml_nelements: the tensor is NULL");
    EXPECT_EQ(said([] { return ggml_is_contiguous(nullptr); }),
              "ggml_is_contiguous: the tensor is NULL");
    EXPECT_EQ(said([] { return ggml_set_name(nullptr, "x") != nullptr; }),
              "ggml_set_name: the tensor is NULL");
    EXPECT_EQ(said([] { return *ggml_get_name(nullptr) != '\0'; }),
              "ggml_get_name: the tensor is NULL");
    EXPECT_EQ(said([] { return ggml_get_first_tensor(nullptr) != nullptr; }),
              "ggml_get_first_tensor: the context is NULL");
    EXPECT_EQ(said([] { return ggml_graph_n_nodes(nullptr) != 0; }),
              "ggml_graph_n_nodes: the graph is NULL");
}

TEST_F(Misuse, AChainOfOpsNeedsOneCheckAtItsEnd) {
    ggml_tensor* x = input();
    ggml_tensor* y = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 7);
    ggml_tensor* sum = ggml_set_name(ggml_add(context.get(), x, y), "sum");
    ggml_set_input(sum);
    ggml_set_output(sum);
    EXPECT_EQ(ggml_format_name(ggml_scale(context.get(), sum, 2), "%d", 1), nullptr);
    EXPECT_STRNE(heddle_last_error(), "");
}

TEST(MisuseInAbortMode, AnAccessorStopsTheProgramWithTheSentence) {
    EXPECT_DEATH(ggml_nelements(nullptr), "ggml_nelements: the tensor is NULL");
}

}  // namespace
}  // namespace heddle::misuse
