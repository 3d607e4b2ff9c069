#include "jinja/lexer.hpp"

#include <algorithm>

#include "jinja/text.hpp"

namespace heddle::tool::jinja {
namespace {

using Kind = Token::Kind;

constexpr std::string_view kMarks[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                       "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                       ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

/// One kind of line end, and none at the very end.
std::string normalized(std::string_view source) {
    std::string made;
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            made += source[i];
        } else if (source.substr(i, 2) != "\r\n") {
            made += '\n';
        }
    }
    if (made.ends_with('\n')) made.pop_back();
    return made;
}

void append_utf8(std::string& to, unsigned code) {
    const auto put = [&](unsigned byte) { to += static_cast<char>(byte); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
        put(0xc0U | code >> 6U);
    } else if (code < 0x10000) {
        put(0xe0U | code >> 12U);
        put(0x80U | (code >> 6U & 0x3fU));
    } else {
        put(0xf0U | (code >> 18U & 7U));
        put(0x80U | (code >> 12U & 0x3fU));
        put(0x80U | (code >> 6U & 0x3fU));
    }
    put(0x80U | (code & 0x3fU));
}

class Lexer {
public:
    explicit Lexer(std::string source) : source_(std::move(source)) {}

    Result<std::vector<Token>> read() {
        while (at_ < source_.size()) {
            const std::size_t open = next_opening();
            read_data(open);
            if (open == source_.size()) break;
            const char kind = source_[open + 1];
            at_ = open + 2;
            if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
            if (kind == '#') {
                HEDDLE_TRY(skip_comment());
            } else if (kind == '%' && is_tag("raw")) {
                HEDDLE_TRY(read_raw());
            } else {
                HEDDLE_TRY(read_tag(kind));
            }
        }
        add(Kind::end, {});
        return std::move(tokens_);
    }

private:
    /// Lines are counted as tokens come.
    void add(Kind kind, std::string words) {
        line_ += static_cast<std::size_t>(
            std::count(source_.begin() + static_cast<std::ptrdiff_t>(counted_),
                       source_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
        counted_ = at_;
        tokens_.push_back({kind, std::move(words), line_});
    }

    Error fail(std::string_view what) {
        add(Kind::end, {});
        return invalid("line ", line_, ": ", what);
    }

    std::string_view rest() const { return std::string_view(source_).substr(at_); }
    char at(std::size_t place) const { return place < source_.size() ? source_[place] : '\0'; }

    std::size_t next_opening() const {
        for (std::size_t i = at_; (i = source_.find('{', i)) != std::string::npos; ++i) {
            const char kind = at(i + 1);
            if (kind == '{' || kind == '%' || kind == '#') return i;
        }
        return source_.size();
    }

    /// Text up to `open`, less what tags on its sides ask to leave out.
    void read_data(std::size_t open) {
        std::size_t end = open;
        const char kind = at(open + 1), sign = at(open + 2);
        if (open < source_.size() && sign == '-') {
            while (end > at_ && kWhiteSpace.find(source_[end - 1]) != std::string::npos) --end;
        } else if (open < source_.size() && kind != '{' && sign != '+') {
            std::size_t begin = end;
            while (begin > at_ && (source_[begin - 1] == ' ' || source_[begin - 1] == '\t')) {
                --begin;
            }
            const bool is_line_begin = begin == 0 || source_[begin - 1] == '\n';
            if (is_line_begin) end = begin;
        }
        if (end > at_) {
            const std::string words = source_.substr(at_, end - at_);
            add(Kind::data, words);
        }
        at_ = open;
    }

    /// Behind the end of a tag. Its line ends with it.
    void skip_behind(bool strips, bool is_block) {
        if (strips) {
            while (at_ < source_.size() && kWhiteSpace.find(source_[at_]) != std::string::npos) {
                ++at_;
            }
        } else if (is_block && at(at_) == '\n') {
            ++at_;
        }
    }

    Result<> skip_comment() {
        const std::size_t end = source_.find("#}", at_);
        if (end == std::string::npos) return fail("a comment does not end");
        const bool strips = end > at_ && source_[end - 1] == '-';
        at_ = end + 2;
        skip_behind(strips, true);
        return ok();
    }

    /// Where a tag of only `name` ends that begins here, behind its mark.
    std::size_t tag_end(std::size_t from, std::string_view name) const {
        const auto skip_space = [&](std::size_t i) {
            while (kWhiteSpace.find(at(i)) != std::string::npos && i < source_.size()) ++i;
            return i;
        };
        std::size_t i = skip_space(from);
        if (source_.compare(i, name.size(), name) != 0) return std::string::npos;
        i = skip_space(i + name.size());
        if (at(i) == '-' || at(i) == '+') ++i;
        return source_.compare(i, 2, "%}") == 0 ? i + 2 : std::string::npos;
    }

    bool is_tag(std::string_view name) const { return tag_end(at_, name) != std::string::npos; }

    Result<> read_raw() {
        at_ = tag_end(at_, "raw");
        skip_behind(source_[at_ - 3] == '-', true);
        for (std::size_t i = at_; (i = source_.find("{%", i)) != std::string::npos; i += 2) {
            const std::size_t inside = i + (at(i + 2) == '-' || at(i + 2) == '+' ? 3 : 2);
            const std::size_t end = tag_end(inside, "endraw");
            if (end == std::string::npos) continue;
            read_data(i);
            at_ = end;
            skip_behind(source_[at_ - 3] == '-', true);
            return ok();
        }
        return fail("'raw' does not end");
    }

    Result<> read_tag(char kind) {
        const bool is_output = kind == '{';
        const std::string_view close = is_output ? "}}" : "%}";
        add(is_output ? Kind::begin_output : Kind::begin_tag, {});
        std::size_t open = 0;  // brackets inside
        while (true) {
            while (at_ < source_.size() && kWhiteSpace.find(source_[at_]) != std::string::npos) {
                ++at_;
            }
            if (at_ == source_.size()) return fail("a tag does not end");
            const bool signs = (at(at_) == '-' || (at(at_) == '+' && !is_output)) &&
                               rest().substr(1).starts_with(close);
            if (open == 0 && (signs || rest().starts_with(close))) {
                const bool strips = at(at_) == '-';
                at_ += signs ? 3 : 2;
                const bool keeps = signs && !strips;
                add(is_output ? Kind::end_output : Kind::end_tag, {});
                skip_behind(strips, !is_output && !keeps);
                return ok();
            }
            HEDDLE_TRY(read_token(open));
        }
    }

    Result<> read_token(std::size_t& open) {
        const char c = source_[at_];
        if (c == '\'' || c == '"') return read_text(c);
        if (is_digit(c)) return read_number();
        if (is_name(c)) {
            const std::size_t begin = at_;
            while (is_name(at(at_))) ++at_;
            add(Kind::name, source_.substr(begin, at_ - begin));
            return ok();
        }
        for (const std::string_view mark : kMarks) {
            if (!rest().starts_with(mark)) continue;
            at_ += mark.size();
            if (mark == "(" || mark == "[" || mark == "{") ++open;
            if ((mark == ")" || mark == "]" || mark == "}") && open > 0) --open;
            add(Kind::mark, std::string(mark));
            return ok();
        }
        return fail("a character that means nothing here");
    }

    Result<> read_number() {
        const std::size_t begin = at_;
        bool is_real = false;
        while (is_digit(at(at_)) || at(at_) == '_') ++at_;
        if (at(at_) == '.' && is_digit(at(at_ + 1))) {
            is_real = true;
            ++at_;
            while (is_digit(at(at_))) ++at_;
        }
        const bool has_sign = at(at_ + 1) == '-' || at(at_ + 1) == '+';
        if ((at(at_) == 'e' || at(at_) == 'E') && is_digit(at(at_ + (has_sign ? 2 : 1)))) {
            is_real = true;
            at_ += has_sign ? 2 : 1;
            while (is_digit(at(at_))) ++at_;
        }
        std::string digits = source_.substr(begin, at_ - begin);
        std::erase(digits, '_');
        add(is_real ? Kind::real : Kind::whole, std::move(digits));
        return ok();
    }

    Result<> read_text(char quote) {
        std::string words;
        for (++at_; at(at_) != quote; ++at_) {
            if (at_ >= source_.size()) return fail("a text does not end");
            if (source_[at_] == '\\' && at_ + 1 < source_.size()) {
                read_escape(words);
            } else {
                words += source_[at_];
            }
        }
        ++at_;
        add(Kind::text, std::move(words));
        return ok();
    }

    /// Ends at its last character. What means nothing stands for itself.
    void read_escape(std::string& words) {
        constexpr std::string_view kLetters = "ntrabfv0\\'\"";
        constexpr std::string_view kMeant("\n\t\r\a\b\f\v\0\\'\"", 11);
        const char c = source_[++at_];
        if (c == '\n') return;
        if (const std::size_t known = kLetters.find(c); known != std::string::npos) {
            words += kMeant[known];
            return;
        }
        const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        unsigned code = 0;
        const std::string_view hex = rest().substr(1, digits);
        const auto value = [](char d) {
            return is_digit(d)                              ? d - '0'
                   : (d | 0x20) >= 'a' && (d | 0x20) <= 'f' ? (d | 0x20) - 'a' + 10
                                                            : -1;
        };
        const bool is_whole = digits > 0 && hex.size() == digits &&
                              std::ranges::all_of(hex, [&](char d) { return value(d) >= 0; });
        for (const char d : hex) code = code * 16 + static_cast<unsigned>(value(d));
        if (!is_whole || code > 0x10ffff) {
            words += '\\';
            words += c;
            return;
        }
        append_utf8(words, code);
        at_ += digits;
    }

    std::string source_;
    std::size_t at_ = 0, counted_ = 0, line_ = 1;
    std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokens_of(std::string_view source) {
    return Lexer(normalized(source)).read();
}

}  // namespace heddle::tool::jinja
