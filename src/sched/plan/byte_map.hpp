#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace heddle::sched {

/// A value for each byte of an address space, kept once for each stretch of equal ones.
template <class Value>
class ByteMap {
public:
    /// Calls `function(value)` for every stretch of [begin, end), which may change the value; bytes
    /// that were not asked for before have a fresh one.
    template <class Function>
    void visit(std::uintptr_t begin, std::uintptr_t end, Function function) {
        if (begin >= end) return;
        cut(begin);
        cut(end);
        std::uintptr_t at = begin;
        auto next = stretches_.lower_bound(begin);
        while (at < end) {
            if (next == stretches_.end() || next->first > at) {
                const std::uintptr_t until =
                    next == stretches_.end() ? end : std::min(end, next->first);
                next = stretches_.emplace_hint(next, at, Stretch{until, Value{}});
            }
            function(next->second.value);
            at = next->second.end;
            ++next;
        }
    }

private:
    struct Stretch {
        std::uintptr_t end;
        Value value;
    };

    /// Lets a stretch that goes across `at` end and begin there.
    void cut(std::uintptr_t at) {
        auto after = stretches_.lower_bound(at);
        if (after == stretches_.begin()) return;
        auto& [begin, stretch] = *std::prev(after);
        if (stretch.end <= at) return;
        stretches_.emplace_hint(after, at, stretch);
        stretch.end = at;
    }

    std::map<std::uintptr_t, Stretch> stretches_;  ///< by begin
};

}  // namespace heddle::sched
