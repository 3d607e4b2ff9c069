#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "command_line.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "core/printable.hpp"
#include "ggml-backend.h"
#include "ggml.h"
#include "heddle/heddle.h"
#include "help.hpp"
#include "hosts.hpp"
#include "outcome.hpp"
#include "page_about.hpp"
#include "shared_options.hpp"

namespace {

std::string version_text() {
    return fmt::format("heddle {} (commit {}), interface of ggml {}", heddle_version(),
                       ggml_commit(), ggml_version());
}

/// Loads the plug-ins that the command line names, before the command looks for devices.
void load_plugins(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
        if (ggml_backend_load(file.c_str()) == nullptr) {
            throw std::runtime_error(fmt::format("--plugin {}", heddle_last_error()));
        }
    }
}

/// Failures come back as values and are reported once; what is left to say are warnings. That the
/// scheduler goes on without a device is said by the command that was told of the failure.
void show_warnings(enum ggml_log_level level, const char* text, void* /*unused*/) {
    const bool is_told = std::string_view(text).starts_with("scheduler: going on without ");
    if (level != GGML_LOG_LEVEL_WARN || is_told) return;
    heddle::tool::print_beside(heddle::printable(text, "\n\t"));
}

/// Says what is wrong with the command line, and who knows more.
int refuse(const std::string& command, const std::string& problem) {
    using namespace heddle::tool;
    const std::string space = command.empty() ? "" : " ";
    tell_failure(command, fmt::format("{} (heddle{}{} --help)", problem, space, command), kUsage);
    return kUsage;
}

/// How a script wants to be told of failures, if the command has anything for scripts. Where the
/// command itself is not understood, what was typed counts.
heddle::tool::JsonFailures json_failures(CLI::App& app, const std::string& name,
                                         const std::vector<std::string>& typed) {
    using heddle::tool::JsonFailures;
    const CLI::App* command = &app;
    std::istringstream words(name);
    for (std::string word; words >> word;) command = command->get_subcommand(word);
    const auto is_asked = [&](const char* option) {
        const bool is_group = !command->get_subcommands({}).empty();
        return (is_group || command->get_option_no_throw(option) != nullptr) &&
               std::ranges::find(typed, option) != typed.end();
    };
    if (is_asked("--json-lines")) return JsonFailures::as_line;
    return is_asked("--json") ? JsonFailures::alone : JsonFailures::none;
}

/// What is said again counts, as in aliases and scripts that are given more.
void let_last_count(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
        if (option->get_items_expected_max() == 1) option->take_last();
    }
    for (CLI::App* command : app.get_subcommands({})) let_last_count(*command);
}

/// Understands the command line and runs its command. Gives the exit status.
int run_command(CLI::App& app, const heddle::tool::CommandLine& line, const int& status) {
    using namespace heddle::tool;
    const std::string& command = line.command;
    if (!line.problem.empty()) return refuse(command, line.problem);
    for (const std::string& note : line.notes) print_note("[" + note + "]");
    try {
        app.parse(std::vector<std::string>(line.words.rbegin(), line.words.rend()));
        return status;
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error), kSuccess;  // help, version
        return refuse(command, error.what());
    } catch (const std::bad_alloc&) {
        tell_failure(command, "there is not enough memory");
    } catch (const std::system_error& error) {
        // Printing throws, too.
        const bool is_output = std::ferror(stdout) != 0;
        tell_failure(command, is_output
                                  ? "standard output cannot be written: " + error.code().message()
                                  : error.what());
    } catch (const std::exception& error) {
        tell_failure(command, error.what());
    }
    return kFailure;
}

/// Where there is not even memory to say what failed.
int fail_without_memory() {
    std::fputs("heddle: there is not enough memory to say what failed\n", stderr);
    return heddle::tool::kFailure;
}

/// JSON values need memory to be destroyed, and nobody can catch what a destructor throws.
void end_without_memory() {
    try {
        if (const std::exception_ptr thrown = std::current_exception()) {
            std::rethrow_exception(thrown);
        }
    } catch (const std::bad_alloc&) {
        std::_Exit(fail_without_memory());
    } catch (...) {  // NOLINT(bugprone-empty-catch): a mistake of ours, which is to be seen
    }
    std::abort();
}

/// All of the program. Throws only where memory runs out before the command line is understood.
int run_program(int argc, char** argv) {
    using namespace heddle::tool;
    CLI::App app{"Heddle runs one tensor graph across every compute device a machine has."};
    use_help_text(app);
    app.set_help_flag("-h,--help", "Show this help");
    app.set_version_flag("--version", version_text(), "Show the version");
    app.fallthrough();  // options for all commands may stand behind the command, too
    std::vector<std::string> plugins;
    app.add_option("--plugin", plugins, "A plug-in to load first")
        ->type_name("FILE")
        ->allow_extra_args(false)
        ->group("For all commands");
    std::string hosts;
    add_shared(app, shared::kHosts, hosts)->group("For all commands");
    app.parse_complete_callback([&] {
        use_hosts(hosts);
        load_plugins(plugins);
    });

    int status = kSuccess;
    add_run(app, status);  // what most people come for is listed first
    add_explain(app, status);
    add_devices(app, status);
    add_inspect(app, status);
    add_quantize(app, status);
    add_imatrix(app, status);
    add_perplexity(app, status);
    add_bench(app, status);
    add_verify(app, status);
    add_conform(app, status);
    add_launch(app, status);
    add_worker(app, status);
    add_completion(app, status);
    let_last_count(app);
    app.footer(
        "Exit status: 0 success, 1 failure, 2 the command line is wrong.\n"
        "'heddle help COMMAND' shows more about a command.");

    // The program reports failures itself; nothing may stop it half-way.
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set(show_warnings, nullptr);
    std::vector<std::string> typed(argv + std::min(argc, 1), argv + argc);
    if (typed.empty()) typed.emplace_back("--help");
    remember_command(typed);
    const CommandLine line = read_command_line(app, typed);
    tell_failures_as_json(json_failures(app, line.command, typed));
    const int outcome = run_command(app, line, status);
    // What nobody could read was not done.
    const auto output = finish_output();
    return outcome == kSuccess ? report_outcome(line.command, output) : outcome;
}

}  // namespace

int main(int argc, char** argv) {
    heddle::tool::keep_standard_streams();
    std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is a failure to write
    std::set_terminate(end_without_memory);
    try {
        return run_program(argc, argv);
    } catch (...) {
        return fail_without_memory();
    }
}
