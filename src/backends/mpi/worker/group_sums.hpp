#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "backends/mpi/worker/mailbox.hpp"
#include "backends/mpi/worker/storage.hpp"

namespace heddle::mpi {

/// Workers that add up by MPI, as one of them knows it.
struct RankGroup {
    std::uint32_t number = 0;
    std::vector<int> ranks;
    std::atomic<std::uint64_t> turn{0};  ///< of the sum that comes next
};

/// A sum over a group, as one of its members takes part in it: in whatever order MPI adds, with the
/// same bits on all of them.
///
/// What MPI has begun cannot be called off. So a member that cannot add anything takes part all the
/// same, and says behind its numbers that it failed; then all of them stop. One that cannot even do
/// that leaves: else the others would wait for it. Sums of a group happen in the order in which
/// rank 0 told of them, whatever streams they are in.
class GroupSum {
public:
    struct Surroundings {
        Outbox& outbox;
        Driver& driver;
        Mailbox& mailbox;
    };
    struct Request {
        std::uint32_t tag = 0;
        std::uint64_t turn = 0;
        bool adds = false;
        Placed placed;  ///< contiguous, of type F32
    };
    GroupSum(const Surroundings& surroundings, std::shared_ptr<RankGroup> group, Request request)
        : outbox_(surroundings.outbox),
          driver_(surroundings.driver),
          mailbox_(surroundings.mailbox),
          group_(std::move(group)),
          request_(std::move(request)) {}

    /// Fails if a member is lost, or did; then it fails for all of them.
    Result<> run();

    /// In its place if this worker cannot take part.
    void give_up(const Error& error);

private:
    class Turn;
    /// `prepare` says whether this member can add anything.
    Result<> take_part(const std::function<Result<>()>& prepare);
    Result<> wait_for_turn();
    /// Fails where the others do not know that this member stops, unless one of them is lost.
    /// `own`: what goes wrong for all of them; what went wrong here before.
    Result<> add_up(Result<>& own);
    /// False if all of them stop.
    Result<bool> add_slice(std::size_t offset, std::size_t size, Result<>& own);
    /// A member that is lost; 0: none.
    int lost_member() const;

    Outbox& outbox_;
    Driver& driver_;
    Mailbox& mailbox_;
    const std::shared_ptr<RankGroup> group_;
    Request request_;
};

}  // namespace heddle::mpi
