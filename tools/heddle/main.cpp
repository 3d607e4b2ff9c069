#include <fmt/core.h>

#include <string>
#include <string_view>

#include "commands.hpp"
#include "ggml-backend.h"
#include "ggml.h"
#include "heddle/heddle.h"

namespace {

std::string version_text() {
    return fmt::format("heddle {} (commit {}), interface of ggml {}", heddle_version(),
                       ggml_commit(), ggml_version());
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
