// sched_fuzz: random graphs over random devices, against the processor alone.
//
//   sched_fuzz                         500 graphs, or HEDDLE_FUZZ_GRAPHS of them
//   sched_fuzz --graphs N --seed S     N graphs, beginning with seed S
//   sched_fuzz ... --without WORD      every case made smaller by this word
//   sched_fuzz --only S [WORD...]      the case of seed S, made smaller by these words
//   sched_fuzz --shrink S [WORD...]    what is left of that case and still fails

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ggml-cpu.h"
#include "ggml/op_list.h"
#include "heddle/heddle.h"
#include "session.hpp"

namespace heddle::fuzz {
namespace {

#ifdef HEDDLE_SANITIZED
constexpr unsigned kLongest = 300;  // seconds that a case may take
#else
constexpr unsigned kLongest = 20;
#endif
constexpr std::uint64_t kFirstSeed = 1;

char program_path[] = "/proc/self/exe";
char shrink_option[] = "--shrink";
char current_seed[24] = "";
std::vector<char*> start_over_with;  // made before anything can crash

/// A case that crashes, or never ends, is made smaller by a new process: this one cannot go on.
void start_over(int) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execv(program_path, start_over_with.data());
    _exit(3);
}

void begin_case(std::uint64_t seed, bool shrink_crashes) {
    std::snprintf(current_seed, sizeof current_seed, "%llu", static_cast<unsigned long long>(seed));
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) {
        std::signal(signal, shrink_crashes ? start_over : SIG_DFL);
    }
    alarm(kLongest);
}

Case case_of(std::uint64_t seed, const World& world, std::span<const std::string> words) {
    Case made = make_case(seed, world.scope());
    for (const std::string& word : words) reduce(made, word);
    return made;
}

/// 0 if it passes.
int run_one(std::uint64_t seed, std::span<const std::string> words) {
    const World world;
    const Case which = case_of(seed, world, words);
    Work work;
    begin_case(seed, false);
    const std::string wrong = run_case(which, world, work);
    alarm(0);
    std::printf("%s", to_text(which).c_str());
    for (std::size_t i = 0; i < which.devices.size(); ++i) {
        std::printf("device %zu: %s\n", i, world.kind(which.devices[i]).c_str());
    }
    std::printf("%s\n", wrong.empty() ? "passed" : wrong.c_str());
    return wrong.empty() ? 0 : 1;
}

// ---- making failures smaller -------------------------------------------------------------------

/// Runs the case in a process of its own. 0: it passes.
int attempt(std::uint64_t seed, std::span<const std::string> words, bool quiet) {
    std::string number = std::to_string(seed), option = "--only";
    std::vector<std::string> texts(words.begin(), words.end());
    std::vector<char*> arguments{program_path, option.data(), number.data()};
    for (std::string& each : texts) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (quiet) {
            const int nowhere = open("/dev/null", O_WRONLY);
            dup2(nowhere, 1), dup2(nowhere, 2);
        }
        execv(program_path, arguments.data());
        _exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

int shrink(std::uint64_t seed, std::vector<std::string> words) {
    std::printf("the case of seed %llu fails; making it smaller\n",
                static_cast<unsigned long long>(seed));
    if (attempt(seed, words, true) == 0) {
        std::printf("it does not fail in a process of its own\n");
        return 1;
    }
    const World world;
    Case which = case_of(seed, world, words);
    // A race does not show every time: that a smaller case passed once proves nothing.
    constexpr int kTries = 2;
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (const std::string& word : reductions(which)) {
            Case candidate = which;
            if (!reduce(candidate, word)) continue;
            words.push_back(word);
            bool fails = false;
            for (int i = 0; i < kTries && !fails; ++i) fails = attempt(seed, words, true) != 0;
            if (!fails) {
                words.pop_back();
                continue;
            }
            which = std::move(candidate);
            smaller = true;
            // Numbers of runs and devices have shifted.
            if (word[0] == 'r' || word[0] == 'd') break;
        }
    }
    std::printf("sched_fuzz --only %llu", static_cast<unsigned long long>(seed));
    for (const std::string& word : words) std::printf(" %s", word.c_str());
    std::printf("\n");
    const int status = attempt(seed, words, false);
    if (WIFSIGNALED(status)) std::printf("ended by signal %d\n", WTERMSIG(status));
    return 1;
}

// ---- running them all --------------------------------------------------------------------------

/// Ops that were in no graph though they should have been; empty if all were.
std::string missing_ops(const Work& work) {
    std::string names;
    for (int op = 0; op < GGML_OP_COUNT; ++op) {
        // A leaf is no node; the other one is a number that no function of the API builds.
        if (op == GGML_OP_NONE || op == GGML_OP_FLASH_ATTN_BACK) continue;
        if (work.nodes[static_cast<std::size_t>(op)] > 0) continue;
        names += text(' ', ggml_op_name(static_cast<ggml_op>(op)));
    }
    return names;
}

int run_many(std::uint64_t first, int graphs, std::span<std::string> words) {
    start_over_with = {program_path, shrink_option, current_seed};
    for (std::string& word : words) start_over_with.push_back(word.data());
    start_over_with.push_back(nullptr);
    const World world;
    int done = 0, cases = 0;
    Work work;
    for (std::uint64_t seed = first; done < graphs; ++seed, ++cases) {
        const Case which = case_of(seed, world, words);
        begin_case(seed, true);
        const std::string wrong = run_case(which, world, work);
        alarm(0);
        done += static_cast<int>(which.graphs.size());
        if (wrong.empty()) continue;
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
        std::fflush(stdout);
        start_over(0);
    }
    std::printf("%s\n", text(done, " graphs in ", cases, " cases from seed ", first, " on: ",
                             work.runs, " runs, ", work.reused, " graphs reused, ", work.resized,
                             " in another size, ", work.splits, " splits, ", work.copies,
                             " copies, ", work.skipped, " left out, ", work.faults, " faults, ",
                             work.refused, " refused; all else as on the processor alone")
                            .c_str());
    // So many graphs have every op in them, unless its rule never fits anything.
    constexpr int kEnough = 500;
    if (graphs < kEnough) return 0;
    const std::string missing = missing_ops(work);
    if (!missing.empty()) std::printf("no graph had%s\n", missing.c_str());
    if (work.resized == 0) std::printf("no graph kept the plan of one in another size\n");
    return missing.empty() && work.resized > 0 ? 0 : 1;
}

int main_of(std::span<char*> arguments) {
    const char* many = std::getenv("HEDDLE_FUZZ_GRAPHS");
    int graphs = many != nullptr ? std::atoi(many) : 500;
    std::uint64_t first = kFirstSeed;
    std::vector<std::string> words;
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    for (std::size_t i = 1; i + 1 < arguments.size(); i += 2) {
        const std::string_view option = arguments[i];
        const char* value = arguments[i + 1];
        if (option == "--graphs") graphs = std::atoi(value);
        if (option == "--seed") first = std::strtoull(value, nullptr, 10);
        if (option == "--without") words.emplace_back(value);
        if (option != "--shrink" && option != "--only") continue;
        words.assign(arguments.begin() + static_cast<long>(i) + 2, arguments.end());
        const std::uint64_t seed = std::strtoull(value, nullptr, 10);
        return option == "--only" ? run_one(seed, words) : shrink(seed, words);
    }
    return run_many(first, graphs, words);
}

}  // namespace
}  // namespace heddle::fuzz

int main(int count, char** arguments) {
    return heddle::fuzz::main_of({arguments, static_cast<std::size_t>(count)});
}
