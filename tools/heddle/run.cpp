#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <optional>
#include <utility>

#include "commands.hpp"
#include "console.hpp"
#include "core/printable.hpp"
#include "device_choice.hpp"
#include "json_text.hpp"
#include "model/conversation.hpp"
#include "model/generator.hpp"
#include "model/placement_text.hpp"
#include "model/sampler.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"

/// `heddle run`: text from a model.
namespace heddle::tool {
namespace {

struct RunOptions {
    std::string model, prompt, system, html;
    RunsOn on;
    std::int64_t tokens = 128;
    std::size_t batch = 512;
    Sampler::Options sampling;
    bool json = false, interactive = false, chat = false, quiet = false, explain = false;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Tokens and the time they took.
struct Pace {
    std::size_t tokens = 0;
    double seconds = 0;
    double rate() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

/// Continues texts, and keeps count.
class Writer {
public:
    Writer(Generator& generator, const RunOptions& options)
        : generator_(generator), options_(options), sampler_(options.sampling) {}

    /// Reads what is new, then writes up to the end of the text, the number of tokens asked for, or
    /// the end of the context.
    Result<> answer(Conversation& conversation) {
        const auto begin = Clock::now();
        const auto unread = std::span(conversation.tokens())
                                .subspan(static_cast<std::size_t>(generator_.position()));
        prefill_.tokens += unread.size();
        is_full_ = false;
        HEDDLE_TRY_ASSIGN(std::span<const float> logits, generator_.read(unread));
        prefill_.seconds += seconds_since(begin);
        const auto decoding = Clock::now();
        for (std::int64_t i = 0; i < options_.tokens; ++i) {
            HEDDLE_TRY(check_numbers(logits));
            const Token token = sampler_.choose(logits);
            if (generator_.tokenizer().vocabulary().ends_text(token)) break;
            ids_.push_back(token);
            conversation.answer(token);
            emit(generator_.tokenizer().decode(token));
            if (i + 1 == options_.tokens) break;
            is_full_ = generator_.position() == generator_.model().context();
            if (is_full_) break;
            HEDDLE_TRY_ASSIGN(logits, generator_.read(std::span(&token, 1)));
            ++decode_.tokens;
        }
        decode_.seconds += seconds_since(decoding);
        show(std::exchange(unshown_, {}));
        return ok();
    }

    const std::vector<Token>& ids() const { return ids_; }
    const std::string& text() const { return text_; }
    const Pace& prefill() const { return prefill_; }
    const Pace& decode() const { return decode_; }

    /// Whether the last text ended because there was no more room for it.
    bool is_full() const { return is_full_; }

private:
    /// A model whose numbers are broken has nothing to say.
    static Result<> check_numbers(std::span<const float> logits) {
        const auto broken = std::ranges::find_if(logits, [](float x) { return std::isnan(x); });
        if (broken == logits.end()) return ok();
        return failure(Errc::corrupt, "the model's result for token ", broken - logits.begin(),
                       " is not a number: its weights or parameters are broken");
    }

    void emit(const std::string& bytes) {
        text_ += bytes;
        unshown_ += bytes;
        // A character may be made of several tokens.
        const std::size_t whole = whole_characters(unshown_);
        show(unshown_.substr(0, whole));
        unshown_.erase(0, whole);
    }

    /// A terminal is not to be steered by what a model says; files get it as it is.
    void show(std::string bytes) const {
        static const bool is_terminal = isatty(STDOUT_FILENO) != 0;
        if (options_.json) return;
        if (is_terminal) make_printable(bytes, "\n\r\t");
        print_result(bytes);
        std::fflush(stdout);
    }

    Generator& generator_;
    const RunOptions& options_;
    Sampler sampler_;
    std::vector<Token> ids_;
    std::string text_, unshown_;
    bool is_full_ = false;
    Pace prefill_, decode_;
};

void tell_of_loss(const LeftOut& lost) {
    // A text may be on the screen, in the middle of a line.
    std::fflush(stdout);
    if (isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0) print_beside("\n");
    print_note(fmt::format("[{} failed: {}; going on without it]", lost.device, lost.reason));
}

Result<std::unique_ptr<Generator>> load(const RunOptions& options) {
    HEDDLE_TRY_ASSIGN(const ModelFile file, ModelFile::open(options.model));
    HEDDLE_TRY_ASSIGN(const DeviceChoice devices, options.on.choose(file));
    Progress progress("placing weights", static_cast<std::size_t>(file.tensor_count()));
    return Generator::load(options.model,
                           {.rooms = devices.rooms,
                            .helpers = devices.helpers,
                            .threads = options.on.threads,
                            .context = options.on.context,
                            .batch = options.batch,
                            .policy = options.on.scheduler_policy(),
                            .on_tensor = [&](const std::string& name) { progress.step(name); },
                            .mapped = options.on.mapped,
                            .no_fusion = options.on.no_fusion,
                            .on_loss = tell_of_loss});
}

bool at_terminal() { return isatty(STDIN_FILENO) != 0; }

/// The next line from the user that has anything in it. False at the end of the conversation.
bool listen(std::string& line) {
    do {
        if (at_terminal()) print("> "), std::fflush(stdout);
        if (!std::getline(std::cin, line)) return false;
    } while (line.empty());
    return line != "/quit";
}

/// That of the model, where what the user says is a message.
Result<std::optional<ChatTemplate>> template_for(const Generator& generator,
                                                 const RunOptions& options) {
    const bool has_one = generator.file().has("tokenizer.chat_template");
    if (!options.chat && !(options.interactive && has_one)) return std::optional<ChatTemplate>();
    HEDDLE_TRY_ASSIGN(ChatTemplate chat, ChatTemplate::of(generator.file()));
    return std::optional(std::move(chat));
}

/// One prompt, or one after the other. Gives what was read of the user's words.
Result<std::vector<Token>> converse(Generator& generator, const RunOptions& options,
                                    Writer& writer) {
    HEDDLE_TRY_ASSIGN(const auto chat, template_for(generator, options));
    const auto context = static_cast<std::size_t>(generator.model().context());
    const auto wanted = std::min(static_cast<std::size_t>(options.tokens), context / 4);
    Conversation conversation(generator.tokenizer(), chat, options.system, {context, wanted});
    std::vector<Token> all;
    std::string line = options.prompt;
    bool go_on = !options.interactive || !line.empty() || listen(line);
    bool is_listening = options.interactive && options.prompt.empty();
    std::size_t refused = 0;
    for (; go_on; is_listening = true, go_on = options.interactive && listen(line)) {
        auto heard = conversation.ask(line);
        if (!heard && is_listening) {
            print_note(heard.error().message);  // the conversation goes on with the next line
            ++refused;
            continue;
        }
        HEDDLE_TRY_ASSIGN(const Conversation::Asked asked, std::move(heard));
        if (asked.tokens.empty()) return invalid("the prompt is empty; give one with --prompt");
        if (asked.left_out > 0) {
            generator.forget();
            print_note(fmt::format(
                "[the oldest messages no longer fit into the context of {} tokens; left out: {}]",
                context, asked.left_out));
        }
        if (!options.interactive && !options.json && !chat) print("{}", line);
        HEDDLE_TRY(writer.answer(conversation));
        all.insert(all.end(), asked.tokens.begin(), asked.tokens.end());
        if (!options.json) print("\n");
        if (!writer.is_full()) continue;
        std::fflush(stdout);
        print_note(
            fmt::format("[the text ends here: the context of {} tokens is full; --context "
                        "makes more room]",
                        context));
    }
    // At a terminal somebody saw it and could say it in fewer words.
    if (refused > 0 && !at_terminal()) return invalid("lines without an answer: ", refused);
    return all;
}

nlohmann::json json_of(const std::vector<LeftOut>& devices) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [device, reason] : devices) {
        list.push_back({{"device", device}, {"reason", reason}});
    }
    return list;
}

void print_json(Generator& generator, const RunOptions& options, const std::vector<Token>& prompt,
                const Writer& writer) {
    nlohmann::json out;
    out["model"] = options.model;
    out["prompt"] = options.prompt;
    out["prompt_ids"] = prompt;
    out["ids"] = writer.ids();
    out["text"] = writer.text();
    out["speeds"] = {{"prefill_tokens", writer.prefill().tokens},
                     {"prefill_tokens_per_second", writer.prefill().rate()},
                     {"decode_tokens", writer.decode().tokens},
                     {"decode_tokens_per_second", writer.decode().rate()}};
    nlohmann::json work = nlohmann::json::array();
    for (const auto& [device, part] : generator.work()) {
        work.push_back({{"device", device}, {"share", part}});
    }
    const auto& places = generator.model().places();
    out["placement"] = {{"layers", std::vector(places.begin(), places.end() - 1)},
                        {"output", places.back()},
                        {"splits", generator.scheduler().splits()},
                        {"work", work},
                        {"left_out", json_of(generator.left_out())}};
    out["failed_devices"] = json_of(generator.losses());
    print("{}\n", json_text(out));
}

void print_closing_line(const Generator& generator, const Writer& writer) {
    const std::string work = work_text(generator.work());
    print_beside(
        fmt::format("\nprefill {} tokens at {:.1f}/s, decode {} tokens at {:.1f}/s; {}{}{}{}\n",
                    writer.prefill().tokens, writer.prefill().rate(), writer.decode().tokens,
                    writer.decode().rate(), work, work.empty() ? "" : "; ",
                    places_text(generator.model().places()), left_out_text(generator.left_out())));
}

Result<> show_schedule(Generator& generator, const RunOptions& options) {
    if (options.explain) {
        HEDDLE_TRY_ASSIGN(const std::string text, generator.scheduler().explain());
        print("\n{}", text);
    }
    if (!options.html.empty()) {
        HEDDLE_TRY_ASSIGN(const std::string page,
                          generator.scheduler().explain(HEDDLE_EXPLAIN_HTML));
        HEDDLE_TRY(write_file(options.html, page));
        print_beside(fmt::format("the schedule is in {}\n", options.html));
    }
    return ok();
}

Result<> run(const RunOptions& options) {
    expect_files_cut_short();
    HEDDLE_TRY_ASSIGN(const auto generator, load(options));
    if (options.explain || !options.html.empty()) generator->set_tracing(true);
    Writer writer(*generator, options);
    HEDDLE_TRY_ASSIGN(const std::vector<Token> prompt, converse(*generator, options, writer));
    if (options.json) {
        print_json(*generator, options, prompt, writer);
    } else if (!options.quiet) {
        print_closing_line(*generator, writer);
    }
    return show_schedule(*generator, options);
}

}  // namespace

void add_run(CLI::App& app, int& status) {
    auto options = std::make_shared<RunOptions>();
    CLI::App* command = app.add_subcommand("run", "Continue a text with a model");
    command->add_option("model", options->model, "GGUF file of the llama family")
        ->type_name("FILE")
        ->required();
    command->option_defaults()->group("Text");
    command->add_option("-p,--prompt,prompt", options->prompt,
                        "Text to continue; may also stand behind the model");
    command->add_option("-n,--tokens", options->tokens, "Most tokens to write")
        ->capture_default_str()
        ->check(whole_number(std::int64_t{0}, std::int64_t{1} << 30));
    command->add_flag("-i,--interactive", options->interactive,
                      "Talk: one line at a time, /quit or end of input ends it");
    command->add_flag("--chat", options->chat,
                      "Give the prompt as a message, in the model's template");
    command->add_option("--system", options->system, "Message before the conversation");
    command->option_defaults()->group("Sampling");
    command
        ->add_option("--temperature", options->sampling.temperature,
                     "How freely to choose; 0 takes the likeliest")
        ->capture_default_str()
        ->check(real_number(0, 1e6));
    command->add_option("--top-k", options->sampling.top_k, "Choose among so many; 0: all")
        ->capture_default_str()
        ->check(whole_number(0, std::numeric_limits<int>::max()));
    command
        ->add_option("--top-p", options->sampling.top_p,
                     "Choose among the likeliest that together have this probability")
        ->capture_default_str()
        ->check(real_number(0, 1));
    command
        ->add_option("--min-p", options->sampling.min_p,
                     "Leave out what is less likely than this share of the likeliest")
        ->capture_default_str()
        ->check(real_number(0, 1));
    command->add_option("--seed", options->sampling.seed, "Start of the random choices")
        ->capture_default_str()
        ->check(whole_number());
    options->on.add_options(*command);
    command->add_option("--batch", options->batch, "Tokens of the prompt to read at a time")
        ->capture_default_str()
        ->check(whole_number(std::size_t{1}, std::size_t{1} << 20));
    command->option_defaults()->group("Output");
    command->add_flag("--json", options->json, "One JSON object instead of text");
    command->add_flag("--explain", options->explain, "Show the schedule afterwards");
    command->add_option("--html", options->html, "Write the schedule as a page")->type_name("FILE");
    command->add_flag("-q,--quiet", options->quiet, "No closing line");
    command->callback([options, &status] { status = report_outcome("run", run(*options)); });
}

}  // namespace heddle::tool
