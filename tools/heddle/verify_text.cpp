#include "verify_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "console.hpp"
#include "device_choice.hpp"
#include "model/generator.hpp"
#include "target.hpp"
#include "text_comparison.hpp"

namespace heddle::tool {
namespace {

/// Instruction sets that are compared with: each has the weights once more.
constexpr std::size_t kMostSets = 3;

Result<std::unique_ptr<Generator>> load(const SharedModelFile& file, const ModelCheck& check,
                                        const std::string& device, std::int64_t context) {
    HEDDLE_TRY_ASSIGN(const DeviceChoice devices, choose_devices({device}, {}));
    return Generator::load(file, {.rooms = devices.rooms,
                                  .helpers = devices.helpers,
                                  .context = context,
                                  .batch = static_cast<std::size_t>(check.batch),
                                  .on_tensor = {}});
}

/// A device that reads the same texts as the trusted one, and how that goes.
struct Reader {
    TextReading reading;
    std::unique_ptr<Generator> generator;
};

/// The trusted device with other instruction sets; empty where it has no other.
struct Yardstick {
    std::unique_ptr<Target> target;
    std::string best;
    std::vector<Reader> readers;

    static Result<Yardstick> make(const SharedModelFile& file, const ModelCheck& check,
                                  std::int64_t context) {
        Yardstick yardstick;
        HEDDLE_TRY_ASSIGN(Target target, Target::open(check.against));
        const std::vector<std::string> sets = target.instruction_sets();
        if (sets.size() < 2) return yardstick;
        yardstick.best = sets[0];
        yardstick.target = std::make_unique<Target>(std::move(target));
        for (std::size_t i = 1; i < sets.size() && i <= kMostSets; ++i) {
            // How weights are laid out depends on the instruction set that is going to read them.
            HEDDLE_TRY_ASSIGN(auto generator, yardstick.within(sets[i], [&] {
                return load(file, check, check.against, context);
            }));
            yardstick.readers.push_back({{sets[i]}, std::move(generator)});
        }
        return yardstick;
    }

    /// The logits of a reader, with its instruction set.
    Result<std::span<const float>> read(const Reader& reader,
                                        const std::vector<Token>& tokens) const {
        return within(reader.reading.name, [&] { return reader.generator->read(tokens); });
    }

    /// What `work` gives with the instruction set `set`; the best one counts again afterwards.
    template <class Work>
    auto within(const std::string& set, const Work& work) const -> decltype(work()) {
        HEDDLE_TRY(target->use_instruction_set(set));
        auto outcome = work();
        HEDDLE_TRY(target->use_instruction_set(best));
        return outcome;
    }
};

/// Everything that reads.
struct Readers {
    std::unique_ptr<Generator> trusted;
    Reader tested;
    Yardstick yardstick;

    /// Reads `tokens` with all of them; what the trusted one would go on with.
    Result<Token> step(const std::vector<Token>& tokens, std::size_t text, std::int64_t index) {
        HEDDLE_TRY_ASSIGN(const std::span<const float> right, trusted->read(tokens));
        const auto note = [&](Reader& reader, std::span<const float> logits) -> Result<> {
            if (right.empty() || right.size() != logits.size()) {
                return failure(Errc::device, right.size(), " logits on one device and ",
                               logits.size(), " on the other");
            }
            TokenStep step = TokenStep::of(right, logits);
            step.text = text, step.index = index;
            reader.reading.steps.push_back(step);
            return ok();
        };
        HEDDLE_TRY_ASSIGN(const auto logits, tested.generator->read(tokens));
        HEDDLE_TRY(note(tested, logits));
        for (Reader& reader : yardstick.readers) {
            HEDDLE_TRY_ASSIGN(const auto others, yardstick.read(reader, tokens));
            HEDDLE_TRY(note(reader, others));
        }
        return static_cast<Token>(tested.reading.steps.back().trusted);
    }
    void forget() {
        trusted->forget();
        tested.generator->forget();
        for (Reader& reader : yardstick.readers) reader.generator->forget();
    }
};

Result<> read_texts(Readers& readers, const std::vector<std::vector<Token>>& prompts,
                    std::int64_t count) {
    Progress progress("comparing", prompts.size() * static_cast<std::size_t>(count));
    for (std::size_t text = 0; text < prompts.size(); ++text) {
        readers.forget();
        std::vector<Token> unread = prompts[text];
        for (std::int64_t i = 0; i < count; ++i) {
            progress.step("token " + std::to_string(i));
            HEDDLE_TRY_ASSIGN(const Token token, readers.step(unread, text, i));
            if (readers.trusted->tokenizer().vocabulary().ends_text(token)) break;
            unread = {token};
        }
    }
    return ok();
}

// ---- output ------------------------------------------------------------------------------------

void print_steps(const TextComparison& comparison, const Tokenizer& tokenizer) {
    Table table({"text", "token", "trusted", "tested", "lead", "tie below", "error", "largest"});
    for (const std::size_t column : {2, 3}) table.align_left(column);
    const auto number = [](double value) { return fmt::format("{:.2e}", value); };
    for (const TokenStep& step : comparison.tested().steps) {
        if (step.is_alike()) continue;
        table.add({std::to_string(step.text), std::to_string(step.index),
                   tokenizer.decode(static_cast<Token>(step.trusted)),
                   tokenizer.decode(static_cast<Token>(step.tested)),
                   number(step.lead / step.spread), number(comparison.tie()),
                   number(step.error / step.spread), number(step.largest / step.spread)},
                  comparison.is_wrong(step) ? Colour::red : Colour::plain);
    }
    if (comparison.tested().departures() > 0) table.print(), print("\n");
}

void print_summary(const TextComparison& comparison, const ModelCheck& check) {
    const TextReading& tested = comparison.tested();
    print("{} of {} tokens are alike on {} and {}", tested.alike(), tested.steps.size(), check.on,
          check.against);
    if (const auto ties = tested.departures() - comparison.wrong(); ties > 0) {
        print(", {} more but for a tie", ties);
    }
    print("; logits are {:.1e} of their spread apart", tested.error());
    for (const TextReading& other : comparison.others()) {
        print(", {} with {}: {}, {:.1e}", check.against, other.name, other.alike(), other.error());
    }
    print("\n");
    if (comparison.has_passed()) return;
    print("{}\n", coloured(fmt::format("rounding explains no lead above {:.1e}, {:.0f} other "
                                       "tokens and logits {:.1e} apart",
                                       comparison.tie(), comparison.most_departures(),
                                       comparison.most_error()),
                           Colour::red));
}

nlohmann::json to_json(const TextReading& reading) {
    nlohmann::json all{{"name", reading.name},
                       {"alike", reading.alike()},
                       {"error", reading.error()},
                       {"sway", reading.sway()},
                       {"tokens", nlohmann::json::array()}};
    for (const TokenStep& step : reading.steps) {
        all["tokens"].push_back({{"text", step.text},
                                 {"token", step.index},
                                 {"trusted", step.trusted},
                                 {"tested", step.tested},
                                 {"gap", step.gap},
                                 {"sway", step.sway},
                                 {"lead", step.lead},
                                 {"spread", step.spread},
                                 {"error", step.error},
                                 {"largest", step.largest}});
    }
    return all;
}

void print_json(const TextComparison& comparison, const ModelCheck& check) {
    nlohmann::json all = to_json(comparison.tested());
    all["model"] = check.model;
    all["on"] = check.on;
    all["against"] = check.against;
    all["passed"] = comparison.has_passed();
    all["limit"] = comparison.most_error();
    all["tie"] = comparison.tie();
    all["wrong"] = comparison.wrong();
    all["most_departures"] = comparison.most_departures();
    all["yardstick"] = nlohmann::json::array();
    for (const TextReading& other : comparison.others()) {
        all["yardstick"].push_back(to_json(other));
    }
    print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

Result<bool> verify_text(const ModelCheck& check) {
    HEDDLE_TRY_ASSIGN(const SharedModelFile file, open_model(check.model));
    HEDDLE_TRY_ASSIGN(const auto tokenizer, Tokenizer::of(*file));
    std::vector<std::vector<Token>> prompts;
    std::size_t longest = 0;
    for (const std::string& prompt : check.prompts) {
        prompts.push_back(tokenizer->encode(prompt, true, false));
        if (prompts.back().empty()) return invalid("the prompt is empty; give one with --prompt");
        longest = std::max(longest, prompts.back().size());
    }
    const std::int64_t context = static_cast<std::int64_t>(longest) + check.tokens;
    Readers readers{.trusted = {}, .tested = {{check.on}, {}}, .yardstick = {}};
    HEDDLE_TRY_ASSIGN(readers.trusted, load(file, check, check.against, context));
    HEDDLE_TRY_ASSIGN(readers.tested.generator, load(file, check, check.on, context));
    HEDDLE_TRY_ASSIGN(readers.yardstick, Yardstick::make(file, check, context));
    HEDDLE_TRY(read_texts(readers, prompts, check.tokens));
    std::vector<TextReading> others;
    for (Reader& reader : readers.yardstick.readers) others.push_back(std::move(reader.reading));
    const TextComparison comparison(std::move(readers.tested.reading), std::move(others));
    if (check.json) {
        print_json(comparison, check);
    } else {
        print_steps(comparison, *tokenizer);
        print_summary(comparison, check);
    }
    return comparison.has_passed();
}

}  // namespace heddle::tool
