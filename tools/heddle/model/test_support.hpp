#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/vocabulary.hpp"

/// For tests: tokenizers of small files whose every piece is known.
namespace heddle::tool {

/// What a file says of its tokenizer.
struct Description {
    std::string model = "gpt2", pre = "gpt-2";
    std::vector<std::string> pieces;
    std::vector<Vocabulary::Kind> kinds = {};  ///< of the first pieces; the others are normal
    std::vector<float> scores = {};
    std::vector<std::string> merges = {};
    std::vector<std::pair<const char*, std::uint32_t>> tokens = {};
    std::vector<std::pair<const char*, bool>> flags = {};
};

/// The tokenizer of a file that says so.
Result<std::unique_ptr<Tokenizer>> read(const Description& what);

/// The same for one that must be fine.
std::unique_ptr<Tokenizer> make(const Description& what);

/// Special tokens, the 256 bytes as they are written in files, then what pairs of them become.
Description byte_pairs(const std::vector<std::string>& merges, const std::string& pre = "gpt-2");

/// Of such a tokenizer: that of a byte that is written as it is, and of a pair.
constexpr Token byte(char c) { return 3 + static_cast<unsigned char>(c); }
constexpr Token merge(int number) { return 3 + 256 + number; }

/// <unk> <s> </s>, the bytes, then pieces with their scores.
Description sentencepiece(const std::vector<std::pair<std::string, float>>& pieces,
                          bool with_bytes = true);

}  // namespace heddle::tool
