#pragma once

#include <optional>

#include "backends/mpi/bytes.hpp"
#include "core/error.hpp"

/// Contents of tensors that have two values only, such as attention masks, travel as bits. Nothing
/// is lost.
namespace heddle::mpi {

/// Puts contents: packed where that makes them much smaller, else as they are.
void put_packed(ByteWriter& out, ByteView content);

/// Room for contents that the caller fills, and that are left as they are.
std::byte* extend_plain(ByteWriter& out, std::size_t size);

/// Contents as they were put: in the message, or unpacked.
class Unpacked {
public:
    /// Takes the rest of `in`. Fails unless it is contents of `size` bytes.
    static Result<Unpacked> get(ByteReader& in, std::size_t size);

    /// Valid as long as this object and the message.
    ByteView view() const { return unpacked_ ? ByteView(*unpacked_) : in_message_; }

private:
    ByteView in_message_;
    std::optional<Bytes> unpacked_;
};

}  // namespace heddle::mpi
