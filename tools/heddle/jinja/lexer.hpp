#pragma once

#include <string>
#include <vector>

#include "heddle/result.hpp"

namespace heddle::tool::jinja {

struct Token {
    enum class Kind {
        data,
        begin_output,
        end_output,
        begin_tag,
        end_tag,
        name,
        text,
        whole,
        real,
        mark,
        end
    };

    Kind kind = Kind::end;
    std::string words;  ///< a text without its quotes, escapes carried out
    std::size_t line = 0;
};

/// The parts of a template. Lines that hold nothing but a tag leave nothing behind, as programs set
/// Jinja up for chat templates (`trim_blocks`, `lstrip_blocks`).
Result<std::vector<Token>> tokens_of(std::string_view source);

}  // namespace heddle::tool::jinja
