#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

/// A part of a text, and who says it.
struct Passage {
    std::string text;
    bool of_template = false;  ///< names of control tokens in it stand for these tokens
};

/// A text whose parts come from different people: what one says cannot pass for the template.
using Passages = std::vector<Passage>;

}  // namespace heddle::tool
