// campaign: random cases through every door of the library, in children that may crash.
//
//   campaign --hours H                 for H hours
//            --cases N DOOR=N...       so many cases of each door, or of this one, at most (1000
//                                      without --hours)
//            --jobs J                  so many processes at a time (one for each core)
//            --seed S                  the seed of the first case (1)
//            --door NAME...            only these doors
//            --devices CPU,sim,CUDA0   what graphs run on
//            --program PATH            the program whose commands are tried (that of the build)
//            --data DIR                tests/data, if it is elsewhere than when this was built
//            --plugins DIR             the plug-ins for tests, likewise
//            --out DIR                 where findings go (campaign-findings)
//            --json                    the report for programs
//   campaign --replay PATH...          findings again; folders stand for the cases in them
//
// Findings of one cause are counted once, made as small as possible and written as a file. Status 1
// if there are any.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "case_file.hpp"
#include "ggml.h"
#include "heddle/heddle.h"
#include "runner.hpp"
#include "settings.hpp"

namespace heddle::campaign {

Settings& settings() {
    static Settings all = [] {
        Settings usual;
        usual.program = HEDDLE_PROGRAM;
        usual.data = HEDDLE_TEST_DATA;
        usual.plugins = HEDDLE_TEST_PLUGINS;
        return usual;
    }();
    return all;
}

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    Plan plan;
    std::optional<std::uint64_t> cases;               ///< of each door
    std::map<const Door*, std::uint64_t> cases_of{};  ///< of some, instead
    bool json = false;
    std::vector<std::filesystem::path> replays;
};

const Door* find_door(std::string_view name) {
    for (const Door& door : doors()) {
        if (door.name == name) return &door;
    }
    return nullptr;
}

std::vector<std::string> parts_of(std::string_view list) {
    std::vector<std::string> parts;
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        if (end > 0) parts.emplace_back(list.substr(0, end));
        list.remove_prefix(std::min(list.size(), end + 1));
    }
    return parts;
}

/// The words behind an option, up to the next one.
std::span<char*> words_at(std::span<char*> words) {
    std::size_t n = 0;
    while (n < words.size() && words[n][0] != '-') ++n;
    return words.first(n);
}

Result<> add_doors(Plan& plan, std::span<char*> names) {
    for (const char* name : names) {
        const Door* door = find_door(name);
        if (door == nullptr) return invalid("there is no door '", name, "'");
        plan.doors.push_back(door);
    }
    return ok();
}

/// "1000", or "files=1000" for one door.
Result<> limit_cases(Options& options, std::span<char*> words) {
    for (const std::string_view word : words) {
        const std::size_t equals = word.find('=');
        const bool is_of_one = equals != word.npos;
        const std::string_view digits = word.substr(is_of_one ? equals + 1 : 0);
        std::uint64_t count = 0;
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), count);
        if (error != std::errc{} || end != digits.data() + digits.size()) {
            return invalid("'", word, "' is no number of cases, nor DOOR=NUMBER");
        }
        if (!is_of_one) {
            options.cases = count;
            continue;
        }
        const Door* const door = find_door(word.substr(0, equals));
        if (door == nullptr) return invalid("there is no door '", word.substr(0, equals), "'");
        options.cases_of[door] = count;
    }
    return ok();
}

/// The paths and names that doors are told.
std::string* setting(std::string_view option) {
    if (option == "--program") return &settings().program;
    if (option == "--data") return &settings().data;
    if (option == "--plugins") return &settings().plugins;
    return nullptr;
}

/// Sets what one option says.
Result<> set(Options& options, std::string_view option, std::span<char*> words) {
    Plan& plan = options.plan;
    if (option == "--json") {
        options.json = true;
        return ok();
    }
    if (words.empty()) return invalid("'", option, "' is no option, or wants a value");
    const char* value = words[0];
    if (option == "--door") return add_doors(plan, words);
    if (option == "--cases") return limit_cases(options, words);
    if (std::string* const text = setting(option); text != nullptr) {
        *text = value;
    } else if (option == "--replay") {
        options.replays.assign(words.begin(), words.end());
    } else if (option == "--hours") {
        plan.end = Clock::now() + std::chrono::milliseconds(std::int64_t(std::atof(value) * 3.6e6));
    } else if (option == "--jobs") {
        plan.jobs = std::max(1, std::atoi(value));
    } else if (option == "--seed") {
        plan.first_seed = std::strtoull(value, nullptr, 10);
    } else if (option == "--devices") {
        settings().devices = parts_of(value);
    } else if (option == "--out") {
        plan.out = value;
    } else {
        return invalid("'", option, "' is no option");
    }
    return ok();
}

Result<Options> parse(std::span<char*> arguments) {
    Options options;
    options.plan.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    options.plan.out = "campaign-findings";
    for (std::size_t i = 1; i < arguments.size();) {
        const auto words = words_at(arguments.subspan(i + 1));
        HEDDLE_TRY(set(options, arguments[i], words));
        i += 1 + words.size();
    }
    if (options.plan.doors.empty()) {
        for (const Door& door : doors()) options.plan.doors.push_back(&door);
    }
    const bool ends_by_itself = options.plan.end != Clock::time_point::max();
    for (const Door* door : options.plan.doors) {
        const auto own = options.cases_of.find(door);
        options.plan.cases.push_back(own != options.cases_of.end() ? own->second
                                     : options.cases               ? *options.cases
                                     : ends_by_itself              ? UINT64_MAX
                                                                   : 1000);
    }
    return options;
}

// ---- reports -----------------------------------------------------------------------------------

double rate_of(const Tally& tally) {
    const double seconds = static_cast<double>(tally.nanoseconds) / 1e9;
    return seconds > 0 ? static_cast<double>(tally.done) / seconds : 0;
}

/// Of all processes that ran cases.
double cpu_hours() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return (seconds(used.ru_utime) + seconds(used.ru_stime)) / 3600;
}

void show_progress(const Plan& plan, std::span<Tally> tallies) {
    if (isatty(STDERR_FILENO) == 0) return;
    std::string line;
    for (std::size_t i = 0; i < tallies.size(); ++i) {
        line += text(plan.doors[i]->name, " ", tallies[i].done.load(), " (",
                     tallies[i].findings.load(), ")  ");
    }
    std::fprintf(stderr, "\r\033[K%.*s", 110, line.c_str());
}

std::vector<std::filesystem::path> cases_in(const std::filesystem::path& path) {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) return {path};
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
        if (entry.path().extension() == ".case") found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
}

void print_table(const Plan& plan, std::span<Tally> tallies,
                 std::span<const std::filesystem::path> findings) {
    std::printf("%-10s %12s %12s %12s %10s %9s\n", "door", "cases", "cases/s", "CPU seconds",
                "failures", "findings");
    for (std::size_t i = 0; i < tallies.size(); ++i) {
        const Tally& tally = tallies[i];
        std::printf("%-10s %12llu %12.0f %12.0f %10llu %9llu\n", plan.doors[i]->name.data(),
                    static_cast<unsigned long long>(tally.done), rate_of(tally),
                    static_cast<double>(tally.cpu_nanoseconds) / 1e9,
                    static_cast<unsigned long long>(tally.failures),
                    static_cast<unsigned long long>(tally.findings));
    }
    std::printf("%.2f hours of CPU time\n", cpu_hours());
    for (const auto& path : findings) {
        const auto read = read_case(path);
        std::printf("%s: %s\n", path.c_str(), read ? read->what.c_str() : "cannot be read");
    }
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
    return out + '"';
}

void print_json(const Plan& plan, std::span<Tally> tallies,
                std::span<const std::filesystem::path> findings) {
    std::string out = text("{\"seed\": ", plan.first_seed, ", \"jobs\": ", plan.jobs,
                           ", \"cpu_hours\": ", cpu_hours(), ", \"doors\": [");
    for (std::size_t i = 0; i < tallies.size(); ++i) {
        const Tally& tally = tallies[i];
        out += text(i > 0 ? ", " : "", "{\"name\": ", quoted(plan.doors[i]->name),
                    ", \"cases\": ", tally.done.load(), ", \"cases_per_second\": ", rate_of(tally),
                    ", \"cpu_seconds\": ", static_cast<double>(tally.cpu_nanoseconds) / 1e9,
                    ", \"failures\": ", tally.failures.load(),
                    ", \"findings\": ", tally.findings.load(), "}");
    }
    out += "], \"findings\": [";
    for (std::size_t i = 0; i < findings.size(); ++i) {
        const auto read = read_case(findings[i]);
        out += text(i > 0 ? ", " : "", "{\"file\": ", quoted(findings[i].string()),
                    ", \"what\": ", quoted(read ? read->what : "cannot be read"), "}");
    }
    std::printf("%s]}\n", out.c_str());
}

// ---- what the program does ---------------------------------------------------------------------

int run_campaign(const Options& options) {
    std::error_code error;
    std::filesystem::create_directories(options.plan.out, error);
    if (error) {
        std::fprintf(stderr, "campaign: %s: %s\n", options.plan.out.c_str(),
                     error.message().c_str());
        return 2;
    }
    settings().cost_file = options.plan.out / "costs.tsv";
    const auto before = cases_in(options.plan.out);
    const auto tallies = make_tallies(options.plan.doors.size());
    run(options.plan, tallies, show_progress);
    if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
    std::vector<std::filesystem::path> findings;
    for (const auto& path : cases_in(options.plan.out)) {
        if (std::find(before.begin(), before.end(), path) == before.end()) findings.push_back(path);
    }
    (options.json ? print_json : print_table)(options.plan, tallies, findings);
    // A cause that was known before is one all the same.
    const bool failed = std::any_of(tallies.begin(), tallies.end(),
                                    [](const Tally& tally) { return tally.failures > 0; });
    return failed ? 1 : 0;
}

/// True if it passes.
bool replay(Worker& worker, const std::filesystem::path& path) {
    const auto read = read_case(path);
    if (!read) {
        std::printf("%s\n", read.error().message.c_str());
        return false;
    }
    const Door* door = find_door(read->door);
    if (door == nullptr) {
        std::printf("%s: there is no door '%s'\n", path.c_str(), read->door.c_str());
        return false;
    }
    const auto failure = worker.replay(*door, read->choices);
    if (!failure) return true;
    std::printf("%s\n%s", path.c_str(), to_text(*door, *failure).c_str());
    return false;
}

int replay_all(const Options& options) {
    Worker worker;
    int cases = 0, failed = 0;
    for (const auto& given : options.replays) {
        for (const auto& path : cases_in(given)) {
            ++cases;
            if (!replay(worker, path)) ++failed;
        }
    }
    std::printf("%d of %d cases fail\n", failed, cases);
    return failed > 0 ? 1 : 0;
}

int main_of(std::span<char*> arguments) {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    const auto options = parse(arguments);
    if (!options) {
        std::fprintf(stderr, "campaign: %s\n", options.error().message.c_str());
        return 2;
    }
    return options->replays.empty() ? run_campaign(*options) : replay_all(*options);
}

}  // namespace
}  // namespace heddle::campaign

#ifdef HEDDLE_CAMPAIGN_SANITIZED
// A report is a crash like others, so that the case is kept. Memory that cannot be had is refused
// as it is without sanitizers. Leaks are found by counting.
extern "C" const char* __asan_default_options() {
    return "abort_on_error=1:allocator_may_return_null=1:max_allocation_size_mb=4096:detect_leaks="
           "0";
}
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }
#endif

int main(int count, char** arguments) {
    return heddle::campaign::main_of({arguments, static_cast<std::size_t>(count)});
}
