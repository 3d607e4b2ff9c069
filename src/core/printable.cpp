#include "core/printable.hpp"

#include <algorithm>

namespace heddle {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
    return static_cast<unsigned char>(text[i]);
}

/// Bytes of the character that begins with `first`; 0 if none does.
std::size_t length_from(unsigned char first) {
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;  // goes on, or an overlong form
    if (first < 0xE0) return 2;
    if (first < 0xF0) return 3;
    return first < 0xF5 ? 4 : 0;
}

/// Bytes of the character at the start of `text`; 0 if it is none, or a control character.
std::size_t printable_length(std::string_view text) {
    const unsigned char first = byte_at(text, 0);
    const std::size_t length = length_from(first);
    if (length == 0 || length > text.size()) return 0;
    if (length == 1) return first < ' ' || first == 0x7F ? 0 : 1;
    const auto goes_on = [](char c) { return (c & 0xC0) == 0x80; };
    if (!std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(length),
                     goes_on)) {
        return 0;
    }
    const unsigned char second = byte_at(text, 1);
    const bool is_control = first == 0xC2 && second < 0xA0;  // U+0080 to U+009F
    const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool is_none = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
    return is_control || is_overlong || is_none ? 0 : length;
}

}  // namespace

void make_printable(std::span<char> text, std::string_view kept) noexcept {
    for (std::size_t i = 0; i < text.size();) {
        const std::string_view rest(text.data() + i, text.size() - i);
        if (const std::size_t length = printable_length(rest); length > 0) {
            i += length;
            continue;
        }
        if (kept.find(text[i]) == std::string_view::npos) text[i] = '?';
        ++i;
    }
}

std::string printable(std::string_view text, std::string_view kept) {
    std::string result(text);
    make_printable(result, kept);
    return result;
}

std::size_t whole_characters(std::string_view text) noexcept {
    const std::size_t earliest = text.size() - std::min<std::size_t>(text.size(), 3);
    for (std::size_t i = text.size(); i-- > earliest;) {
        const std::size_t length = length_from(byte_at(text, i));
        if (length > text.size() - i) return i;
        if (length > 0) break;
    }
    return text.size();
}

}  // namespace heddle
