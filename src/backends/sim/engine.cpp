#include "backends/sim/engine.hpp"

#include <algorithm>
#include <iterator>

namespace heddle::sim {

double Engine::free_from(double start, double duration) const {
    auto next = busy_.upper_bound(start);
    if (next != busy_.begin()) start = std::max(start, std::prev(next)->second);
    for (; next != busy_.end() && next->first < start + duration; ++next) start = next->second;
    return start;
}

void Engine::occupy(Span span) {
    end_ = std::max(end_, span.end);
    auto next = busy_.upper_bound(span.start);
    if (next != busy_.begin() && std::prev(next)->second >= span.start) {
        const auto before = std::prev(next);
        before->second = std::max(before->second, span.end);
        next = before;
    } else {
        next = busy_.emplace_hint(next, span.start, span.end);
    }
    const auto after = std::next(next);
    if (after == busy_.end() || after->first > next->second) return;
    next->second = std::max(next->second, after->second);
    busy_.erase(after);
}

void Engine::forget_before(double time) {
    while (!busy_.empty() && busy_.begin()->second <= time) busy_.erase(busy_.begin());
}

double free_from(std::initializer_list<const Engine*> engines, double start, double duration) {
    for (double before = start - 1; before != start;) {
        before = start;
        for (const Engine* engine : engines) start = engine->free_from(start, duration);
    }
    return start;
}

}  // namespace heddle::sim
