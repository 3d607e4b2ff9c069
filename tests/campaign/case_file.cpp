#include "case_file.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace heddle::campaign {
namespace {

constexpr std::string_view kTitle = "heddle campaign case";

/// FNV-1a.
std::uint32_t hash_of(std::string_view text) {
    std::uint32_t hash = 2166136261U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    return hash;
}

void add_comment(std::ostream& out, const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) out << "# " << line << '\n';
}

}  // namespace

std::string file_name(const Door& door, const Failure& failure) {
    char hash[9];
    std::snprintf(hash, sizeof hash, "%08" PRIx32, hash_of(failure.cause()));
    return text(door.name, "-", hash, ".case");
}

std::string to_text(const Door& door, const Failure& failure) {
    std::ostringstream out;
    out << kTitle << "\ndoor: " << door.name << "\nwhat: " << failure.summary()
        << "\nseed: " << failure.seed << '\n';
    add_comment(out, failure.trace);
    if (failure.what.find('\n') != failure.what.npos) add_comment(out, failure.what);
    add_comment(out, failure.said);
    out << "choices:";
    std::size_t width = 8;
    for (const std::uint32_t choice : failure.choices) {
        const std::string word = std::to_string(choice);
        const bool is_full = width + 1 + word.size() > 100;
        if (is_full) out << "\n ";
        width = (is_full ? 1 : width) + 1 + word.size();
        out << ' ' << word;
    }
    out << '\n';
    return std::move(out).str();
}

Result<CaseFile> read_case(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::string line;
    if (!std::getline(in, line)) return invalid(path.string(), ": cannot be read, or is empty");
    if (line != kTitle)
        return invalid(path.string(), ": is no case: its first line is '", line, "'");
    CaseFile read;
    const auto value_of = [&](std::string_view key) -> std::optional<std::string> {
        if (line.compare(0, key.size(), key) != 0) return std::nullopt;
        return line.substr(std::min(line.size(), key.size() + 1));
    };
    while (std::getline(in, line)) {
        if (line.empty() || line[0] == '#') continue;
        if (auto door = value_of("door:"))
            read.door = *door;
        else if (auto what = value_of("what:"))
            read.what = *what;
        else if (auto seed = value_of("seed:"))
            read.seed = std::strtoull(seed->c_str(), nullptr, 10);
        else if (line.compare(0, 8, "choices:") == 0)
            break;
        else
            return invalid(path.string(), ": a line is not understood: '", line, "'");
    }
    std::string list = line.substr(std::min<std::size_t>(line.size(), 8));
    while (std::getline(in, line)) list += line;
    std::istringstream numbers(list);
    for (std::uint32_t choice; numbers >> choice;) read.choices.push_back(choice);
    if (!numbers.eof()) return invalid(path.string(), ": a choice is no number");
    return read;
}

}  // namespace heddle::campaign
