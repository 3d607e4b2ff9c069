#include "verify_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "console.hpp"
#include "device_choice.hpp"
#include "model/generator.hpp"
#include "target.hpp"

namespace heddle::tool {
namespace {

/// Logits that are nearer than this share of the spread (standard deviation) of all of them are a
/// tie: the order in which sums are added up decides it.
constexpr double kNearTie = 1e-3;

/// Where activations are rounded to eight bits, a last bit decides now and then about a step of
/// 1/127, and every layer makes more of it. So the yardstick is the trusted device itself, reading
/// the same text with another instruction set: logits may be so many times as far apart as there,
/// and what is nearer is a tie too.
constexpr double kOfYardstick = 3;

Result<std::unique_ptr<Generator>> load(const ModelCheck& check, const std::string& device,
                                        std::int64_t context) {
    HEDDLE_TRY_ASSIGN(const DeviceChoice devices, choose_devices({device}, {}));
    return Generator::load(
        check.model,
        {.rooms = devices.rooms, .helpers = devices.helpers, .context = context, .on_tensor = {}});
}

std::size_t likeliest(std::span<const float> logits) {
    return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

/// How the devices' logits for one token compare.
struct Step {
    std::int64_t index = 0;               ///< of the token, after the prompt
    std::size_t trusted = 0, tested = 0;  ///< what either would choose
    double gap = 0;                       ///< of the trusted device's best two
    double lead = 0;                      ///< of its choice, over what the tested one chose
    double spread = 0;                    ///< standard deviation of its logits
    double error = 0, largest = 0;        ///< of the tested device: root mean square, most
    double noise = 0;                     ///< of the yardstick: root mean square

    bool is_alike() const { return trusted == tested; }
};

Step compare(std::span<const float> right, std::span<const float> logits, std::int64_t index) {
    Step step{.index = index, .trusted = likeliest(right), .tested = likeliest(logits)};
    const auto count = static_cast<double>(right.size());
    double sum = 0, squares = 0, apart = 0;
    float second = -INFINITY;
    for (std::size_t i = 0; i < right.size(); ++i) {
        const double difference = double{logits[i]} - right[i];
        sum += right[i];
        squares += double{right[i]} * right[i];
        apart += difference * difference;
        step.largest = std::max(step.largest, std::fabs(difference));
        if (i != step.trusted) second = std::max(second, right[i]);
    }
    step.gap = double{right[step.trusted]} - second;
    step.lead = double{right[step.trusted]} - right[step.tested];
    step.spread = std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
    step.error = std::sqrt(apart / count);
    return step;
}

/// The trusted device with another instruction set; empty where it has no other.
struct Yardstick {
    std::unique_ptr<Generator> generator;
    std::unique_ptr<Target> target;
    std::string best, other;

    static Result<Yardstick> make(const ModelCheck& check, std::int64_t context) {
        Yardstick yardstick;
        HEDDLE_TRY_ASSIGN(Target target, Target::open(check.against));
        const std::vector<std::string> sets = target.instruction_sets();
        if (sets.size() < 2) return yardstick;
        yardstick.best = sets[0], yardstick.other = sets[1];
        yardstick.target = std::make_unique<Target>(std::move(target));
        HEDDLE_TRY_ASSIGN(yardstick.generator, load(check, check.against, context));
        return yardstick;
    }

    /// Adds to `step` how far it is from `right`.
    Result<> measure(const std::vector<Token>& tokens, std::span<const float> right,
                     Step& step) const {
        if (generator == nullptr) return ok();
        HEDDLE_TRY(target->use_instruction_set(other));
        auto read = generator->read(tokens);
        HEDDLE_TRY(target->use_instruction_set(best));
        if (!read) return std::move(read).error();
        step.noise = compare(right, *read, step.index).error;
        return ok();
    }
};

Result<std::vector<Step>> continue_text(Generator& trusted, Generator& tested,
                                        const Yardstick& yardstick,
                                        const std::vector<Token>& prompt, std::int64_t count) {
    std::vector<Step> steps;
    std::vector<Token> unread = prompt;
    Progress progress("comparing", static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
        progress.step("token " + std::to_string(i));
        HEDDLE_TRY_ASSIGN(const std::span<const float> right, trusted.read(unread));
        HEDDLE_TRY_ASSIGN(const std::span<const float> logits, tested.read(unread));
        if (right.empty() || right.size() != logits.size()) {
            return failure(Errc::device, right.size(), " logits on one device and ", logits.size(),
                           " on the other");
        }
        steps.push_back(compare(right, logits, i));
        HEDDLE_TRY(yardstick.measure(unread, right, steps.back()));
        const auto token = static_cast<Token>(steps.back().trusted);
        if (trusted.tokenizer().vocabulary().ends_text(token)) break;
        unread = {token};
    }
    return steps;
}

/// All tokens, and what to make of them.
struct Comparison {
    std::vector<Step> steps;
    double error = 0, noise = 0;  ///< largest, as shares of the spread

    explicit Comparison(std::vector<Step> all) : steps(std::move(all)) {
        for (const Step& step : steps) {
            error = std::max(error, step.error / step.spread);
            noise = std::max(noise, step.noise / step.spread);
        }
    }
    double limit() const { return kNearTie + kOfYardstick * noise; }
    bool is_wrong(const Step& step) const {
        return !step.is_alike() && !(step.lead <= limit() * step.spread);
    }
    std::ptrdiff_t alike() const { return std::ranges::count_if(steps, &Step::is_alike); }
    std::ptrdiff_t wrong() const {
        return std::ranges::count_if(steps, [&](const Step& step) { return is_wrong(step); });
    }
    bool has_passed() const { return wrong() == 0 && error <= limit(); }
};

void print_steps(const Comparison& comparison, const Tokenizer& tokenizer) {
    Table table({"token", "trusted", "tested", "lead", "spread", "error", "largest", "yardstick"});
    for (const std::size_t column : {1, 2}) table.align_left(column);
    const auto number = [](double value) { return fmt::format("{:.2e}", value); };
    bool any = false;
    for (const Step& step : comparison.steps) {
        if (step.is_alike()) continue;
        any = true;
        table.add(
            {std::to_string(step.index), tokenizer.decode(static_cast<Token>(step.trusted)),
             tokenizer.decode(static_cast<Token>(step.tested)), number(step.lead),
             number(step.spread), number(step.error), number(step.largest), number(step.noise)},
            comparison.is_wrong(step) ? Colour::red : Colour::plain);
    }
    if (any) table.print(), fmt::print("\n");
}

void print_json(const Comparison& comparison, const ModelCheck& check) {
    nlohmann::json all{{"model", check.model},
                       {"on", check.on},
                       {"against", check.against},
                       {"passed", comparison.has_passed()},
                       {"error", comparison.error},
                       {"noise", comparison.noise},
                       {"tokens", nlohmann::json::array()}};
    for (const Step& step : comparison.steps) {
        all["tokens"].push_back({{"token", step.index},
                                 {"trusted", step.trusted},
                                 {"tested", step.tested},
                                 {"gap", step.gap},
                                 {"lead", step.lead},
                                 {"spread", step.spread},
                                 {"error", step.error},
                                 {"largest", step.largest},
                                 {"noise", step.noise}});
    }
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

Result<bool> verify_text(const ModelCheck& check) {
    HEDDLE_TRY_ASSIGN(const ModelFile file, ModelFile::open(check.model));
    HEDDLE_TRY_ASSIGN(const auto tokenizer, Tokenizer::of(file));
    const std::vector<Token> prompt = tokenizer->encode(check.prompt, true, false);
    if (prompt.empty()) return invalid("the prompt is empty; give one with --prompt");
    const std::int64_t context = static_cast<std::int64_t>(prompt.size()) + check.tokens;
    HEDDLE_TRY_ASSIGN(const auto trusted, load(check, check.against, context));
    HEDDLE_TRY_ASSIGN(const auto tested, load(check, check.on, context));
    HEDDLE_TRY_ASSIGN(const Yardstick yardstick, Yardstick::make(check, context));
    HEDDLE_TRY_ASSIGN(auto steps,
                      continue_text(*trusted, *tested, yardstick, prompt, check.tokens));
    const Comparison comparison(std::move(steps));
    if (check.json) {
        print_json(comparison, check);
        return comparison.has_passed();
    }
    print_steps(comparison, *tokenizer);
    const auto count = static_cast<std::ptrdiff_t>(comparison.steps.size());
    const std::ptrdiff_t ties = count - comparison.alike() - comparison.wrong();
    fmt::print("{} of {} tokens are alike on {} and {}", comparison.alike(), count, check.on,
               check.against);
    if (ties > 0) fmt::print(", {} more but for a tie", ties);
    fmt::print("; logits are {:.1e} of their spread apart", comparison.error);
    if (yardstick.generator != nullptr) {
        fmt::print(", on {} with {} {:.1e}", check.against, yardstick.other, comparison.noise);
    }
    fmt::print("\n");
    return comparison.has_passed();
}

}  // namespace heddle::tool
