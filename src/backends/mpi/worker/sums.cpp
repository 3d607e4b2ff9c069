#include "backends/mpi/worker/sums.hpp"

#include <algorithm>

#include "backends/mpi/worker/calls.hpp"
#include "backends/mpi/worker/server.hpp"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

/// Up to this size the time of a message is mostly the time to begin it.
constexpr std::size_t kSmall = std::size_t{64} << 10;

void add_to(std::span<std::byte> sum, ByteView addend) {
    for (std::size_t at = 0; at < sum.size(); at += sizeof(float)) {
        float a = 0, b = 0;
        std::memcpy(&a, sum.data() + at, sizeof a);
        std::memcpy(&b, addend.data() + at, sizeof b);
        a += b;
        std::memcpy(sum.data() + at, &a, sizeof a);
    }
}

}  // namespace

Result<> Sum::run() {
    const auto all = [&]() -> Result<> {
        HEDDLE_TRY(placed_.buffer->wait_for_loads());
        const std::size_t total = byte_size(placed_.tensor);
        for (std::size_t done = 0; done < total; done += kChunk) {
            HEDDLE_TRY(add_slice({done, std::min(kChunk, total - done)}));
        }
        return ok();
    };
    auto done = plugin::attempt(all);
    if (!done) {
        give_up(done.error());
    } else {
        end(true);
    }
    return done;
}

void Sum::give_up(const Error& error) {
    for (const Member& member : members_) {
        if (member.rank != rank_) mailbox_.send_failure(member.rank, tag_, error);
    }
    end(false);
}

void Sum::end(bool is_whole) {
    for (const Member& member : members_) {
        if (member.rank == rank_) continue;
        mailbox_.end_sending(member.rank, tag_);
        mailbox_.end_transfer(member.rank, tag_, is_whole);
    }
}

bool Sum::adds() const {
    return std::ranges::any_of(members_,
                               [&](const Member& each) { return each.rank == rank_ && each.adds; });
}

Sum::Range Sum::part_of(std::size_t member, const Range& slice) const {
    const std::size_t count = slice.size / sizeof(float);
    const auto begin = [&](std::size_t i) { return count * i / members_.size() * sizeof(float); };
    return {slice.offset + begin(member), begin(member + 1) - begin(member)};
}

/// A slice is one message, so no member has to wait for another to take something in.
Result<> Sum::add_slice(const Range& slice) {
    if (members_.size() <= 2 || slice.size <= kSmall) {
        for (const Member& to : members_) {
            if (adds()) HEDDLE_TRY(send(to, slice));
        }
        return add_up(slice);
    }
    std::size_t own = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
        if (members_[i].rank == rank_) own = i;
        if (adds()) HEDDLE_TRY(send(members_[i], part_of(i, slice)));
    }
    HEDDLE_TRY(add_up(part_of(own, slice)));
    for (const Member& to : members_) HEDDLE_TRY(send(to, part_of(own, slice)));
    for (std::size_t i = 0; i < members_.size(); ++i) {
        HEDDLE_TRY(take_part(members_[i], part_of(i, slice)));
    }
    return ok();
}

Result<> Sum::send(const Member& to, const Range& range) {
    if (to.rank == rank_ || range.size == 0) return ok();
    return mailbox_.send_chunk(to.rank, tag_, range.offset, range.size,
                               [&](std::span<std::byte> part) { return read(part, range.offset); });
}

/// Adds up what members have of a range, here.
Result<> Sum::add_up(const Range& range) {
    if (range.size == 0) return ok();
    Bytes sum;
    for (const Member& from : members_) {
        if (!from.adds) continue;
        Bytes own;
        Mailbox::Chunk chunk;
        if (from.rank == rank_) {
            own.resize(range.size);
            HEDDLE_TRY(read(own, range.offset));
            chunk.bytes = own;
        } else {
            HEDDLE_TRY_ASSIGN(chunk, next(from, range));
        }
        if (sum.empty()) {
            sum.assign(chunk.bytes.begin(), chunk.bytes.end());
        } else {
            add_to(sum, chunk.bytes);
        }
    }
    return write(sum, range.offset);
}

Result<> Sum::take_part(const Member& from, const Range& range) {
    if (from.rank == rank_ || range.size == 0) return ok();
    HEDDLE_TRY_ASSIGN(const Mailbox::Chunk chunk, next(from, range));
    return write(chunk.bytes, range.offset);
}

/// From one member: of each slice one or two.
std::size_t Sum::most_chunks() const {
    return 2 * ((byte_size(placed_.tensor) + kChunk - 1) / kChunk);
}

Result<Mailbox::Chunk> Sum::next(const Member& from, const Range& range) {
    HEDDLE_TRY_ASSIGN(Mailbox::Chunk chunk, mailbox_.next_chunk(from.rank, tag_, most_chunks()));
    if (chunk.offset == range.offset && chunk.bytes.size() == range.size) return chunk;
    return failure(Errc::device, "rank ", from.rank, " sent ", chunk.bytes.size(),
                   " bytes for place ", chunk.offset, " of a sum, not ", range.size, " for ",
                   range.offset);
}

Result<> Sum::read(std::span<std::byte> bytes, std::size_t offset) const {
    return reported(
        [&] { ggml_backend_tensor_get(&placed_.tensor, bytes.data(), offset, bytes.size()); });
}

Result<> Sum::write(ByteView bytes, std::size_t offset) {
    return reported(
        [&] { ggml_backend_tensor_set(&placed_.tensor, bytes.data(), offset, bytes.size()); });
}

// ---- as rank 0 asks for it ---------------------------------------------------------------------

Result<std::vector<Sum::Member>> Server::members(ByteReader& in) const {
    const std::size_t count = in.get<std::uint32_t>();
    if (count > kMostMembers) return broken("a sum");
    std::vector<Sum::Member> members;
    std::size_t own = 0, adding = 0;
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
        const auto rank = in.get<std::uint32_t>();
        const bool adds = in.get<std::uint8_t>() != 0;
        const auto is_same = [&](const Sum::Member& each) {
            return each.rank == static_cast<int>(rank);
        };
        if (rank == 0 || rank >= static_cast<std::uint32_t>(outbox_.size()) ||
            std::ranges::any_of(members, is_same)) {
            return failure(Errc::corrupt, "rank ", rank, " takes part in a sum, or twice");
        }
        members.push_back({static_cast<int>(rank), adds});
        own += members.back().rank == outbox_.rank() ? 1 : 0;
        adding += adds ? 1 : 0;
    }
    if (!in.finished() || own != 1 || adding == 0) return broken("a sum");
    return members;
}

Result<Executor::Job> Server::sum_job(ByteReader& in) {
    const auto tag = in.get<std::uint32_t>(), number = in.get<std::uint32_t>();
    const auto turn = in.get<std::uint64_t>();
    HEDDLE_TRY_ASSIGN(Placed target, placed(in));
    HEDDLE_TRY_ASSIGN(auto all, members(in));
    if (target.tensor.type != GGML_TYPE_F32 || !is_contiguous(target.tensor)) {
        return broken("a sum");
    }
    const auto job_of = [](const auto& sum) {
        return Executor::Job{.run = [sum] { return sum->run(); },
                             .skip = [sum](const Error& error) { sum->give_up(error); }};
    };
    if (number != 0) {
        const auto group = groups_.find(number);
        if (group == groups_.end() ||
            !std::ranges::equal(all, group->second->ranks, {}, &Sum::Member::rank)) {
            return failure(Errc::corrupt, "there is no group ", number, " of these ranks");
        }
        const bool adds = std::ranges::find(all, outbox_.rank(), &Sum::Member::rank)->adds;
        return job_of(std::make_shared<GroupSum>(
            GroupSum::Surroundings{outbox_, driver_, mailbox_}, group->second,
            GroupSum::Request{tag, turn, adds, std::move(target)}));
    }
    for (const Sum::Member& member : all) {
        if (member.rank != outbox_.rank()) mailbox_.expect(member.rank, tag);
    }
    return job_of(
        std::make_shared<Sum>(mailbox_, outbox_.rank(), tag, std::move(all), std::move(target)));
}

}  // namespace heddle::mpi
