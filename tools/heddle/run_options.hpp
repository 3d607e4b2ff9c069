#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device_choice.hpp"
#include "model/sampler.hpp"

namespace heddle::tool {

/// What `heddle run` is asked for.
struct RunOptions {
    std::string model, prompt, prompt_file, system, html;
    RunsOn on;
    std::optional<std::int64_t> tokens;  ///< as many as fit, where an answer ends by itself
    std::size_t batch = 512;
    Sampler::Options sampling;
    std::optional<std::uint64_t> seed;
    std::vector<std::string> stops;
    bool json = false, json_lines = false, interactive = false, chat = false, no_chat = false,
         quiet = false, explain = false;

    bool is_for_scripts() const { return json || json_lines; }
};

/// Texts without an end of their own.
inline constexpr std::int64_t kTextTokens = 128;

}  // namespace heddle::tool
