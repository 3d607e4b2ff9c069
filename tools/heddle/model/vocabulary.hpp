#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heddle/heddle.hpp"
#include "model/passage.hpp"

namespace heddle::tool {

using Token = std::int32_t;
inline constexpr Token kNoToken = -1;

/// The pieces of text a model knows, as its file lists them.
struct Vocabulary {
    /// As numbered in files.
    enum class Kind : std::int32_t { normal = 1, unknown, control, user_defined, unused, byte };

    std::vector<std::string> pieces;
    std::vector<float> scores;
    std::vector<Kind> kinds;
    std::unordered_map<std::string, Token> numbers;
    Token bos = kNoToken, eos = kNoToken, unknown = kNoToken;
    std::vector<Token> ends;  ///< of the text, or of what one of those who talk says
    bool add_bos = false, add_eos = false, add_space_prefix = true;

    static Result<Vocabulary> read(const ModelFile& file);

    std::size_t size() const { return pieces.size(); }
    Token find(const std::string& piece) const;  ///< kNoToken if there is none
    /// The same, but of pieces that stand for what they say: the name of a control token, typed
    /// letter by letter, is none.
    Token find_text(const std::string& piece) const;
    Kind kind_of(Token token) const { return kinds[static_cast<std::size_t>(token)]; }
    bool ends_text(Token token) const;

private:
    void find_ends(Token end_of_turn);
};

/// Turns text into tokens and back.
class Tokenizer {
public:
    virtual ~Tokenizer() = default;

    /// The one that the file asks for.
    static Result<std::unique_ptr<Tokenizer>> of(const ModelFile& file);

    /// Words of the template may name control tokens, those of others are only words. Between
    /// control tokens the text is one, whoever says it.
    std::vector<Token> encode(const Passages& passages, bool add_bos) const;

    /// A text of one passage.
    std::vector<Token> encode(std::string_view text, bool add_bos, bool of_template = false) const;

    /// The bytes of one token, for output. They need not be whole characters.
    virtual std::string decode(Token token) const = 0;

    const Vocabulary& vocabulary() const { return vocabulary_; }

protected:
    explicit Tokenizer(Vocabulary vocabulary);

    /// Tokens of text without special ones. `first`: nothing comes before it.
    virtual void encode_plain(std::string_view text, bool first, std::vector<Token>& out) const = 0;

    Vocabulary vocabulary_;

private:
    struct Text;
    struct Found;
    Found next_special(const Text& text, std::size_t from) const;

    std::vector<Token> special_;  ///< control and user-defined tokens, longest first
};

std::unique_ptr<Tokenizer> make_sentencepiece(Vocabulary vocabulary);
Result<std::unique_ptr<Tokenizer>> make_byte_pairs(Vocabulary vocabulary, const ModelFile& file);

}  // namespace heddle::tool
