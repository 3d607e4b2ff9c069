#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heddle::tool {

/// The candidate that differs least from `word`, if little enough to be what was meant: letters
/// replaced, left out, added, or swapped with their neighbour, in about a third of the word. Case
/// does not count. Empty if there is none.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'run'?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace heddle::tool
