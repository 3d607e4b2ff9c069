#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "worker.hpp"

namespace heddle::campaign {
namespace {

std::string_view file_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Those of the system, the sanitizers and this program tell nothing about the cause.
bool is_ours(std::string_view module, std::string_view function) {
    for (const char* theirs : {"libc.so", "libm.so", "libstdc++", "libgcc", "ld-linux", "libasan",
                               "libubsan", "libtsan", "linux-vdso", "libpthread"}) {
        if (module.substr(0, std::strlen(theirs)) == theirs) return false;
    }
    for (const char* ours : {"heddle::campaign::", "heddle::fuzz::", "main", "_start", "__asan",
                             "__ubsan", "__sanitizer", "__interceptor", "malloc", "free"}) {
        if (function.substr(0, std::strlen(ours)) == ours) return false;
    }
    return true;
}

/// `void heddle::cpu::(anonymous namespace)::run<float>(heddle::Node const&)` is
/// `heddle::cpu::run`.
std::string shortened(std::string_view name) {
    constexpr std::string_view kAnonymous = "(anonymous namespace)::";
    std::string plain;
    int depth = 0;  // of template arguments
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name.substr(i, kAnonymous.size()) == kAnonymous) {
            i += kAnonymous.size() - 1;
            continue;
        }
        const char c = name[i];
        if (c == '<') ++depth;
        if (depth == 0 && c == '(') break;
        if (depth == 0 && c == ' ') plain.clear();  // it was the type of the result
        if (depth == 0 && c != ' ') plain += c;
        if (c == '>' && depth > 0) --depth;
    }
    return plain;
}

/// In base 16 with the digits a to p: causes are told apart by letters alone.
std::string in_letters(std::uintptr_t number) {
    std::string letters;
    for (; number != 0; number /= 16) letters.insert(letters.begin(), char('a' + number % 16));
    return letters;
}

/// The function at an offset of a file, by its table of symbols; where that cannot be read, the
/// file and the offset.
std::string look_up(const char* file, std::uintptr_t offset) {
    char command[600];
    std::snprintf(command, sizeof command, "addr2line -Cfe '%s' 0x%zx 2>/dev/null", file, offset);
    std::FILE* answer = popen(command, "re");
    char line[2000] = "";
    const bool read = answer != nullptr && std::fgets(line, sizeof line, answer) != nullptr;
    if (answer != nullptr) pclose(answer);
    line[std::strcspn(line, "\n")] = 0;
    if (read && line[0] != '?' && line[0] != 0) return shortened(line);
    return text(file_of(file), "+", in_letters(offset));
}

/// Names of functions, innermost first, at most `most`.
std::string functions_of(std::span<void* const> frames, std::size_t most) {
    static std::map<void*, std::pair<std::string, std::string>> known;  // module, function
    std::string names;
    std::size_t count = 0;
    for (void* frame : frames) {
        // The handler of signals is the first of them, and a function of this program.
        auto found = known.find(frame);
        if (found == known.end()) {
            Dl_info info{};
            std::string module = "?", function = "a function of a file that is not loaded here";
            if (dladdr(frame, &info) != 0 && info.dli_fname != nullptr) {
                const auto base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);

                module = file_of(info.dli_fname);
                function =
                    look_up(info.dli_fname, reinterpret_cast<std::uintptr_t>(frame) - base - 1);
            }
            found = known.emplace(frame, std::pair(module, function)).first;
        }
        const auto& [module, function] = found->second;
        if (!is_ours(module, function)) continue;
        if (!names.empty()) names += " < ";
        names += function;
        if (++count == most) break;
    }
    return names;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// What a sanitizer says in its first line with a name in it.
std::string report_of(const std::string& said) {
    for (const char* word : {"ERROR: ", "WARNING: ", "runtime error: "}) {
        const std::size_t at = said.find(word);
        if (at != said.npos) return first_line(said.substr(at + std::strlen(word)));
    }
    return {};
}

std::string describe(const Failure& failure, std::size_t frames) {
    std::string line;
    switch (failure.kind) {
        case Failure::Kind::wrong:
            return first_line(failure.what);
        case Failure::Kind::crashed:
            line = text("SIG", sigabbrev_np(failure.code));
            break;
        case Failure::Kind::hung:
            line = "takes too long";
            break;
        case Failure::Kind::ended:
            line = text("ended with status ", failure.code);
            break;
    }
    const std::string functions = functions_of(failure.frames, frames);
    if (!functions.empty()) line += text(" in ", functions);
    return line;
}

}  // namespace

std::string Failure::summary() const {
    std::string line = describe(*this, 4);
    const std::string report = report_of(said);
    if (!report.empty()) line += text(": ", report);
    return line;
}

std::string Failure::cause() const {
    std::string line;
    // Where a case hangs is chance.
    for (const char c : describe(*this, kind == Kind::hung ? 1 : 2)) {
        const bool is_digit = c >= '0' && c <= '9';
        if (!is_digit)
            line += c;
        else if (line.empty() || line.back() != '#')
            line += '#';
    }
    return line;
}

}  // namespace heddle::campaign
