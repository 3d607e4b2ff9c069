#include "jinja/text.hpp"

namespace heddle::tool::jinja {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

}  // namespace

Text Text::part(std::size_t begin, std::size_t count) const {
    Text made;
    made.bytes_ = bytes_.substr(begin, count);
    made.origins_ = origins_.substr(begin, count);
    return made;
}

std::vector<std::size_t> character_starts(std::string_view text) {
    std::vector<std::size_t> starts;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (i == 0 || !continues_character(text[i])) starts.push_back(i);
    }
    starts.push_back(text.size());
    return starts;
}

Text trimmed(const Text& text, std::string_view which, Ends ends) {
    const std::string_view gone = which.empty() ? kWhiteSpace : which;
    std::size_t begin = 0, end = text.size();
    if (ends != Ends::right) begin = std::min(text.view().find_first_not_of(gone), end);
    if (ends != Ends::left) end = text.view().find_last_not_of(gone) + 1;
    return begin >= end ? Text() : text.part(begin, end - begin);
}

Text replaced(const Text& text, std::string_view from, const Text& to, std::size_t most) {
    Text made;
    std::size_t at = 0;
    for (std::size_t done = 0; done < most; ++done) {
        const std::size_t found = text.view().find(from, at);
        // Between all characters, where there is nothing to find.
        if (found == std::string::npos || (from.empty() && at > text.size())) break;
        made.append(text.part(at, found - at));
        made.append(to);
        at = found + from.size();
        if (!from.empty()) continue;
        if (at == text.size()) return made;
        std::size_t next = at + 1;
        while (next < text.size() && continues_character(text.view()[next])) ++next;
        made.append(text.part(at, next - at));
        at = next;
    }
    if (at < text.size()) made.append(text.part(at));
    return made;
}

}  // namespace heddle::tool::jinja
