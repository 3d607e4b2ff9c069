#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace heddle::tool {

/// How much two neighbours want to be one; nothing if they cannot be.
using JoinScore =
    std::function<std::optional<float>(std::string_view left, std::string_view right)>;

/// Joins neighbours until none want to be joined: those of the highest score first, the leftmost
/// among equals. `lengths` are those of the parts of `text` at the beginning; the parts that are
/// left at the end come back. Takes n log n steps for n parts.
std::vector<std::string_view> joined(std::string_view text, std::span<const std::size_t> lengths,
                                     const JoinScore& score);

}  // namespace heddle::tool
