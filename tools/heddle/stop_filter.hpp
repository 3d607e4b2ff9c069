#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::tool {

/// Lets a text through up to the first of some words, in whole characters. What may be the
/// beginning of such a word, or of a character, waits for what follows.
class StopFilter {
public:
    explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

    /// Adds to the text; gives what can be shown of it.
    std::string add(std::string_view bytes);

    /// What was held back, at the end.
    std::string rest();

    /// A word was found; nothing follows.
    bool is_stopped() const { return is_stopped_; }

private:
    /// How much of what waits cannot belong to a word that stops.
    std::size_t free_bytes() const;

    std::vector<std::string> stops_;
    std::string waiting_;
    bool is_stopped_ = false;
};

}  // namespace heddle::tool
