#include <algorithm>
#include <array>
#include <limits>

#include "model/pre_split.hpp"
#include "model/vocabulary.hpp"

namespace heddle::tool {
namespace {

std::string utf8(char32_t code) {
    if (code < 0x80) return {static_cast<char>(code)};
    return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// Byte-level pairs: text is cut into words, each byte of a word becomes a printable character, and
/// neighbours are joined in the order in which the model learned to.
class BytePairs final : public Tokenizer {
public:
    BytePairs(Vocabulary vocabulary, const std::vector<std::string>& merges, PreSplit split)
        : Tokenizer(std::move(vocabulary)), split_(split) {
        for (std::size_t i = 0; i < merges.size(); ++i) {
            ranks_.emplace(merges[i], static_cast<int>(i));
        }
        char32_t next = 256;
        for (int byte = 0; byte < 256; ++byte) {
            const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                                   (byte >= 0xAE && byte <= 0xFF);
            characters_[static_cast<std::size_t>(byte)] =
                utf8(printable ? static_cast<char32_t>(byte) : next++);
            bytes_[characters_[static_cast<std::size_t>(byte)]] = static_cast<char>(byte);
        }
    }

    std::string decode(Token token) const override {
        const auto kind = vocabulary_.kind_of(token);
        const std::string& piece = vocabulary_.pieces[static_cast<std::size_t>(token)];
        if (kind == Vocabulary::Kind::control) return {};
        if (kind == Vocabulary::Kind::user_defined) return piece;
        std::string text;
        for (std::size_t i = 0; i < piece.size();) {
            const std::size_t length = std::min(character_length(piece[i]), piece.size() - i);
            const auto byte = bytes_.find(piece.substr(i, length));
            if (byte != bytes_.end()) text += byte->second;
            i += length;
        }
        return text;
    }

private:
    void encode_plain(std::string_view text, bool, std::vector<Token>& out) const override {
        for (const std::string_view word : words_of(text, split_)) encode_word(word, out);
    }

    void encode_word(std::string_view word, std::vector<Token>& out) const {
        std::vector<std::string> parts;
        std::string whole;
        for (const char c : word) {
            parts.push_back(characters_[static_cast<unsigned char>(c)]);
            whole += parts.back();
        }
        if (const Token token = vocabulary_.find(whole); token != kNoToken) {
            out.push_back(token);
            return;
        }
        while (parts.size() > 1) {
            int best = std::numeric_limits<int>::max();
            std::size_t at = 0;
            for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
                const auto rank = ranks_.find(parts[i] + ' ' + parts[i + 1]);
                if (rank != ranks_.end() && rank->second < best) best = rank->second, at = i;
            }
            if (best == std::numeric_limits<int>::max()) break;
            parts[at] += parts[at + 1];
            parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        }
        for (const std::string& part : parts) emit(part, out);
    }

    void emit(const std::string& part, std::vector<Token>& out) const {
        if (const Token token = vocabulary_.find(part); token != kNoToken) {
            out.push_back(token);
            return;
        }
        for (std::size_t i = 0; i < part.size();) {
            const std::size_t length = character_length(part[i]);
            const Token token = vocabulary_.find(part.substr(i, length));
            if (token != kNoToken) out.push_back(token);
            i += length;
        }
    }

    PreSplit split_;
    std::unordered_map<std::string, int> ranks_;
    std::array<std::string, 256> characters_;
    std::unordered_map<std::string, char> bytes_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_byte_pairs(Vocabulary vocabulary, const ModelFile& file) {
    HEDDLE_TRY_ASSIGN(const std::vector<std::string> merges, file.texts("tokenizer.ggml.merges"));
    HEDDLE_TRY_ASSIGN(const PreSplit split,
                      pre_split_named(file.text("tokenizer.ggml.pre").value_or("default")));
    return std::unique_ptr<Tokenizer>(
        std::make_unique<BytePairs>(std::move(vocabulary), merges, split));
}

}  // namespace heddle::tool
