#include <array>

#include "model/joining.hpp"
#include "model/pre_split.hpp"
#include "model/unicode.hpp"
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
        : Tokenizer(std::move(vocabulary)), split_(split), whole_words_(split == PreSplit::llama3) {
        for (std::size_t i = 0; i < merges.size(); ++i) {
            ranks_.emplace(merges[i], static_cast<float>(i));
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
        for (std::string_view rest = piece; !rest.empty();) {
            const std::size_t length = first_character(rest).length;
            const auto byte = bytes_.find(std::string(rest.substr(0, length)));
            if (byte != bytes_.end()) text += byte->second;
            rest.remove_prefix(length);
        }
        return text;
    }

private:
    void encode_plain(std::string_view text, bool, std::vector<Token>& out) const override {
        for (const std::string_view word : words_of(text, split_)) encode_word(word, out);
    }

    void encode_word(std::string_view word, std::vector<Token>& out) const {
        std::string text;
        std::vector<std::size_t> lengths;
        for (const char c : word) {
            const std::string& character = characters_[static_cast<unsigned char>(c)];
            text += character;
            lengths.push_back(character.size());
        }
        if (whole_words_) {
            if (const Token token = vocabulary_.find_text(text); token != kNoToken) {
                out.push_back(token);
                return;
            }
        }
        const auto score = [&](std::string_view left, std::string_view right) {
            const auto rank = ranks_.find(std::string(left).append(" ").append(right));
            return rank == ranks_.end() ? std::nullopt : std::optional(-rank->second);
        };
        for (const std::string_view part : joined(text, lengths, score)) {
            emit(std::string(part), out);
        }
    }

    /// What was joined but is not in the vocabulary is written byte by byte.
    void emit(const std::string& part, std::vector<Token>& out) const {
        if (const Token token = vocabulary_.find_text(part); token != kNoToken) {
            out.push_back(token);
            return;
        }
        for (std::string_view rest = part; !rest.empty();) {
            const std::size_t length = first_character(rest).length;
            const Token token = vocabulary_.find(std::string(rest.substr(0, length)));
            if (token != kNoToken) out.push_back(token);
            rest.remove_prefix(length);
        }
    }

    PreSplit split_;
    bool whole_words_;  ///< a word that is in the vocabulary is taken without joining
    std::unordered_map<std::string, float> ranks_;  ///< exact: there are fewer than 2^24
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
