#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "ggml-backend.h"
#include "ggml.h"
#include "heddle/heddle.h"

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
    if (level == GGML_LOG_LEVEL_WARN && !is_told) fmt::print(stderr, "{}", text);
}

}  // namespace

int main(int argc, char** argv) {
    using namespace heddle::tool;
    CLI::App app{"Heddle runs one tensor graph across every compute device a machine has."};
    app.require_subcommand(1);
    app.set_version_flag("--version", version_text());
    app.fallthrough();  // options for all commands may stand behind the command, too
    std::vector<std::string> plugins;
    app.add_option("--plugin", plugins, "For all commands: a plug-in to load first")
        ->type_name("FILE")
        ->allow_extra_args(false);
    app.parse_complete_callback([&] { load_plugins(plugins); });
    app.footer(
        "Exit status: 0 all is well, 1 something failed, 2 the command line was wrong.\n"
        "'heddle COMMAND --help' tells more of a command.");

    int status = kSuccess;
    add_bench(app, status);
    add_devices(app, status);
    add_explain(app, status);
    add_inspect(app, status);
    add_quantize(app, status);
    add_run(app, status);
    add_verify(app, status);
    add_completion(app, status);

    // The program reports failures itself; nothing may stop it half-way.
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set(show_warnings, nullptr);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kSuccess : kUsage;
    } catch (const std::exception& error) {
        fmt::print(stderr, "heddle: {}\n", error.what());
        return kFailure;
    }
    return status;
}
