#include "model/vocabulary.hpp"

#include <algorithm>

namespace heddle::tool {
namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";

/// The number of a special token among `count`; none where the file names none.
Result<Token> token_key(const ModelFile& file, const std::string& key, std::size_t count) {
    if (!file.has(kPrefix + key)) return kNoToken;
    HEDDLE_TRY_ASSIGN(const std::int64_t number, file.integer(kPrefix + key));
    if (number >= kNoToken && number < static_cast<std::int64_t>(count)) {
        return static_cast<Token>(number);
    }
    return failure(Errc::corrupt, file.path(), ": a special token is number ", number,
                   ", the vocabulary has ", count);
}

Result<bool> flag_key(const ModelFile& file, const std::string& key, bool otherwise) {
    if (!file.has(kPrefix + key)) return otherwise;
    return file.flag(kPrefix + key);
}

/// A list with an element for each token; empty where the file has none.
template <class T>
Result<std::vector<T>> list_key(const ModelFile& file, const std::string& key, std::size_t count,
                                Result<std::vector<T>> (ModelFile::*read)(const std::string&)
                                    const) {
    if (!file.has(kPrefix + key)) return std::vector<T>();
    HEDDLE_TRY_ASSIGN(std::vector<T> list, (file.*read)(kPrefix + key));
    if (list.size() == count) return list;
    return failure(Errc::corrupt, file.path(), ": '", kPrefix, key, "' has ", list.size(),
                   " elements, the vocabulary ", count);
}

}  // namespace

Result<Vocabulary> Vocabulary::read(const ModelFile& file) {
    Vocabulary vocabulary;
    HEDDLE_TRY_ASSIGN(vocabulary.pieces, file.texts("tokenizer.ggml.tokens"));
    const std::size_t count = vocabulary.pieces.size();
    HEDDLE_TRY_ASSIGN(vocabulary.scores, list_key(file, "scores", count, &ModelFile::reals));
    vocabulary.scores.resize(count);
    HEDDLE_TRY_ASSIGN(const std::vector<std::int32_t> kinds,
                      list_key(file, "token_type", count, &ModelFile::integers));
    vocabulary.kinds.assign(count, Kind::normal);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        vocabulary.kinds[i] = static_cast<Kind>(kinds[i]);
    }
    vocabulary.numbers.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        vocabulary.numbers.emplace(vocabulary.pieces[i], static_cast<Token>(i));
    }
    HEDDLE_TRY_ASSIGN(vocabulary.bos, token_key(file, "bos_token_id", count));
    HEDDLE_TRY_ASSIGN(vocabulary.eos, token_key(file, "eos_token_id", count));
    HEDDLE_TRY_ASSIGN(vocabulary.unknown, token_key(file, "unknown_token_id", count));
    HEDDLE_TRY_ASSIGN(const Token end_of_turn, token_key(file, "eot_token_id", count));
    vocabulary.find_ends(end_of_turn);
    const bool sentencepiece = file.text("tokenizer.ggml.model").value_or("") == "llama";
    const std::string pre = file.text("tokenizer.ggml.pre").value_or("");
    const bool wants_bos = sentencepiece || pre == "llama-bpe";
    HEDDLE_TRY_ASSIGN(vocabulary.add_bos, flag_key(file, "add_bos_token", wants_bos));
    HEDDLE_TRY_ASSIGN(vocabulary.add_eos, flag_key(file, "add_eos_token", false));
    HEDDLE_TRY_ASSIGN(vocabulary.add_space_prefix,
                      flag_key(file, "add_space_prefix", sentencepiece));
    return vocabulary;
}

void Vocabulary::find_ends(Token end_of_turn) {
    for (const Token token : {eos, end_of_turn}) {
        if (token != kNoToken) ends.push_back(token);
    }
    // Files name one or two of them; models say the others too.
    for (const char* name : {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>",
                             "<|endoftext|>", "<|end_of_text|>"}) {
        const Token token = find(name);
        if (token != kNoToken && kind_of(token) == Kind::control) ends.push_back(token);
    }
}

bool Vocabulary::ends_text(Token token) const {
    return std::ranges::find(ends, token) != ends.end();
}

Token Vocabulary::find(const std::string& piece) const {
    const auto found = numbers.find(piece);
    return found == numbers.end() ? kNoToken : found->second;
}

Token Vocabulary::find_text(const std::string& piece) const {
    const Token token = find(piece);
    if (token == kNoToken) return kNoToken;
    const Kind kind = kind_of(token);
    const bool named = kind == Kind::control || kind == Kind::unknown || kind == Kind::byte;
    return named ? kNoToken : token;
}

Tokenizer::Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
    for (std::size_t i = 0; i < vocabulary_.size(); ++i) {
        const auto kind = vocabulary_.kinds[i];
        const bool special =
            kind == Vocabulary::Kind::control || kind == Vocabulary::Kind::user_defined;
        if (special && !vocabulary_.pieces[i].empty()) special_.push_back(static_cast<Token>(i));
    }
    std::ranges::stable_sort(special_, std::greater{}, [&](Token token) {
        return vocabulary_.pieces[static_cast<std::size_t>(token)].size();
    });
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::of(const ModelFile& file) {
    HEDDLE_TRY_ASSIGN(const std::string model, file.text("tokenizer.ggml.model"));
    HEDDLE_TRY_ASSIGN(Vocabulary vocabulary, Vocabulary::read(file));
    if (model == "llama") return make_sentencepiece(std::move(vocabulary));
    if (model == "gpt2") return make_byte_pairs(std::move(vocabulary), file);
    return failure(Errc::unsupported, file.path(), ": a tokenizer of the kind '", model,
                   "'; known are llama (SentencePiece) and gpt2 (byte pairs)");
}

/// Passages one after the other.
struct Tokenizer::Text {
    explicit Text(const Passages& passages) {
        for (const Passage& passage : passages) {
            if (passage.of_template) of_template.emplace_back(words.size(), passage.text.size());
            words += passage.text;
        }
    }

    /// Where `name` stands in words of the template, from a place on.
    std::size_t find_control(std::string_view name, std::size_t from) const {
        for (const auto& [begin, size] : of_template) {
            const std::size_t first = std::max(begin, from), end = begin + size;
            if (first >= end) continue;
            const auto found = std::string_view(words).substr(first, end - first).find(name);
            if (found != std::string_view::npos) return first + found;
        }
        return std::string::npos;
    }

    std::string words;
    std::vector<std::pair<std::size_t, std::size_t>> of_template;  ///< begins and sizes
};

struct Tokenizer::Found {
    std::size_t at;  ///< the end of the text if there is none
    Token token = kNoToken;
};

Tokenizer::Found Tokenizer::next_special(const Text& text, std::size_t from) const {
    Found next{text.words.size()};
    for (const Token candidate : special_) {
        const std::string& name = vocabulary_.pieces[static_cast<std::size_t>(candidate)];
        const bool control = vocabulary_.kind_of(candidate) == Vocabulary::Kind::control;
        const std::size_t at =
            control ? text.find_control(name, from) : text.words.find(name, from);
        if (at < next.at) next = {at, candidate};
    }
    return next;
}

std::vector<Token> Tokenizer::encode(const Passages& passages, bool add_bos) const {
    std::vector<Token> tokens;
    if (add_bos && vocabulary_.add_bos && vocabulary_.bos != kNoToken) {
        tokens.push_back(vocabulary_.bos);
    }
    const Text text(passages);
    bool first = true;
    for (std::size_t at = 0; at < text.words.size(); first = false) {
        const Found next = next_special(text, at);
        if (next.at > at) {
            encode_plain(std::string_view(text.words).substr(at, next.at - at), first, tokens);
        }
        if (next.token == kNoToken) break;
        tokens.push_back(next.token);
        at = next.at + vocabulary_.pieces[static_cast<std::size_t>(next.token)].size();
    }
    return tokens;
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool add_bos, bool of_template) const {
    return encode(Passages{{std::string(text), of_template}}, add_bos);
}

}  // namespace heddle::tool
