#include "model/pre_split.hpp"

#include "model/unicode.hpp"

namespace heddle::tool {
namespace {

using Class = CharacterClass;

/// Walks over the characters of a text.
class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) {}

    std::size_t position() const { return at_; }
    void go_to(std::size_t position) { at_ = position; }
    std::string_view rest() const { return text_.substr(at_); }
    bool done() const { return at_ >= text_.size(); }
    bool is_at(Class wanted) const { return !done() && class_of(next().code) == wanted; }
    bool is_at(char wanted) const { return !done() && text_[at_] == wanted; }
    bool is_at_line_end() const { return is_at('\n') || is_at('\r'); }
    /// Whether a character of this class comes after the next one.
    bool is_before(Class wanted) const {
        if (done()) return false;
        Reader behind = *this;
        behind.skip();
        return behind.is_at(wanted);
    }
    void skip() { at_ += next().length; }
    void skip_all(Class wanted) {
        while (is_at(wanted)) skip();
    }

private:
    Character next() const { return first_character(rest()); }

    std::string_view text_;
    std::size_t at_ = 0;
};

/// Skips 's 't 're 've 'm 'll 'd, and says whether there was one.
bool skip_contraction(Reader& reader, bool any_case) {
    const std::string_view rest = reader.rest();
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
        if (rest.size() < ending.size()) continue;
        bool equal = true;
        for (std::size_t i = 0; i < ending.size(); ++i) {
            const char c = any_case && rest[i] >= 'A' && rest[i] <= 'Z'
                               ? static_cast<char>(rest[i] - 'A' + 'a')
                               : rest[i];
            equal = equal && c == ending[i];
        }
        if (!equal) continue;
        reader.go_to(reader.position() + ending.size());
        return true;
    }
    return false;
}

/// White space; the last of it is left for the word behind it, if there is one.
void skip_space(Reader& reader, bool digits_stand_alone = false) {
    const std::size_t begin = reader.position();
    std::size_t last = begin;
    while (reader.is_at(Class::space)) {
        last = reader.position();
        reader.skip();
    }
    if (reader.done() || (digits_stand_alone && reader.is_at(Class::number))) return;
    if (last > begin) reader.go_to(last);
}

void skip_word_gpt2(Reader& reader, bool single_digits) {
    if (skip_contraction(reader, false)) return;
    if (single_digits && reader.is_at(Class::number)) return reader.skip();
    for (const Class kind : {Class::letter, Class::number, Class::other}) {
        const bool spaced = reader.is_at(' ') && reader.is_before(kind);
        if (!spaced && !reader.is_at(kind)) continue;
        if (single_digits && kind == Class::number) break;
        if (spaced) reader.skip();
        return reader.skip_all(kind);
    }
    skip_space(reader, single_digits);
}

void skip_word_llama3(Reader& reader) {
    if (skip_contraction(reader, true)) return;
    const bool leads = !reader.is_at_line_end() && !reader.is_at(Class::number);
    if (reader.is_at(Class::letter) || (leads && reader.is_before(Class::letter))) {
        reader.skip();
        return reader.skip_all(Class::letter);
    }
    if (reader.is_at(Class::number)) {
        for (int i = 0; i < 3 && reader.is_at(Class::number); ++i) reader.skip();
        return;
    }
    if (reader.is_at(Class::other) || (reader.is_at(' ') && reader.is_before(Class::other))) {
        reader.skip();
        reader.skip_all(Class::other);
        while (reader.is_at_line_end()) reader.skip();
        return;
    }
    // White space up to its last line end, if there is one.
    const std::size_t begin = reader.position();
    std::size_t behind_line = begin;
    while (reader.is_at(Class::space)) {
        const bool ends = reader.is_at_line_end();
        reader.skip();
        if (ends) behind_line = reader.position();
    }
    if (behind_line > begin) return reader.go_to(behind_line);
    reader.go_to(begin);
    skip_space(reader);
}

}  // namespace

Result<PreSplit> pre_split_named(const std::string& name) {
    if (name == "gpt-2" || name == "gpt2" || name == "default") return PreSplit::gpt2;
    if (name == "smollm" || name == "codeshell" || name == "starcoder") return PreSplit::smollm;
    if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") return PreSplit::llama3;
    return failure(Errc::unsupported, "a tokenizer that splits text like '", name,
                   "'; known are gpt-2, smollm, llama-bpe");
}

std::vector<std::string_view> words_of(std::string_view text, PreSplit split) {
    std::vector<std::string_view> words;
    Reader reader(text);
    while (!reader.done()) {
        const std::size_t begin = reader.position();
        if (split == PreSplit::llama3) {
            skip_word_llama3(reader);
        } else {
            skip_word_gpt2(reader, split == PreSplit::smollm);
        }
        words.push_back(text.substr(begin, reader.position() - begin));
    }
    return words;
}

}  // namespace heddle::tool
