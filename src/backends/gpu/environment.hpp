#pragma once

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "heddle/backend/guard.hpp"

namespace heddle::gpu {

/// The whole number that the variable of this name is set to; none if it is not set (`words` is
/// null) and, with a warning, for anything else.
inline std::optional<std::int64_t> whole_number(std::string_view backend, std::string_view name,
                                                const char* words) {
    if (words == nullptr) return std::nullopt;
    std::int64_t number = 0;
    const char* const end = words + std::strlen(words);
    const auto [stop, failed] = std::from_chars(words, end, number);
    if (failed == std::errc{} && stop == end) return number;
    plugin::log(GGML_LOG_LEVEL_WARN,
                text(backend, ": ", name, " is '", words, "', no whole number"));
    return std::nullopt;
}

}  // namespace heddle::gpu
