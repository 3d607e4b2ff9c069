#include "verify_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "console.hpp"
#include "device_choice.hpp"
#include "model/generator.hpp"

namespace heddle::tool {
namespace {

/// Two logits that are nearer than this share of the spread (standard deviation) of all of them
/// are a tie: the order in which sums are added up decides it.
constexpr double kNearTie = 1e-3;

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

    bool is_alike() const { return trusted == tested; }
    bool is_tie() const { return lead < kNearTie * spread; }
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

Result<std::vector<Step>> continue_text(Generator& trusted, Generator& tested,
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
        const auto token = static_cast<Token>(steps.back().trusted);
        if (trusted.tokenizer().vocabulary().ends_text(token)) break;
        unread = {token};
    }
    return steps;
}

void print_steps(const std::vector<Step>& steps, const Tokenizer& tokenizer) {
    Table table({"token", "trusted", "tested", "lead", "lead / spread", "rms error", "most"});
    for (const std::size_t column : {1, 2}) table.align_left(column);
    bool any = false;
    for (const Step& step : steps) {
        if (step.is_alike()) continue;
        any = true;
        table.add({std::to_string(step.index), tokenizer.decode(static_cast<Token>(step.trusted)),
                   tokenizer.decode(static_cast<Token>(step.tested)),
                   fmt::format("{:.2e}", step.lead), fmt::format("{:.2e}", step.lead / step.spread),
                   fmt::format("{:.2e}", step.error), fmt::format("{:.2e}", step.largest)},
                  step.is_tie() ? Colour::plain : Colour::red);
    }
    if (any) table.print(), fmt::print("\n");
}

nlohmann::json json_of(const Step& step) {
    return {{"token", step.index}, {"trusted", step.trusted}, {"tested", step.tested},
            {"gap", step.gap},     {"lead", step.lead},       {"spread", step.spread},
            {"error", step.error}, {"largest", step.largest}, {"alike", step.is_alike()},
            {"tie", step.is_tie()}};
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
    HEDDLE_TRY_ASSIGN(const auto steps, continue_text(*trusted, *tested, prompt, check.tokens));

    const auto alike = std::ranges::count_if(steps, &Step::is_alike);
    const auto wrong = std::ranges::count_if(
        steps, [](const Step& step) { return !step.is_alike() && !step.is_tie(); });
    const Step& worst = *std::ranges::max_element(
        steps, {}, [](const Step& step) { return step.error / step.spread; });
    const Step& nearest = *std::ranges::min_element(steps, {}, &Step::gap);
    if (check.json) {
        nlohmann::json all{{"model", check.model},
                           {"on", check.on},
                           {"against", check.against},
                           {"passed", wrong == 0},
                           {"tokens", nlohmann::json::array()}};
        for (const Step& step : steps) all["tokens"].push_back(json_of(step));
        fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return wrong == 0;
    }
    print_steps(steps, *tokenizer);
    fmt::print("{} of {} tokens are alike on {} and {}", alike, steps.size(), check.on,
               check.against);
    const auto ties = static_cast<std::ptrdiff_t>(steps.size()) - alike - wrong;
    if (ties > 0) fmt::print(", {} more but for a near tie", ties);
    fmt::print(
        "; logits are at most {:.1e} of their spread apart (rms), the nearest two best {:.1e}\n",
        worst.error / worst.spread, nearest.gap / nearest.spread);
    return wrong == 0;
}

}  // namespace heddle::tool
