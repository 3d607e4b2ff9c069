#include "sched/place.hpp"

#include <array>
#include <iomanip>
#include <sstream>

#include "heddle/backend/objection.h"
#include "ops/catalogue.hpp"
#include "runtime/device.hpp"

namespace heddle::sched {

Result<Placement> place(Abilities& abilities, const Pins& pins) {
    Placement placement;
    placement.choices.resize(abilities.index().size());
    HEDDLE_TRY(rules::keep_pins(abilities, pins, placement));
    rules::anchor(abilities, placement);
    rules::spread(abilities, placement);
    HEDDLE_TRY(rules::settle(abilities, placement));
    rules::upgrade(abilities, placement);
    rules::follow(abilities, placement);
    rules::bring_writers_home(abilities, placement);
    return placement;
}

std::string_view name_of(Rule rule) {
    static constexpr std::array<std::string_view, kRuleCount> names{
        "none",   "pinned",  "own_memory",  "viewed_memory", "away",         "input",
        "weight", "offload", "spread_down", "spread_up",     "best_sources", "upgrade",
        "view",   "reader",  "first_able",  "cost",
    };
    const auto number = static_cast<std::size_t>(rule);
    return number < names.size() ? names[number] : "?";
}

std::string objection(const Runner& runner, const Tensor& node) {
    if (!runner.available) return "is not available";
    if (supports_op(*runner.device, node)) return {};
    std::string words;
    if (Registration* registration = runner.device->reg; registration != nullptr) {
        const auto ask = reinterpret_cast<heddle_device_objection_t>(
            find_function(*registration, HEDDLE_DEVICE_OBJECTION));
        const char* answer = ask != nullptr ? ask(runner.device, &node) : nullptr;
        if (answer != nullptr) words = answer;
    }
    return words.empty() ? "does not support it" : words;
}

std::string to_text(const Placement& placement, const GraphIndex& index, const Team& team) {
    std::ostringstream out;
    const auto name = [&](RunnerId id) {
        return id == kNoRunner ? std::string("no device") : team[id].name;
    };
    for (std::size_t i = 0; i < index.nodes().size(); ++i) {
        const TensorId id = index.nodes()[i];
        const Choice& choice = placement[id];
        out << std::setw(5) << i << ' ' << describe_op_of(index[id]) << ' ' << describe(index[id])
            << " on " << name(choice.runner) << ": " << name_of(choice.rule);
        if (choice.because != kNoTensor && choice.because != id) {
            out << " '" << heddle::name_of(index[choice.because]) << '\'';
        }
        if (choice.rule == Rule::away) out << ", memory of " << name(choice.home);
        if (choice.lost_pin) out << ", its pin is to a device that is not available";
        out << '\n';
    }
    return std::move(out).str();
}

}  // namespace heddle::sched
