#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/result.hpp"

namespace heddle::tool {

/// How text is cut into words before byte pairs are joined; nothing is joined across words.
enum class PreSplit {
    gpt2,    ///< words with the space before them, numbers, other signs, white space
    smollm,  ///< the same, and every digit on its own
    llama3,  ///< numbers of up to three digits, words with the sign before them, line ends
};

/// For the value of `tokenizer.ggml.pre`.
Result<PreSplit> pre_split_named(const std::string& name);

std::vector<std::string_view> words_of(std::string_view text, PreSplit split);

}  // namespace heddle::tool
