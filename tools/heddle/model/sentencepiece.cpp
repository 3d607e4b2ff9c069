#include <fmt/format.h>

#include "model/joining.hpp"
#include "model/unicode.hpp"
#include "model/vocabulary.hpp"

namespace heddle::tool {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, which stands for a space

/// SentencePiece with byte-pair merges: of all neighbours that together are a piece, those with the
/// highest score are joined first, the leftmost among equals.
class SentencePiece final : public Tokenizer {
public:
    explicit SentencePiece(Vocabulary vocabulary) : Tokenizer(std::move(vocabulary)) {
        bytes_.assign(256, kNoToken);
        for (int byte = 0; byte < 256; ++byte) {
            bytes_[static_cast<std::size_t>(byte)] =
                vocabulary_.find(fmt::format("<0x{:02X}>", byte));
        }
    }

    std::string decode(Token token) const override {
        const auto kind = vocabulary_.kind_of(token);
        const std::string& piece = vocabulary_.pieces[static_cast<std::size_t>(token)];
        if (kind == Vocabulary::Kind::control || kind == Vocabulary::Kind::unknown) return {};
        if (kind == Vocabulary::Kind::byte && piece.size() == 6) {
            return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
        }
        std::string text;
        for (std::size_t i = 0; i < piece.size();) {
            if (piece.compare(i, kSpace.size(), kSpace) == 0) {
                text += ' ';
                i += kSpace.size();
            } else {
                text += piece[i++];
            }
        }
        return text;
    }

private:
    void encode_plain(std::string_view plain, bool first, std::vector<Token>& out) const override {
        std::string text;
        if (first && vocabulary_.add_space_prefix) text = kSpace;
        for (const char c : plain) c == ' ' ? text += kSpace : text += c;

        std::vector<std::size_t> lengths;
        for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(lengths.back())) {
            lengths.push_back(first_character(rest).length);
        }
        const auto score = [&](std::string_view left, std::string_view right) {
            const Token token = vocabulary_.find_text(std::string(left).append(right));
            return token == kNoToken
                       ? std::nullopt
                       : std::optional(vocabulary_.scores[static_cast<std::size_t>(token)]);
        };
        for (const std::string_view piece : joined(text, lengths, score)) {
            emit(std::string(piece), out);
        }
    }

    void emit(const std::string& piece, std::vector<Token>& out) const {
        if (const Token token = vocabulary_.find_text(piece); token != kNoToken) {
            out.push_back(token);
            return;
        }
        for (const char c : piece) {
            const Token byte = bytes_[static_cast<unsigned char>(c)];
            const Token token = byte != kNoToken ? byte : vocabulary_.unknown;
            if (token != kNoToken) out.push_back(token);
        }
    }

    std::vector<Token> bytes_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece(Vocabulary vocabulary) {
    return std::make_unique<SentencePiece>(std::move(vocabulary));
}

}  // namespace heddle::tool
