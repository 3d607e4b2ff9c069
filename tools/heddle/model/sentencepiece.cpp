#include <fmt/format.h>

#include <queue>

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
    struct Symbol {
        std::size_t begin, length;  ///< a length of 0: joined with the one before it
        int previous, next;
    };
    struct Join {
        int left, right;
        std::size_t length;  ///< when it was proposed
        float score;
        bool operator<(const Join& other) const {
            return score != other.score ? score < other.score : left > other.left;
        }
    };

    void encode_plain(std::string_view plain, bool first, std::vector<Token>& out) const override {
        std::string text;
        if (first && vocabulary_.add_space_prefix) text = kSpace;
        for (const char c : plain) c == ' ' ? text += kSpace : text += c;

        std::vector<Symbol> symbols;
        for (std::size_t i = 0; i < text.size();) {
            const std::size_t length = std::min(character_length(text[i]), text.size() - i);
            const int number = static_cast<int>(symbols.size());
            symbols.push_back({i, length, number - 1, number + 1});
            i += length;
        }
        if (symbols.empty()) return;
        symbols.back().next = -1;
        join(text, symbols);
        for (int i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
            const Symbol& symbol = symbols[static_cast<std::size_t>(i)];
            emit(text.substr(symbol.begin, symbol.length), out);
        }
    }

    void join(const std::string& text, std::vector<Symbol>& symbols) const {
        std::priority_queue<Join> joins;
        const auto propose = [&](int left, int right) {
            if (left < 0 || right < 0) return;
            const Symbol &a = symbols[static_cast<std::size_t>(left)],
                         &b = symbols[static_cast<std::size_t>(right)];
            const Token token = vocabulary_.find(text.substr(a.begin, a.length + b.length));
            if (token == kNoToken) return;
            joins.push({left, right, a.length + b.length,
                        vocabulary_.scores[static_cast<std::size_t>(token)]});
        };
        for (std::size_t i = 1; i < symbols.size(); ++i) {
            propose(static_cast<int>(i) - 1, static_cast<int>(i));
        }
        while (!joins.empty()) {
            const Join best = joins.top();
            joins.pop();
            Symbol &left = symbols[static_cast<std::size_t>(best.left)],
                   &right = symbols[static_cast<std::size_t>(best.right)];
            const bool outdated =
                left.length == 0 || right.length == 0 || left.length + right.length != best.length;
            if (outdated) continue;
            left.length += right.length;
            right.length = 0;
            left.next = right.next;
            if (right.next >= 0) symbols[static_cast<std::size_t>(right.next)].previous = best.left;
            propose(left.previous, best.left);
            propose(best.left, left.next);
        }
    }

    void emit(const std::string& piece, std::vector<Token>& out) const {
        if (const Token token = vocabulary_.find(piece); token != kNoToken) {
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
