#include "model/pre_split.hpp"

#include <locale.h>

#include <clocale>
#include <cwctype>

#include "model/vocabulary.hpp"

namespace heddle::tool {
namespace {

enum class Class { letter, number, space, other, end };

/// What a character is. Beyond ASCII the system's tables are asked; where it has none, everything
/// is taken for a letter.
Class class_of(char32_t code) {
    if (code < 0x80) {
        if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')) return Class::letter;
        if (code >= '0' && code <= '9') return Class::number;
        return code == ' ' || (code >= '\t' && code <= '\r') ? Class::space : Class::other;
    }
    static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (unicode == nullptr) return Class::letter;
    const auto wide = static_cast<wint_t>(code);
    if (iswspace_l(wide, unicode) != 0 || code == 0xA0) return Class::space;
    if (iswpunct_l(wide, unicode) != 0) return Class::other;
    return iswalpha_l(wide, unicode) != 0 ? Class::letter : Class::other;
}

/// Walks over the characters of a text.
class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) {}

    std::size_t position() const { return at_; }
    void go_to(std::size_t position) { at_ = position; }
    bool done() const { return at_ >= text_.size(); }
    Class next_class(std::size_t ahead = 0) const {
        std::size_t at = at_;
        for (; ahead > 0 && at < text_.size(); --ahead) at += length_at(at);
        return at < text_.size() ? class_of(code_at(at)) : Class::end;
    }
    char peek() const { return done() ? '\0' : text_[at_]; }
    void skip() { at_ += length_at(at_); }
    void skip_all(Class wanted) {
        while (!done() && next_class() == wanted) skip();
    }
    std::string_view text() const { return text_; }

private:
    std::size_t length_at(std::size_t at) const {
        return std::min(character_length(text_[at]), text_.size() - at);
    }
    char32_t code_at(std::size_t at) const {
        const std::size_t length = length_at(at);
        const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text_[at + i]); };
        if (length == 1) return byte(0);
        char32_t code = byte(0) & (0xFFu >> (length + 1));
        for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3Fu);
        return code;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

/// Skips 's 't 're 've 'm 'll 'd, and says whether there was one.
bool skip_contraction(Reader& reader, bool any_case) {
    const std::string_view rest = reader.text().substr(reader.position());
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
void skip_space(Reader& reader) {
    std::size_t last = reader.position();
    const std::size_t begin = last;
    while (!reader.done() && reader.next_class() == Class::space) {
        last = reader.position();
        reader.skip();
    }
    if (!reader.done() && last > begin) reader.go_to(last);
}

void skip_word_gpt2(Reader& reader, bool single_digits) {
    if (skip_contraction(reader, false)) return;
    const bool spaced = reader.peek() == ' ';
    const Class kind = reader.next_class(spaced ? 1 : 0);
    if (kind == Class::space || kind == Class::end) return skip_space(reader);
    if (single_digits && kind == Class::number) {
        reader.skip();  // the space alone, or the digit
        return;
    }
    if (spaced) reader.skip();
    reader.skip_all(kind);
}

void skip_word_llama3(Reader& reader) {
    if (skip_contraction(reader, true)) return;
    const Class kind = reader.next_class();
    const bool line_end = reader.peek() == '\n' || reader.peek() == '\r';
    if (kind == Class::letter ||
        (!line_end && kind != Class::number && reader.next_class(1) == Class::letter)) {
        reader.skip();
        reader.skip_all(Class::letter);
        return;
    }
    if (kind == Class::number) {
        for (int i = 0; i < 3 && reader.next_class() == Class::number; ++i) reader.skip();
        return;
    }
    if (kind == Class::other || (reader.peek() == ' ' && reader.next_class(1) == Class::other)) {
        reader.skip();
        reader.skip_all(Class::other);
        while (reader.peek() == '\n' || reader.peek() == '\r') reader.skip();
        return;
    }
    // White space up to its last line end, if there is one.
    const std::size_t begin = reader.position();
    std::size_t behind_line = begin;
    while (!reader.done() && reader.next_class() == Class::space) {
        const bool ends = reader.peek() == '\n' || reader.peek() == '\r';
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
        if (reader.position() == begin) reader.skip();
        words.push_back(text.substr(begin, reader.position() - begin));
    }
    return words;
}

}  // namespace heddle::tool
