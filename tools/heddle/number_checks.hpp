#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

/// Checks of numbers on the command line: NaN, infinity and what does not fit are refused.
namespace heddle::tool {

/// As people write it: 1000000, not 1e+06.
inline std::string plain(double value) {
    constexpr double kWhole = 1e15;  // below it a double has every whole number
    if (std::abs(value) < kWhole && value == std::floor(value)) {
        return std::to_string(static_cast<std::int64_t>(value));
    }
    return CLI::detail::to_string(value);
}

/// A real number of at least `least`, and at most `most` if that is given.
inline CLI::Validator real_number(double least,
                                  double most = std::numeric_limits<double>::infinity()) {
    const bool has_end = std::isfinite(most);
    const std::string range =
        has_end ? "from " + plain(least) + " to " + plain(most) : "of at least " + plain(least);
    return {[=](const std::string& text) -> std::string {
                double value = 0;
                const char* const end = text.data() + text.size();
                const auto [rest, problem] = std::from_chars(text.data(), end, value);
                const bool is_number = problem == std::errc() && rest == end;
                if (is_number && std::isfinite(value) && value >= least && value <= most) return {};
                return "'" + text + "' is not a number " + range;
            },
            "number " + range};
}

/// A whole number from `least` to `most`.
template <class Number = std::uint64_t>
CLI::Validator whole_number(Number least = 0, Number most = std::numeric_limits<Number>::max()) {
    return {[=](const std::string& text) -> std::string {
                Number value = 0;
                const char* const end = text.data() + text.size();
                const auto [rest, problem] = std::from_chars(text.data(), end, value);
                const bool is_number = problem == std::errc() && rest == end;
                if (is_number && value >= least && value <= most) return {};
                return "'" + text + "' is not a whole number from " + std::to_string(least) +
                       " to " + std::to_string(most);
            },
            ""};
}

}  // namespace heddle::tool
