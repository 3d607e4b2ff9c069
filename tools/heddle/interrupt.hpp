#pragma once

namespace heddle::tool {

/// From now on Ctrl-C is a question to the program. It ends the program where the one before was
/// not taken yet.
void watch_interrupts();

/// Whether there was one since the last time; then it is taken.
bool take_interrupt();

/// The same, but it stays.
bool is_interrupted();

/// Waits until standard input can be read, or has ended. False if there was a Ctrl-C that is not
/// taken, whenever and on whatever thread it came.
bool wait_for_input();

/// Ends the program as Ctrl-C would have done.
[[noreturn]] void end_by_interrupt();

}  // namespace heddle::tool
