#include "backends/mpi/worker/mailbox.hpp"

namespace heddle::mpi {

// ---- from other workers ------------------------------------------------------------------------

Error Mailbox::cut_off(int rank) {
    return failure(Errc::device, "rank ", rank,
                   " is lost, and with it what it was to send or take");
}

template <class Done>
void Mailbox::wait(int rank, const Done& done) {
    driver_.wait([&] {
        const std::lock_guard guard(lock_);
        return done() || is_cut_off(rank);
    });
}

Result<> Mailbox::take_chunk(Message& message, ByteReader& in) {
    const Name name{message.source, in.get<std::uint32_t>()};
    auto outcome = get_outcome(in);
    const auto offset = in.get<std::uint64_t>();
    const ByteView bytes = in.rest();
    if (!in.ok()) return failure(Errc::corrupt, "a part of a tensor that breaks off");
    {
        std::unique_lock guard(lock_);
        if (unwanted_.contains(name)) {
            guard.unlock();
            if (outcome) send_receipt(name);
            return ok();
        }
        Transfer& transfer = incoming_[name];
        if (transfer.chunks.size() > kTransferWindow) {
            return failure(Errc::corrupt, "more of a tensor than was taken");
        }
        if (!transfer.is_expected &&
            (unasked_[message.source] += message.bytes.size()) > kMostUnasked) {
            return failure(Errc::corrupt, "more than was asked for");
        }
        if (!outcome) transfer.failure = std::move(outcome).error();
        if (outcome) transfer.chunks.push_back({offset, bytes, std::move(message.bytes)});
    }
    driver_.wake();
    return ok();
}

void Mailbox::expect(int source, std::uint32_t tag) {
    const std::lock_guard guard(lock_);
    Transfer& transfer = incoming_[{source, tag}];
    if (std::exchange(transfer.is_expected, true)) return;
    for (const Chunk& chunk : transfer.chunks) unasked_[source] -= chunk.message.size();
}

void Mailbox::take_receipt(int source, ByteReader& in) {
    const Name name{source, in.get<std::uint32_t>()};
    {
        const std::lock_guard guard(lock_);
        const auto found = outgoing_.find(name);
        if (found == outgoing_.end() || found->second == 0) return;  // all was sent already
        --found->second;
    }
    driver_.wake();
}

Result<> Mailbox::take_notice(int source, ByteReader& in) {
    const Name name{source, in.get<std::uint32_t>()};
    auto outcome = get_outcome(in);
    if (!in.finished()) return failure(Errc::corrupt, "a notice that breaks off");
    {
        const std::lock_guard guard(lock_);
        if (unwanted_.erase(name) > 0) return ok();
        if (notices_.size() >= kMostNotices) return failure(Errc::corrupt, "too many notices");
        notices_.insert_or_assign(name, std::move(outcome));
    }
    driver_.wake();
    return ok();
}

void Mailbox::cancel(int rank) {
    {
        const std::lock_guard guard(lock_);
        lost_.insert(rank);
    }
    driver_.wake();
}

bool Mailbox::is_lost(int rank) {
    const std::lock_guard guard(lock_);
    return is_cut_off(rank);
}

void Mailbox::stop() {
    {
        const std::lock_guard guard(lock_);
        stops_ = true;
    }
    driver_.wake();
}

// ---- for streams -------------------------------------------------------------------------------

Result<Mailbox::Chunk> Mailbox::next_chunk(int source, std::uint32_t tag, std::size_t chunks) {
    const Name name{source, tag};
    wait(source, [&] { return !incoming_[name].chunks.empty() || incoming_[name].failure; });
    Chunk chunk;
    {
        const std::lock_guard guard(lock_);
        Transfer& transfer = incoming_[name];
        if (transfer.chunks.empty()) {
            return transfer.failure ? *transfer.failure : cut_off(source);
        }
        chunk = std::move(transfer.chunks.front());
        transfer.chunks.pop_front();
    }
    if (chunks > kTransferWindow) send_receipt(name);
    return chunk;
}

void Mailbox::send_receipt(const Name& name) {
    ByteWriter out = begin({.kind = Kind::taken});
    out.put(name.second);
    outbox_.send(name.first, seal(std::move(out)));
}

void Mailbox::end_transfer(int source, std::uint32_t tag, bool is_whole) {
    const Name name{source, tag};
    std::size_t dropped = 0;
    {
        const std::lock_guard guard(lock_);
        if (const auto found = incoming_.find(name); found != incoming_.end()) {
            dropped = found->second.chunks.size();
            incoming_.erase(found);
        }
        if (!is_whole) unwanted_.insert(name);
    }
    for (; dropped > 0; --dropped) send_receipt(name);  // the sender may wait for room
}

Result<> Mailbox::send_chunk(int to, std::uint32_t tag, std::uint64_t offset, std::size_t size,
                             const Fill& fill) {
    const Name name{to, tag};
    wait(to, [&] { return outgoing_[name] < kTransferWindow; });
    outbox_.fabric().make_room(to, [&] {
        const std::lock_guard guard(lock_);
        return is_cut_off(to);
    });
    {
        const std::lock_guard guard(lock_);
        if (is_cut_off(to) || outgoing_[name] >= kTransferWindow) return cut_off(to);
        ++outgoing_[name];
    }
    ByteWriter out = begin({.kind = Kind::chunk}, size + 64);
    out.put(tag);
    put_outcome(out, ok());
    out.put(offset);
    HEDDLE_TRY(fill({out.extend(size), size}));
    outbox_.send(to, seal(std::move(out)));
    return ok();
}

void Mailbox::send_failure(int to, std::uint32_t tag, const Error& error) {
    ByteWriter out = begin({.kind = Kind::chunk});
    out.put(tag);
    put_outcome(out, error);
    out.put(std::uint64_t{0});
    outbox_.send(to, seal(std::move(out)));
}

void Mailbox::end_sending(int to, std::uint32_t tag) {
    const std::lock_guard guard(lock_);
    outgoing_.erase({to, tag});
}

Result<> Mailbox::wait_for_notice(int source, std::uint32_t tag) {
    const Name name{source, tag};
    wait(source, [&] { return notices_.contains(name); });
    const std::lock_guard guard(lock_);
    const auto found = notices_.find(name);
    if (found == notices_.end()) return cut_off(source);
    Result<> outcome = std::move(found->second);
    notices_.erase(found);
    return outcome;
}

void Mailbox::forget_notice(int source, std::uint32_t tag) {
    const std::lock_guard guard(lock_);
    if (notices_.erase({source, tag}) == 0) unwanted_.insert({source, tag});
}

}  // namespace heddle::mpi
