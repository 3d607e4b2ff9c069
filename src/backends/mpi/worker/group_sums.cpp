#include "backends/mpi/worker/group_sums.hpp"

#include <algorithm>
#include <cmath>

#include "backends/mpi/worker/calls.hpp"
#include "backends/mpi/worker/server.hpp"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

/// Behind the numbers of a slice: which members failed, and which sum this is, in parts whose sums
/// over all members are exact.
constexpr std::size_t kParts = 3, kExtra = 1 + kParts;
constexpr unsigned kPartBits = 11;

float part_of(std::uint32_t tag, std::size_t part) {
    return static_cast<float>((tag >> (part * kPartBits)) & ((1U << kPartBits) - 1));
}

/// One for a failure, more than members can have of these for having been told to stop.
constexpr float kFailed = 1, kStopped = 128;
static_assert(kMostMembers < 128);

float flag_of(const Result<>& own) {
    if (own) return 0;
    return own.error().code == Errc::aborted ? kStopped : kFailed;
}

Errc code_of(float flags) { return std::fmod(flags, kStopped) == 0 ? Errc::aborted : Errc::device; }

}  // namespace

/// Ends with this object, however that comes about.
class GroupSum::Turn {
public:
    explicit Turn(GroupSum& sum) : sum_(sum) {}
    ~Turn() {
        sum_.group_->turn = sum_.request_.turn + 1;
        sum_.driver_.wake();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

private:
    GroupSum& sum_;
};

Result<> GroupSum::run() {
    return take_part([&] { return request_.placed.buffer->wait_for_loads(); });
}

void GroupSum::give_up(const Error& error) {
    static_cast<void>(take_part([&] { return Result<>(error); }));
}

Result<> GroupSum::take_part(const std::function<Result<>()>& prepare) {
    Result<> own = ok();
    auto done = plugin::attempt([&]() -> Result<> {
        HEDDLE_TRY(wait_for_turn());
        const Turn turn(*this);
        own = prepare();
        return add_up(own);
    });
    if (done) return own;
    if (lost_member() == 0) driver_.drop_out(done.error());
    return done;
}

int GroupSum::lost_member() const {
    for (const int rank : group_->ranks) {
        if (rank != outbox_.rank() && mailbox_.is_lost(rank)) return rank;
    }
    return 0;
}

Result<> GroupSum::wait_for_turn() {
    driver_.wait([&] { return group_->turn >= request_.turn || lost_member() != 0; });
    if (const int lost = lost_member()) return Mailbox::cut_off(lost);
    if (group_->turn == request_.turn) return ok();
    return failure(Errc::device, "a sum of turn ", request_.turn, " in turn ", group_->turn.load());
}

Result<> GroupSum::add_up(Result<>& own) {
    const std::size_t total = byte_size(request_.placed.tensor);
    std::size_t done = 0;
    do {
        const std::size_t size = std::min(kChunk, total - done);
        HEDDLE_TRY_ASSIGN(const bool goes_on, add_slice(done, size, own));
        if (!goes_on) break;
        done += size;
    } while (done < total);
    return ok();
}

/// Where only this one has failed so far, the others hear of it with the next slice, if there is
/// one.
Result<bool> GroupSum::add_slice(std::size_t offset, std::size_t size, Result<>& own) {
    const std::size_t count = size / sizeof(float);
    std::vector<float> values(count + kExtra);
    if (own && request_.adds) {
        own = reported(
            [&] { ggml_backend_tensor_get(&request_.placed.tensor, values.data(), offset, size); });
    }
    if (!own) std::ranges::fill(values, 0.0F);
    values[count] = flag_of(own);
    for (std::size_t i = 0; i < kParts; ++i) values[count + 1 + i] = part_of(request_.tag, i);
    auto sum = outbox_.fabric().add_up(group_->number, std::move(values),
                                       [&] { return lost_member() != 0; });
    if (!sum) {
        const int lost = lost_member();
        return lost == 0 ? std::move(sum).error() : Mailbox::cut_off(lost);
    }
    const auto members = static_cast<float>(group_->ranks.size());
    for (std::size_t i = 0; i < kParts; ++i) {
        if ((*sum)[count + 1 + i] == members * part_of(request_.tag, i)) continue;
        return failure(Errc::device, "ranks have added up what are not parts of one sum");
    }
    if (!own) return false;
    if ((*sum)[count] > 0) {
        own = failure(code_of((*sum)[count]), "another rank of a sum could not take part");
        return false;
    }
    own = reported(
        [&] { ggml_backend_tensor_set(&request_.placed.tensor, sum->data(), offset, size); });
    return true;
}

// ---- as rank 0 asks for it ---------------------------------------------------------------------

/// Other messages are dealt with afterwards: nothing may take long while the others wait in MPI.
Result<> Server::take_group(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    const auto group = std::make_shared<RankGroup>();
    group->number = in.get<std::uint32_t>();
    const std::size_t count = in.get<std::uint32_t>();
    if (count > kMostMembers || groups_.size() >= kMostRankGroups) return broken("a group");
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
        const auto rank = in.get<std::uint32_t>();
        if (rank == 0 || rank >= static_cast<std::uint32_t>(outbox_.size()) ||
            std::ranges::count(group->ranks, static_cast<int>(rank)) > 0) {
            return failure(Errc::corrupt, "rank ", rank, " is in a group, or twice");
        }
        group->ranks.push_back(static_cast<int>(rank));
    }
    if (!in.finished() || group->number == 0 || groups_.contains(group->number) ||
        std::ranges::count(group->ranks, outbox_.rank()) != 1) {
        return broken("a group");
    }
    outbox_.answer(request, ok());
    const auto kind = [](const Message& message) {
        const auto opened = open(message);
        return opened ? opened->header.kind : Kind::none;
    };
    const auto is_wanted = [&](const Message& message) {
        return message.source == 0 && kind(message) == Kind::join;
    };
    auto message = driver_.wait_for_message(is_wanted, [&] { return is_silent(); });
    if (!message) return failure(Errc::device, "rank 0 does not say whether a group is made");
    heard_ = Clock::now();
    const auto opened = open(*message);
    ByteReader join(opened->body);
    HEDDLE_TRY_ASSIGN(const bool is_made, join_group(*group, join));
    if (is_made) groups_[group->number] = group;
    outbox_.settle(message->bytes.size());
    return ok();
}

Result<bool> Server::join_group(const RankGroup& group, ByteReader& in) {
    const auto request = in.get<std::uint32_t>(), number = in.get<std::uint32_t>();
    const bool joins = in.get<std::uint8_t>() != 0;
    if (!in.finished() || number != group.number) return broken("a group");
    if (!joins) {
        outbox_.answer(request, ok());
        return false;
    }
    const std::chrono::milliseconds limit = timeout_ / 2;  // nothing is heard of it meanwhile
    const auto begin = Clock::now();
    auto made = outbox_.fabric().make_group({number, group.ranks, limit});
    // Then no answer gets out any more, and this worker has nothing to stay for.
    if (!made && Clock::now() - begin >= limit) return std::move(made).error();
    outbox_.answer(request, made);
    return made.has_value();
}

}  // namespace heddle::mpi
