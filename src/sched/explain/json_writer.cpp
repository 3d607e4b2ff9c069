#include "sched/explain/json_writer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace heddle::sched {

std::size_t utf8_length(std::string_view text) {
    if (text.empty()) return 0;
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                               : first >= 0xE0 && first <= 0xEF ? 3
                               : first >= 0xF0 && first <= 0xF4 ? 4
                                                                : 0;
    if (length == 0 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return 0;
    }
    // Longer than needed, half of a UTF-16 pair, or past the last code point there is.
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return length;
}

void JsonWriter::write_string(std::string_view text) {
    out_ += '"';
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        const auto c = static_cast<unsigned char>(text.front());
        // '<' too, so that the text may stand in a page's script element.
        if (length == 1 && (c < 0x20 || c == 0x7F || c == '<')) {
            std::array<char, 8> escape{};
            std::snprintf(escape.data(), escape.size(), "\\u%04x", c);
            out_ += escape.data();
        } else if (c == '"' || c == '\\') {
            out_ += '\\';
            out_ += static_cast<char>(c);
        } else if (length == 0) {
            out_ += "\\ufffd";
        } else {
            out_ += text.substr(0, length);
        }
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    out_ += '"';
}

}  // namespace heddle::sched
