#include "run_output.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "console.hpp"
#include "core/printable.hpp"
#include "json_text.hpp"
#include "model/placement_text.hpp"

namespace heddle::tool {
namespace {

nlohmann::json json_of(const std::vector<LeftOut>& devices) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [device, reason] : devices) {
        list.push_back({{"device", device}, {"reason", reason}});
    }
    return list;
}

nlohmann::json placement_json(const Generator& generator, int splits) {
    nlohmann::json work = nlohmann::json::array();
    for (const auto& [device, part] : generator.work()) {
        work.push_back({{"device", device}, {"share", part}});
    }
    const auto& places = generator.model().places();
    return {{"layers", std::vector(places.begin(), places.end() - 1)},
            {"output", places.back()},
            {"joined", generator.joined()},
            {"splits", splits},
            {"work", work},
            {"left_out", json_of(generator.left_out())}};
}

/// As it was typed: 0.05, not the 0.05000000074505806 that a float is.
double as_typed(float value) { return std::stod(fmt::format("{}", value)); }

std::string speed_text(const Pace& speed) {
    return fmt::format("{} {} at {:.1f}/s", speed.tokens, speed.tokens == 1 ? "token" : "tokens",
                       speed.rate());
}

std::string reason_text(const Writer& writer) {
    switch (writer.finish()) {
        case Finish::end:
            return "the text ended";
        case Finish::length:
            return fmt::format("stopped after {} tokens (-n)", writer.last_tokens());
        case Finish::context:
            return "the context is full";
        case Finish::stop:
            return "stopped by --stop";
        case Finish::interrupted:
            break;
    }
    return "stopped by Ctrl-C";
}

}  // namespace

void show_text(const RunOptions& options, std::string_view text, std::span<const Token> tokens) {
    static const bool is_terminal = isatty(STDOUT_FILENO) != 0;
    if (options.json) return;
    if (options.json_lines) {
        const std::vector<Token> ids(tokens.begin(), tokens.end());
        print("{}\n", json_text({{"text", text}, {"ids", ids}}, -1));
    } else {
        // A terminal is not to be steered by what a model says; files get it as it is.
        print_result(is_terminal ? printable(text, "\n\r\t") : std::string(text));
    }
    std::fflush(stdout);
}

void print_json(const RunReport& report) {
    const Writer& writer = report.writer;
    const Sampler::Options& sampling = report.options.sampling;
    nlohmann::json out;
    out["model"] = report.options.model;
    out["prompt"] = report.options.prompt;
    out["prompt_ids"] = report.prompt;
    out["ids"] = writer.ids();
    out["text"] = writer.text();
    out["finish"] = name_of(writer.finish());
    out["sampling"] = {{"temperature", as_typed(sampling.temperature)},
                       {"top_k", sampling.top_k},
                       {"top_p", as_typed(sampling.top_p)},
                       {"min_p", as_typed(sampling.min_p)},
                       {"repeat_penalty", as_typed(sampling.repeat_penalty)},
                       {"seed", sampling.seed}};
    out["load_s"] = report.load_seconds;
    out["first_token_s"] = writer.first_token_seconds();
    out["speeds"] = {{"prefill_tokens", writer.prefill().tokens},
                     {"prefill_tokens_per_second", writer.prefill().rate()},
                     {"decode_tokens", writer.decode().tokens},
                     {"decode_tokens_per_second", writer.decode().rate()}};
    out["placement"] = placement_json(report.generator, report.generator.scheduler().splits());
    out["failed_devices"] = json_of(report.generator.losses());
    print("{}\n", json_text(out, report.options.json_lines ? -1 : 2));
}

void print_closing_line(const RunReport& report) {
    const Writer& writer = report.writer;
    const Generator& generator = report.generator;
    if (writer.prefill().tokens == 0) return;  // nothing was said
    std::string line =
        "prefill " + speed_text(writer.prefill()) + ", decode " + speed_text(writer.decode());
    if (!report.options.interactive) line += "; " + reason_text(writer);
    // Without temperature nothing is left to chance.
    if (report.options.sampling.temperature > 0) {
        line += fmt::format("; seed {}", report.options.sampling.seed);
    }
    const std::string work = work_text(generator.work());
    if (!work.empty()) line += "; " + work;
    print_beside(fmt::format("\n{}; {}{}{}\n", line, places_text(generator.model().places()),
                             joined_text(generator.joined()), left_out_text(generator.left_out())));
}

}  // namespace heddle::tool
