#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "program.hpp"

namespace heddle::cli_test {

/// The program at a terminal of its own, with somebody who types and looks.
class Session {
public:
    /// Environment variables as NAME=VALUE come on top of those of the test; a NAME alone is taken
    /// away. The terminal is so many columns wide.
    explicit Session(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment = {}, unsigned short columns = 80);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    void type(const std::string& keys);
    void press_ctrl_c() { type("\x03"); }
    void press_ctrl_d() { type("\x04"); }

    /// Waits until `text` is on the screen, below what was waited for before. False after a minute.
    bool sees(const std::string& text);

    /// Waits for the program to end; its exit status, or 128 and the number of a signal.
    int status();

    /// Presses Ctrl-D, and waits. Once more if nothing happens: while the terminal passes from one
    /// mode to the other, it may be lost.
    int leave();

    /// Whether it has ended; its status waits for who asks.
    bool has_ended() const;

    const std::string& screen() const { return screen_; }

private:
    bool look(int milliseconds);

    Directory directory_;
    pid_t child_ = -1;
    int terminal_ = -1;
    std::string screen_;
    std::size_t seen_ = 0;
};

}  // namespace heddle::cli_test
