#include "backends/mpi/mpi_groups.hpp"

namespace heddle::mpi {
namespace {

/// Apart from tags of messages; those of groups that are made one after the other differ.
constexpr int kFirstTag = 16, kTags = 1024;

/// What a call that may not come back uses.
struct Attempt {
    int code = MPI_SUCCESS;
    MPI_Comm made = MPI_COMM_NULL;
};

void make_now(const OwnRanks& wanted, Attempt& attempt) {
    const ReturnsCodes guard(wanted.among);
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm_group(wanted.among, &all);
    attempt.code =
        MPI_Group_incl(all, static_cast<int>(wanted.members.size()), wanted.members.data(), &some);
    if (attempt.code == MPI_SUCCESS) {
        const MPI_Group members = wanted.members.empty() ? all : some;
        attempt.code = MPI_Comm_create_group(wanted.among, members, wanted.tag, &attempt.made);
    }
    if (some != MPI_GROUP_NULL && some != MPI_GROUP_EMPTY) MPI_Group_free(&some);
    MPI_Group_free(&all);
    if (attempt.made != MPI_COMM_NULL) MPI_Comm_set_errhandler(attempt.made, MPI_ERRORS_RETURN);
}

}  // namespace

Result<MPI_Comm> make_communicator(const OwnRanks& wanted) {
    const auto attempt = std::make_shared<Attempt>();
    if (!within(wanted.limit, [wanted, attempt] { make_now(wanted, *attempt); })) {
        return MPI_Comm{MPI_COMM_NULL};
    }
    HEDDLE_TRY(check(attempt->code, "ranks cannot form a group"));
    return attempt->made;
}

MpiGroups::~MpiGroups() {
    while (!groups_.empty()) abandon(groups_.begin()->first);
}

Result<> MpiGroups::make(const Fabric::GroupRequest& request) {
    if (are_stuck_) return failure(Errc::device, "MPI: an earlier call has not come back");
    const int tag = kFirstTag + static_cast<int>(request.number % kTags);
    HEDDLE_TRY_ASSIGN(const MPI_Comm made,
                      make_communicator({ranks_, request.members, tag, request.limit}));
    if (made == MPI_COMM_NULL) {
        are_stuck_ = true;
        return failure(Errc::device, "MPI: ranks that are to add up did not form a group within ",
                       static_cast<double>(request.limit.count()) / 1000, " s");
    }
    auto group = std::make_unique<Group>();
    group->ranks = made;
    groups_[request.number] = std::move(group);
    return ok();
}

Result<> MpiGroups::begin_sum(std::uint32_t number, std::vector<float> addends) {
    const auto found = groups_.find(number);
    if (are_stuck_ || found == groups_.end() || found->second->is_open) {
        return invalid("there is no group ", number, " of ranks that could add up");
    }
    const NoPipeSignal guard;
    Group& group = *found->second;
    group.addends = std::move(addends);
    group.sum.resize(group.addends.size());
    group.is_open = true;
    const int count = static_cast<int>(group.addends.size());
    return check(MPI_Iallreduce(group.addends.data(), group.sum.data(), count, MPI_FLOAT, MPI_SUM,
                                group.ranks, &group.request),
                 "ranks cannot add up");
}

Result<std::optional<std::vector<float>>> MpiGroups::take_sum(std::uint32_t number) {
    const auto found = groups_.find(number);
    if (are_stuck_ || found == groups_.end() || !found->second->is_open) {
        return invalid("there is no sum in group ", number, " of ranks");
    }
    const NoPipeSignal guard;
    Group& group = *found->second;
    int done = 0;
    // MPI lets go of a request that failed, so this is not asked again.
    HEDDLE_TRY(check(MPI_Test(&group.request, &done, MPI_STATUS_IGNORE), "ranks cannot add up"));
    if (done == 0) return std::optional<std::vector<float>>();
    group.is_open = false;
    return std::optional(std::move(group.sum));
}

/// To free a communicator may wait for others, so it is kept even where nothing is under way.
void MpiGroups::abandon(std::uint32_t number) {
    const auto found = groups_.find(number);
    if (found == groups_.end()) return;
    if (found->second->is_open) (void)found->second.release();
    groups_.erase(found);
}

}  // namespace heddle::mpi
