#pragma once

#include <string>
#include <vector>

#include "line_reader.hpp"
#include "writer.hpp"

namespace heddle::tool {

/// Says that a text ended with the context.
std::string full_note(std::int64_t context);

/// A model and a user who talk.
class Talk {
public:
    /// What is told beside what is said.
    enum class Notes { all, few, none };

    Talk(Generator& generator, Conversation& conversation, Writer& writer, Notes notes)
        : generator_(generator), conversation_(conversation), writer_(writer), notes_(notes) {}

    /// Adds a message, and writes what the model answers. The message is `shown` before it.
    Result<> say(const std::string& message, bool shown);

    /// One message after the other, until the user leaves. `first` is said first, unless it is
    /// empty. Lines that cannot be said get a note.
    Result<> converse(const std::string& first);

    /// What was read of the user's words.
    const std::vector<Token>& read() const { return read_; }

private:
    Result<> hear(const std::string& message);
    void end_answer();

    /// The next line that has anything in it, or several between `"""`. None at the end, and when
    /// Ctrl-C is pressed.
    static std::optional<std::string> read_message(LineReader& reader);

    /// Whether it goes on where there was no message: after a first Ctrl-C.
    bool stays();

    /// None when the user leaves.
    std::optional<std::string> next_message(LineReader& reader);

    /// What a line such as `/clear` asks for. False if it was to leave.
    bool run_command(const std::string& line);
    Result<> save(const std::string& path) const;
    Result<> load(const std::string& path);

    Generator& generator_;
    Conversation& conversation_;
    Writer& writer_;
    Notes notes_;
    std::vector<Token> read_;
    std::size_t refused_ = 0;
    bool was_interrupted_ = false;  ///< by Ctrl-C, which leaves when it comes again
};

}  // namespace heddle::tool
