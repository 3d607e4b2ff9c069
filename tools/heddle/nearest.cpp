#include "nearest.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace heddle::tool {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// Without what people leave out or mix up: Q4KM, mul-mat.
std::string plain(std::string_view word) {
    std::string made;
    for (const char c : word) {
        if (c != '_' && c != '-') made += lower(c);
    }
    return made;
}

/// The Damerau-Levenshtein distance, with swaps of neighbours only.
std::size_t distance(std::string_view a, std::string_view b) {
    // Three rows of the table: two before the current one, for swaps.
    std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const bool same = lower(a[i - 1]) == lower(b[j - 1]);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
            const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                                 lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before.swap(last);
        last.swap(row);
    }
    return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
    constexpr std::size_t kLongest = 64;  // nobody mistypes a name of ours that long
    if (word.empty() || word.size() > kLongest) return {};
    std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
    std::string best;
    for (const std::string& candidate : candidates) {
        const std::size_t far = plain(word) == plain(candidate) ? 0 : distance(word, candidate);
        if (far < least && far < candidate.size()) least = far, best = candidate;
    }
    return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
    const std::string meant = nearest(word, candidates);
    return meant.empty() ? "" : "; did you mean '" + meant + "'?";
}

}  // namespace heddle::tool
