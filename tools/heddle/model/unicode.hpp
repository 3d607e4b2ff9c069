#pragma once

#include <cstddef>
#include <string_view>

namespace heddle::tool {

/// One character of a text in UTF-8.
struct Character {
    char32_t code;       ///< kNoCharacter for a byte that is part of none
    std::size_t length;  ///< in bytes
};
inline constexpr char32_t kNoCharacter = 0xFFFD;

/// The first character of `text`, which is not empty. Whatever is no UTF-8 (a lone byte, an
/// overlong form, half of a surrogate pair, the beginning of a character at the end of the text) is
/// taken a byte at a time.
Character first_character(std::string_view text);

enum class CharacterClass { letter, number, space, other };

/// By tables of our own, so that texts are cut alike on every machine.
CharacterClass class_of(char32_t code);

}  // namespace heddle::tool
