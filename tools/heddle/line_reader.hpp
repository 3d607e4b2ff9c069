#pragma once

#include <memory>
#include <optional>
#include <string>

namespace heddle::tool {

/// Lines that a user types.
class LineReader {
public:
    /// At a terminal lines can be edited, and those of before come back with the arrow keys, where
    /// the program was built with libedit.
    static std::unique_ptr<LineReader> make();

    LineReader() = default;
    LineReader(const LineReader&) = delete;
    LineReader& operator=(const LineReader&) = delete;
    virtual ~LineReader() = default;

    /// None at the end of the input, or after Ctrl-C.
    virtual std::optional<std::string> read(const std::string& prompt) = 0;
};

/// A path that was typed where no shell sees it: "~/" is the user's home.
std::string with_home(const std::string& path);

}  // namespace heddle::tool
