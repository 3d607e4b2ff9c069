#include "core/last_error.hpp"

#include <algorithm>
#include <cstring>

#include "core/printable.hpp"

namespace heddle {
namespace {

/// The last sentence of a thread, and how many there were. A plain array: when memory is used up
/// there is still room to say so, and nothing has to be registered for the end of the thread.
struct LastError {
    char text[2048];
    std::uint64_t count;
};
thread_local constinit LastError last_error{};

}  // namespace

void keep_sentence(std::string_view sentence) noexcept {
    if (sentence.empty()) sentence = "out of memory";  // not even the sentence could be made
    std::size_t length = std::min(sentence.size(), sizeof last_error.text - 1);
    if (length < sentence.size()) {  // not in the middle of a character
        while (length > 0 && (sentence[length] & 0xC0) == 0x80) --length;
    }
    std::memmove(last_error.text, sentence.data(), length);  // it may be this very sentence
    make_printable({last_error.text, length}, "\n\t");       // it may hold a name from a file
    last_error.text[length] = '\0';
    ++last_error.count;
}

const char* last_sentence() noexcept { return last_error.text; }
void forget_sentence() noexcept { last_error.text[0] = '\0'; }
std::uint64_t failures_told() noexcept { return last_error.count; }

}  // namespace heddle
