#include "jinja/state.hpp"

namespace heddle::tool::jinja {
namespace {

constexpr std::size_t kBytesPerStep = 32;

}  // namespace

Result<> State::spend(std::size_t steps) {
    steps_ += steps;
    if (steps_ <= limits_.steps) return ok();
    return invalid("the template takes more than ", limits_.steps, " steps");
}

Result<> State::check_text(std::size_t bytes) const {
    if (bytes <= limits_.bytes) return ok();
    return invalid("a text of ", bytes, " bytes; the most is ", limits_.bytes);
}

Result<> State::spend_text(std::size_t bytes) {
    HEDDLE_TRY(check_text(bytes));
    return spend(bytes / kBytesPerStep + 1);
}

Result<> State::spend_search(std::size_t all, std::size_t what) {
    constexpr std::size_t kShort = 16;  // bytes that are compared at once
    HEDDLE_TRY(spend_text(all));
    return spend(all / kBytesPerStep * (what / kShort));
}

Result<> State::check_depth() const {
    if (depth_ <= limits_.depth) return ok();
    return invalid("expressions and calls are more than ", limits_.depth, " deep in each other");
}

Value State::find(const std::string& name) const {
    for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
        const auto found = scope->names.find(name);
        if (found != scope->names.end()) return found->second;
    }
    return Undefined{"'" + name + "'"};
}

Result<> State::write(const Text& text) {
    HEDDLE_TRY(check_text(output_.size() + text.size()));
    HEDDLE_TRY(spend_text(text.size()));
    output_.append(text);
    return ok();
}

}  // namespace heddle::tool::jinja
