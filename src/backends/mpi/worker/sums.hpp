#pragma once

#include <vector>

#include "backends/mpi/worker/mailbox.hpp"
#include "backends/mpi/worker/storage.hpp"

namespace heddle::mpi {

/// A sum over workers, as one of them takes part in it. Addends are added in the order of members,
/// one after the other, so that the bits are those of one machine that adds them; nothing passes
/// rank 0.
///
/// Two ways, with the same bits: where there is little to send, or there are two members, each
/// sends all to all and adds up all of it. Else each adds up one part, and sends the others that.
class Sum {
public:
    struct Member {
        int rank = 0;
        bool adds = false;  ///< or only gets the sum
    };

    /// `placed` is contiguous, of type F32. This worker, `rank`, is one of the members.
    Sum(Mailbox& mailbox, int rank, std::uint32_t tag, std::vector<Member> members, Placed placed)
        : mailbox_(mailbox),
          rank_(rank),
          tag_(tag),
          members_(std::move(members)),
          placed_(std::move(placed)) {}

    /// Fails if a member is lost, or did; then it fails for all of them.
    Result<> run();

    /// In its place if this worker cannot take part.
    void give_up(const Error& error);

private:
    /// Bytes of the tensor.
    struct Range {
        std::size_t offset = 0, size = 0;
    };

    bool adds() const;
    Range part_of(std::size_t member, const Range& slice) const;
    Result<> add_slice(const Range& slice);
    Result<> send(const Member& to, const Range& range);
    Result<> add_up(const Range& range);
    Result<> take_part(const Member& from, const Range& range);
    std::size_t most_chunks() const;
    Result<Mailbox::Chunk> next(const Member& from, const Range& range);
    Result<> read(std::span<std::byte> bytes, std::size_t offset) const;
    Result<> write(ByteView bytes, std::size_t offset);
    void end(bool is_whole);

    Mailbox& mailbox_;
    const int rank_;
    const std::uint32_t tag_;
    const std::vector<Member> members_;
    Placed placed_;
};

}  // namespace heddle::mpi
