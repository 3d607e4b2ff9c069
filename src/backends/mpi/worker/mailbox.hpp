#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "backends/mpi/worker/driver.hpp"

namespace heddle::mpi {

/// What other workers send, until the stream it is for comes to it.
class Mailbox {
public:
    Mailbox(Outbox& outbox, Driver& driver) : outbox_(outbox), driver_(driver) {}

    // Called by the thread that takes in messages. A chunk keeps the bytes of its message.
    Result<> take_chunk(Message& message, ByteReader& in);
    void take_receipt(int source, ByteReader& in);
    Result<> take_notice(int source, ByteReader& in);
    /// Rank 0 has told of a transfer: as much of it may wait here as was agreed.
    void expect(int source, std::uint32_t tag);
    void cancel(int rank);  ///< nothing more will come from it
    void stop();            ///< nor from any
    bool is_lost(int rank);
    static Error cut_off(int rank);

    // Called by streams. They fail if the other rank is lost.
    struct Chunk {
        std::uint64_t offset = 0;
        ByteView bytes;  ///< in `message`
        Bytes message;
    };
    using Fill = std::function<Result<>(std::span<std::byte>)>;
    /// `chunks` in all: the sender is told of each that is taken where they are more than it sends
    /// without that.
    Result<Chunk> next_chunk(int source, std::uint32_t tag, std::size_t chunks);
    /// Unless it was taken whole, what still comes is dropped, as if it had been taken.
    void end_transfer(int source, std::uint32_t tag, bool is_whole);
    /// `fill` writes the chunk where it is sent from.
    Result<> send_chunk(int to, std::uint32_t tag, std::uint64_t offset, std::size_t size,
                        const Fill& fill);
    void send_failure(int to, std::uint32_t tag, const Error& error);
    void end_sending(int to, std::uint32_t tag);
    Result<> wait_for_notice(int source, std::uint32_t tag);
    void forget_notice(int source, std::uint32_t tag);

private:
    using Name = std::pair<int, std::uint32_t>;  ///< rank, tag
    struct Transfer {
        std::deque<Chunk> chunks;  ///< that no stream has taken yet
        std::optional<Error> failure;
        bool is_expected = false;
    };

    bool is_cut_off(int rank) const { return stops_ || lost_.contains(rank); }
    /// The sender may send one more.
    void send_receipt(const Name& name);

    /// On a stream's thread: until `done`, asked under the lock, or until the rank is cut off.
    template <class Done>
    void wait(int rank, const Done& done);

    Outbox& outbox_;
    Driver& driver_;
    std::mutex lock_;
    std::map<Name, Transfer> incoming_;
    std::map<int, std::size_t> unasked_;      ///< bytes from a rank that rank 0 told nothing of
    std::map<Name, std::uint32_t> outgoing_;  ///< chunks under way
    std::map<Name, Result<>> notices_;
    std::set<Name> unwanted_;  ///< chunks of these are dropped as they come
    std::set<int> lost_;
    bool stops_ = false;
};

}  // namespace heddle::mpi
