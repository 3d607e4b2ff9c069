#include "text_input.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "console.hpp"

namespace heddle::tool {
namespace {

Result<std::string> all_of(std::FILE* in, const std::string& name) {
    constexpr std::size_t kMost = std::size_t{64}
                                  << 20;  // a file without an end must not fill memory
    std::string text, block(std::size_t{1} << 16, '\0');
    for (std::size_t count = 1; count > 0;) {
        count = std::fread(block.data(), 1, block.size(), in);
        text.append(block, 0, count);
        if (text.size() <= kMost) continue;
        return invalid(name, ": is longer than ", bytes_text(kMost), ", the most that is read");
    }
    if (std::ferror(in) != 0) {
        return failure(Errc::io, name, ": cannot be read: ", std::strerror(errno));
    }
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

}  // namespace

Result<std::string> text_of(const std::string& path) {
    return path == "-" ? all_of(stdin, "standard input") : content_of(path);
}

Result<std::string> content_of(const std::string& path) {
    const std::unique_ptr<std::FILE, decltype(&std::fclose)> in(std::fopen(path.c_str(), "rbe"),
                                                                std::fclose);
    if (!in) return failure(Errc::io, path, ": cannot be opened: ", std::strerror(errno));
    return all_of(in.get(), path);
}

}  // namespace heddle::tool
