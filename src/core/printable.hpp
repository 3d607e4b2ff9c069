#pragma once

#include <span>
#include <string>
#include <string_view>

/// Texts from outside (files, plug-ins, models) may steer a terminal by control characters.
namespace heddle {

/// Control characters and bytes that are no UTF-8 become '?', but for those in `kept`. Takes no
/// memory.
void make_printable(std::span<char> text, std::string_view kept = {}) noexcept;

/// The same as a copy.
std::string printable(std::string_view text, std::string_view kept = {});

/// How many bytes of `text` are whole characters: at most its last three are left out, where they
/// begin a character of UTF-8 that goes on in a text to come.
std::size_t whole_characters(std::string_view text) noexcept;

}  // namespace heddle
