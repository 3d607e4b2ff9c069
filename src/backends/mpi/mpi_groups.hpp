#pragma once

#include <map>
#include <memory>

#include "backends/mpi/mpi_calls.hpp"

namespace heddle::mpi {

/// Some ranks of a communicator, as one of their own: all of them ask for it, and no other rank.
struct OwnRanks {
    MPI_Comm among;
    std::vector<int> members;  ///< none: all ranks
    int tag = 0;               ///< no other such call of these ranks has it at the same time
    std::chrono::milliseconds limit{1000};
};
/// Null if not all of them have asked for it within the limit: then a thread is still inside MPI.
Result<MPI_Comm> make_communicator(const OwnRanks& wanted);

/// Groups of ranks that add up by MPI_Iallreduce; see Fabric. An MPI collective cannot be
/// cancelled: one that will not end is left to MPI, with its memory and its group.
class MpiGroups {
public:
    explicit MpiGroups(MPI_Comm ranks) : ranks_(ranks) {}
    ~MpiGroups();
    MpiGroups(const MpiGroups&) = delete;
    MpiGroups& operator=(const MpiGroups&) = delete;

    Result<> make(const Fabric::GroupRequest& request);
    Result<> begin_sum(std::uint32_t group, std::vector<float> addends);
    Result<std::optional<std::vector<float>>> take_sum(std::uint32_t group);
    void abandon(std::uint32_t group);

    /// A thread did not come back from MPI and is still inside it, so no other may call it.
    bool are_stuck() const { return are_stuck_; }

private:
    struct Group {
        MPI_Comm ranks = MPI_COMM_NULL;
        MPI_Request request = MPI_REQUEST_NULL;
        std::vector<float> addends, sum;
        bool is_open = false;  ///< MPI has its memory
    };

    const MPI_Comm ranks_;
    std::map<std::uint32_t, std::unique_ptr<Group>> groups_;
    bool are_stuck_ = false;
};

}  // namespace heddle::mpi
