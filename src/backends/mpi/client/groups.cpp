// Groups of workers that add up by MPI.
#include "backends/mpi/client/cluster.hpp"

namespace heddle::mpi {

Result<Cluster::RankGroup*> Cluster::group_of(const std::vector<int>& ranks) {
    const std::lock_guard guard(groups_lock_);
    if (const auto known = groups_.find(ranks); known != groups_.end()) return &known->second;
    if (groups_.size() >= kMostRankGroups) {
        return failure(Errc::unsupported, "MPI: more than ", kMostRankGroups, " groups of ranks");
    }
    HEDDLE_TRY_ASSIGN(const std::uint32_t number, make_group(ranks));
    return &groups_.emplace(ranks, RankGroup{number}).first->second;
}

/// To make a group blocks in each member until all are there. So first all are told to come, and
/// wait as those do that can be called away: that may take long where one has much to do. When all
/// have said that they are there, they are told to begin, and if one is lost, not to.
Result<std::uint32_t> Cluster::make_group(const std::vector<int>& ranks) {
    const std::uint32_t number = next_number();
    Result<> outcome = ok();
    std::vector<int> present;
    for (const int rank : ranks) {
        const std::uint32_t request = next_number();
        ByteWriter out = question(Kind::group, request);
        out.put(number);
        out.put(static_cast<std::uint32_t>(ranks.size()));
        for (const int member : ranks) out.put(static_cast<std::uint32_t>(member));
        auto answer = ask(rank, request, seal(std::move(out)));
        if (!answer) {
            outcome = std::move(answer).error();
            break;
        }
        present.push_back(rank);
    }
    auto joined = join_group(number, present, outcome.has_value());
    HEDDLE_TRY(std::move(outcome));
    HEDDLE_TRY(std::move(joined));
    return number;
}

Result<> Cluster::join_group(std::uint32_t number, const std::vector<int>& ranks, bool joins) {
    std::vector<std::uint32_t> requests;
    Guard guard(lock_);
    for (const int rank : ranks) {
        requests.push_back(next_number());
        requests_[requests.back()].rank = rank;
        ByteWriter out = question(Kind::join, requests.back());
        out.put(number);
        out.put(static_cast<std::uint8_t>(joins ? 1 : 0));
        flush(rank);  // it looks for this message, and for none that is inside another
        send(rank, seal(std::move(out)));
    }
    Result<> outcome = ok();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const Request& open = requests_[requests[i]];
        auto answered = wait_until(guard, ranks[i], [&] { return open.answer.has_value(); });
        if (answered) {
            ByteReader in(*open.answer);
            answered = get_outcome(in);
        }
        requests_.erase(requests[i]);
        if (!answered && outcome) outcome = std::move(answered);
    }
    return outcome;
}

}  // namespace heddle::mpi
