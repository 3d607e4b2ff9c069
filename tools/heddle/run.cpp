#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>

#include "commands.hpp"
#include "console.hpp"
#include "interrupt.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"
#include "page_about.hpp"
#include "run_output.hpp"
#include "shared_options.hpp"
#include "talk.hpp"
#include "text_input.hpp"

/// `heddle run`: text from a model.
namespace heddle::tool {
namespace {

using Clock = std::chrono::steady_clock;

void tell_of_loss(const LeftOut& lost) {
    // A text may be on the screen, in the middle of a line.
    std::fflush(stdout);
    if (isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0) print_beside("\n");
    print_note(fmt::format("[{} failed: {}; going on without it]", lost.device, lost.reason));
}

Result<std::unique_ptr<Generator>> load(const RunOptions& options) {
    HEDDLE_TRY_ASSIGN(const SharedModelFile file, open_model(options.model));
    HEDDLE_TRY_ASSIGN(Generator::Options wanted, options.on.generator_options(*file));
    Progress progress("placing weights", static_cast<std::size_t>(file->tensor_count()));
    wanted.batch = options.batch;
    wanted.on_tensor = [&](const std::string& name) { progress.step(name); };
    wanted.on_loss = tell_of_loss;
    return Generator::load(file, wanted);
}

/// From the command line, a file, or whatever is piped into the program. At a terminal, where there
/// is none of these, it is a conversation.
Result<> find_prompt(RunOptions& options, bool is_given) {
    const bool is_piped = options.prompt_file == "-";
    if (!options.prompt_file.empty() && !is_piped) {
        HEDDLE_TRY_ASSIGN(options.prompt, text_of(options.prompt_file));
        return ok();
    }
    if (!is_piped && (is_given || options.interactive)) return ok();
    if (!is_piped && isatty(STDIN_FILENO) != 0 && !options.is_for_scripts()) {
        options.interactive = true;
        return ok();
    }
    HEDDLE_TRY_ASSIGN(options.prompt, text_of("-"));
    return ok();
}

/// That of the model, unless a text is to be continued.
Result<std::optional<ChatTemplate>> template_for(const Generator& generator,
                                                 const RunOptions& options) {
    const bool has_one = generator.file().has("tokenizer.chat_template");
    if (options.no_chat || (!has_one && !options.chat)) return std::optional<ChatTemplate>();
    auto chat = ChatTemplate::of(generator.file());
    if (chat) return std::optional(*std::move(chat));
    if (options.chat) return std::move(chat).error();
    print_note(fmt::format("[{}; the text is continued as it stands]", chat.error().message));
    return std::optional<ChatTemplate>();
}

/// One prompt, or one after the other. Gives what was read of the user's words.
Result<std::vector<Token>> converse(Generator& generator, const RunOptions& options,
                                    Conversation& conversation, Writer& writer) {
    Talk talk(generator, conversation, writer,
              options.is_for_scripts() ? Talk::Notes::none
              : options.quiet          ? Talk::Notes::few
                                       : Talk::Notes::all);
    watch_interrupts();
    if (options.interactive) {
        HEDDLE_TRY(talk.converse(options.prompt));
        return talk.read();
    }
    if (options.prompt.empty() && conversation.has_template()) {
        return invalid("the prompt is empty; give one with --prompt");
    }
    HEDDLE_TRY(talk.say(options.prompt, !options.is_for_scripts() && !conversation.has_template()));
    if (!options.is_for_scripts()) print("\n");
    std::fflush(stdout);
    if (writer.finish() == Finish::context) print_note(full_note(generator.model().context()));
    return talk.read();
}

Result<> show_schedule(Generator& generator, const RunOptions& options) {
    if (options.explain) {
        HEDDLE_TRY_ASSIGN(const std::string text, generator.scheduler().explain());
        if (options.json) {
            print_beside(text);  // the output is one object
        } else {
            print("\n{}", text);
        }
    }
    if (!options.html.empty()) {
        HEDDLE_TRY_ASSIGN(const std::string page,
                          generator.scheduler().explain(HEDDLE_EXPLAIN_HTML));
        HEDDLE_TRY(write_file(options.html, with_about(page, options.model)));
        print_beside(fmt::format("the schedule is in {}\n", options.html));
    }
    return ok();
}

Result<> run(RunOptions& options, bool has_prompt) {
    expect_files_cut_short();
    HEDDLE_TRY(check_output_files({options.html}));
    HEDDLE_TRY(find_prompt(options, has_prompt));
    options.sampling.seed = options.seed ? *options.seed : std::random_device()();
    const auto begin = Clock::now();
    HEDDLE_TRY_ASSIGN(const auto generator, load(options));
    const double load_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (options.explain || !options.html.empty()) generator->set_tracing(true);
    HEDDLE_TRY_ASSIGN(auto chat, template_for(*generator, options));
    const auto context = generator->model().context();
    const std::int64_t tokens =
        options.tokens.value_or(chat ? std::numeric_limits<std::int64_t>::max() : kTextTokens);
    Conversation conversation(generator->tokenizer(), std::move(chat), options.system,
                              {static_cast<std::size_t>(context),
                               static_cast<std::size_t>(std::min(tokens, context / 4))});
    Writer writer(*generator, {tokens, options.sampling, options.stops,
                               [&](std::string_view text, std::span<const Token> ids) {
                                   show_text(options, text, ids);
                               }});
    HEDDLE_TRY_ASSIGN(const std::vector<Token> prompt,
                      converse(*generator, options, conversation, writer));
    const RunReport report{*generator, options, writer, prompt, load_seconds};
    if (options.is_for_scripts()) {
        print_json(report);
    } else if (!options.quiet) {
        print_closing_line(report);
    }
    if (!options.interactive && take_interrupt()) end_by_interrupt();
    return show_schedule(*generator, options);
}

void add_text_options(CLI::App& command, RunOptions& options) {
    command.option_defaults()->group("Text");
    add_shared(command, shared::kPrompt, options.prompt,
               ": a message, or a text to continue; may also stand behind the model, or come from "
               "standard input. Without one at a terminal: a conversation",
               "prompt");
    command
        .add_option("-f,--file", options.prompt_file, "The prompt from a file; -: standard input")
        ->type_name("FILE");
    add_shared(command, shared::kTokens, options.tokens, ", at most")
        ->default_str(fmt::format("{}; of an answer: no limit", kTextTokens))
        ->check(whole_number(std::int64_t{0}, std::int64_t{1} << 30));
    command.add_flag("-i,--interactive", options.interactive,
                     "Talk: one line at a time; /help lists what else can be typed");
    CLI::Option* const chat =
        command.add_flag("--chat", options.chat,
                         "Give the prompt as a message; default where the model has a template");
    command.add_flag("--no-chat", options.no_chat, "Continue the prompt as it stands")
        ->excludes(chat);
    command.add_option("--system", options.system, "System message of the conversation");
    command.add_option("--stop", options.stops, "End the text before these words")
        ->type_name("TEXT")
        ->allow_extra_args(false);
}

void add_sampling_options(CLI::App& command, RunOptions& options) {
    command.option_defaults()->group("Sampling");
    command
        .add_option("--temperature", options.sampling.temperature,
                    "How freely to choose; 0 takes the likeliest")
        ->capture_default_str()
        ->check(real_number(0, 1e6));
    command.add_option("--top-k", options.sampling.top_k, "Choose among so many; 0: all")
        ->capture_default_str()
        ->check(whole_number(0, std::numeric_limits<int>::max()));
    command
        .add_option("--top-p", options.sampling.top_p,
                    "Choose among the likeliest that together have this probability")
        ->capture_default_str()
        ->check(real_number(0, 1));
    command
        .add_option("--min-p", options.sampling.min_p,
                    "Leave out what is less likely than this share of the likeliest")
        ->capture_default_str()
        ->check(real_number(0, 1));
    command
        .add_option("--repeat-penalty", options.sampling.repeat_penalty,
                    "How much less likely is what was among the last 64 tokens")
        ->capture_default_str()
        ->check(real_number(0.01, 100));
    add_shared(command, shared::kSeed, options.seed)
        ->default_str("a random one")
        ->check(whole_number());
}

}  // namespace

void add_run(CLI::App& app, int& status) {
    auto options = std::make_shared<RunOptions>();
    CLI::App* command = app.add_subcommand("run", "Talk with a model, or continue a text with it");
    command->add_option("model", options->model, "GGUF file of the llama family")
        ->type_name("FILE")
        ->required();
    add_text_options(*command, *options);
    add_sampling_options(*command, *options);
    options->on.add_options(*command);
    add_shared(*command, shared::kBatch, options->batch)
        ->capture_default_str()
        ->check(whole_number(std::size_t{1}, std::size_t{1} << 20));
    command->option_defaults()->group("Output");
    add_shared_flag(*command, shared::kJson, options->json);
    command->add_flag("--json-lines", options->json_lines,
                      "A JSON object in each line while it runs; the last has what --json gives");
    command->add_flag("--explain", options->explain, "Show the schedule afterwards");
    add_shared(*command, shared::kHtml, options->html, ": the schedule");
    command->add_flag("-q,--quiet", options->quiet, "Leave out the closing line");
    command->callback([options, command, &status] {
        const bool has_prompt = command->get_option("--prompt")->count() > 0;
        status = report_outcome("run", run(*options, has_prompt));
    });
}

}  // namespace heddle::tool
