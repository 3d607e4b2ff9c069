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
/// 1/127, and every layer makes more of it: the order of additions alone moves logits by per cents
/// of their spread. So the yardstick is the trusted device itself, reading the same text with
/// other instruction sets. A lead is a tie if it is within so many standard deviations of what
/// those make of leads. Chosen by what processors say of each other: of 86 tokens that one
/// instruction set of x86 would have chosen differently, in 90 texts of 64, none led by more than
/// 2.7, and one text had logits 1.5 times as far off as the others.
constexpr double kDeviations = 3;

/// All logits may be so many times as far off (root mean square) as with the farthest of those.
constexpr double kOfYardstick = 2;

/// Each has the weights once more.
constexpr std::size_t kMostSets = 3;

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

/// How the logits of two readers for one token compare.
struct Step {
    std::int64_t index = 0;               ///< of the token, after the prompt
    std::size_t trusted = 0, tested = 0;  ///< what either would choose
    double gap = 0;                       ///< of the trusted one's best two
    double sway = 0;                      ///< by so much it is another one for the tested one
    double lead = 0;                      ///< of the trusted one's choice, over the tested one's
    double spread = 0;                    ///< standard deviation of the trusted one's logits
    double error = 0, largest = 0;        ///< of the tested one: root mean square, most

    bool is_alike() const { return trusted == tested; }
};

Step compare(std::span<const float> right, std::span<const float> logits, std::int64_t index) {
    Step step{.index = index, .trusted = likeliest(right), .tested = likeliest(logits)};
    const auto count = static_cast<double>(right.size());
    double sum = 0, squares = 0, apart = 0;
    std::size_t second = step.trusted == 0 && right.size() > 1 ? 1 : 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
        const double difference = double{logits[i]} - right[i];
        sum += right[i];
        squares += double{right[i]} * right[i];
        apart += difference * difference;
        step.largest = std::max(step.largest, std::fabs(difference));
        if (i != step.trusted && right[i] > right[second]) second = i;
    }
    step.gap = double{right[step.trusted]} - right[second];
    step.sway = double{logits[step.trusted]} - logits[second] - step.gap;
    step.lead = double{right[step.trusted]} - right[step.tested];
    step.spread = std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
    step.error = std::sqrt(apart / count);
    return step;
}

/// Whoever reads the same text as the trusted device, and how that went.
struct Reading {
    std::string name;
    std::unique_ptr<Generator> generator;
    std::vector<Step> steps = {};

    /// Root mean square over all tokens, as a share of the spread.
    template <class Part>
    double mean_square_root(Part part) const {
        double sum = 0;
        for (const Step& step : steps) sum += std::pow(step.*part / step.spread, 2);
        return std::sqrt(sum / static_cast<double>(steps.size()));
    }
    double error() const { return mean_square_root(&Step::error); }
    double sway() const { return mean_square_root(&Step::sway); }
    std::ptrdiff_t alike() const { return std::ranges::count_if(steps, &Step::is_alike); }
};

/// The trusted device with other instruction sets; empty where it has no other.
struct Yardstick {
    std::unique_ptr<Target> target;
    std::string best;
    std::vector<Reading> readings;

    static Result<Yardstick> make(const ModelCheck& check, std::int64_t context) {
        Yardstick yardstick;
        HEDDLE_TRY_ASSIGN(Target target, Target::open(check.against));
        const std::vector<std::string> sets = target.instruction_sets();
        if (sets.size() < 2) return yardstick;
        yardstick.best = sets[0];
        for (std::size_t i = 1; i < sets.size() && i <= kMostSets; ++i) {
            HEDDLE_TRY_ASSIGN(auto generator, load(check, check.against, context));
            yardstick.readings.push_back({sets[i], std::move(generator)});
        }
        yardstick.target = std::make_unique<Target>(std::move(target));
        return yardstick;
    }

    Result<> read(const std::vector<Token>& tokens, std::span<const float> right,
                  std::int64_t index) {
        for (Reading& reading : readings) {
            HEDDLE_TRY(target->use_instruction_set(reading.name));
            auto read = reading.generator->read(tokens);
            HEDDLE_TRY(target->use_instruction_set(best));
            if (!read) return std::move(read).error();
            reading.steps.push_back(compare(right, *read, index));
        }
        return ok();
    }
};

Result<> continue_text(Generator& trusted, Reading& tested, Yardstick& yardstick,
                       const std::vector<Token>& prompt, std::int64_t count) {
    std::vector<Token> unread = prompt;
    Progress progress("comparing", static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
        progress.step("token " + std::to_string(i));
        HEDDLE_TRY_ASSIGN(const std::span<const float> right, trusted.read(unread));
        HEDDLE_TRY_ASSIGN(const std::span<const float> logits, tested.generator->read(unread));
        if (right.empty() || right.size() != logits.size()) {
            return failure(Errc::device, right.size(), " logits on one device and ", logits.size(),
                           " on the other");
        }
        tested.steps.push_back(compare(right, logits, i));
        HEDDLE_TRY(yardstick.read(unread, right, i));
        const auto token = static_cast<Token>(tested.steps.back().trusted);
        if (trusted.tokenizer().vocabulary().ends_text(token)) break;
        unread = {token};
    }
    return ok();
}

/// All tokens, and what to make of them.
struct Comparison {
    Reading tested;
    std::vector<Reading> others;
    double farthest = 0, sway = 0;  ///< of the others, as shares of the spread

    Comparison(Reading reading, std::vector<Reading> sets)
        : tested(std::move(reading)), others(std::move(sets)) {
        double squares = 0, count = 0;
        for (const Reading& other : others) {
            if (other.error() == 0) continue;  // the same sums in the same order
            farthest = std::max(farthest, other.error());
            squares += other.sway() * other.sway();
            ++count;
        }
        if (count > 0) sway = std::sqrt(squares / count);
    }
    double limit() const { return kNearTie + kOfYardstick * farthest; }
    double tie() const { return kNearTie + kDeviations * sway; }
    bool is_wrong(const Step& step) const {
        return !step.is_alike() && !(step.lead <= tie() * step.spread);
    }
    std::ptrdiff_t wrong() const {
        return std::ranges::count_if(tested.steps,
                                     [&](const Step& step) { return is_wrong(step); });
    }
    bool has_passed() const { return wrong() == 0 && tested.error() <= limit(); }
};

void print_steps(const Comparison& comparison, const Tokenizer& tokenizer) {
    Table table({"token", "trusted", "tested", "lead", "tie below", "error", "largest"});
    for (const std::size_t column : {1, 2}) table.align_left(column);
    const auto number = [](double value) { return fmt::format("{:.2e}", value); };
    bool any = false;
    for (const Step& step : comparison.tested.steps) {
        if (step.is_alike()) continue;
        any = true;
        table.add({std::to_string(step.index), tokenizer.decode(static_cast<Token>(step.trusted)),
                   tokenizer.decode(static_cast<Token>(step.tested)),
                   number(step.lead / step.spread), number(comparison.tie()),
                   number(step.error / step.spread), number(step.largest / step.spread)},
                  comparison.is_wrong(step) ? Colour::red : Colour::plain);
    }
    if (any) table.print(), print("\n");
}

nlohmann::json to_json(const Reading& reading) {
    nlohmann::json all{{"name", reading.name},
                       {"alike", reading.alike()},
                       {"error", reading.error()},
                       {"sway", reading.sway()},
                       {"tokens", nlohmann::json::array()}};
    for (const Step& step : reading.steps) {
        all["tokens"].push_back({{"token", step.index},
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

void print_json(const Comparison& comparison, const ModelCheck& check) {
    nlohmann::json all = to_json(comparison.tested);
    all["model"] = check.model;
    all["on"] = check.on;
    all["against"] = check.against;
    all["passed"] = comparison.has_passed();
    all["limit"] = comparison.limit();
    all["tie"] = comparison.tie();
    for (const Reading& other : comparison.others) all["yardstick"].push_back(to_json(other));
    print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

Result<bool> verify_text(const ModelCheck& check) {
    HEDDLE_TRY_ASSIGN(const ModelFile file, ModelFile::open(check.model));
    HEDDLE_TRY_ASSIGN(const auto tokenizer, Tokenizer::of(file));
    const std::vector<Token> prompt = tokenizer->encode(check.prompt, true, false);
    if (prompt.empty()) return invalid("the prompt is empty; give one with --prompt");
    const std::int64_t context = static_cast<std::int64_t>(prompt.size()) + check.tokens;
    HEDDLE_TRY_ASSIGN(const auto trusted, load(check, check.against, context));
    Reading tested{check.on, {}};
    HEDDLE_TRY_ASSIGN(tested.generator, load(check, check.on, context));
    HEDDLE_TRY_ASSIGN(Yardstick yardstick, Yardstick::make(check, context));
    HEDDLE_TRY(continue_text(*trusted, tested, yardstick, prompt, check.tokens));
    const Comparison comparison(std::move(tested), std::move(yardstick.readings));
    if (check.json) {
        print_json(comparison, check);
        return comparison.has_passed();
    }
    print_steps(comparison, *tokenizer);
    const auto count = static_cast<std::ptrdiff_t>(comparison.tested.steps.size());
    const std::ptrdiff_t alike = comparison.tested.alike();
    print("{} of {} tokens are alike on {} and {}", alike, count, check.on, check.against);
    if (const auto ties = count - alike - comparison.wrong(); ties > 0) {
        print(", {} more but for a tie", ties);
    }
    print("; logits are {:.1e} of their spread apart", comparison.tested.error());
    for (const Reading& other : comparison.others) {
        print(", {} with {}: {}, {:.1e}", check.against, other.name, other.alike(), other.error());
    }
    print("\n");
    return comparison.has_passed();
}

}  // namespace heddle::tool
