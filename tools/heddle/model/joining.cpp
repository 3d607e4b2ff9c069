#include "model/joining.hpp"

#include <queue>

namespace heddle::tool {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// A part; one of no text was joined with the one before it.
struct Part {
    std::string_view text;
    std::size_t previous, next;
};

struct Join {
    std::size_t left, right;
    std::size_t length;  ///< of both when it was proposed
    float score;
    bool operator<(const Join& other) const {
        return score != other.score ? score < other.score : left > other.left;
    }
};

}  // namespace

std::vector<std::string_view> joined(std::string_view text, std::span<const std::size_t> lengths,
                                     const JoinScore& score) {
    std::vector<Part> parts;
    for (std::size_t i = 0, at = 0; i < lengths.size(); at += lengths[i++]) {
        parts.push_back({text.substr(at, lengths[i]), i == 0 ? kNone : i - 1,
                         i + 1 == lengths.size() ? kNone : i + 1});
    }
    std::priority_queue<Join> joins;
    const auto propose = [&](std::size_t left, std::size_t right) {
        if (left == kNone || right == kNone) return;
        const std::string_view a = parts[left].text, b = parts[right].text;
        if (const auto wanted = score(a, b)) {
            joins.push({left, right, a.size() + b.size(), *wanted});
        }
    };
    for (std::size_t i = 1; i < parts.size(); ++i) propose(i - 1, i);
    while (!joins.empty()) {
        const Join best = joins.top();
        joins.pop();
        Part &left = parts[best.left], &right = parts[best.right];
        const bool outdated = left.text.empty() || right.text.empty() ||
                              left.text.size() + right.text.size() != best.length;
        if (outdated) continue;
        // Neighbours lie side by side in the text.
        left.text = {left.text.data(), best.length};
        right.text = {};
        left.next = right.next;
        if (right.next != kNone) parts[right.next].previous = best.left;
        propose(left.previous, best.left);
        propose(best.left, left.next);
    }
    std::vector<std::string_view> left_over;
    for (std::size_t i = parts.empty() ? kNone : 0; i != kNone; i = parts[i].next) {
        left_over.push_back(parts[i].text);
    }
    return left_over;
}

}  // namespace heddle::tool
