#include "backends/mpi/fabric_threads.hpp"

#include <algorithm>

#include "backends/mpi/protocol.hpp"

namespace heddle::mpi {

/// The fabric as one rank sees it.
class ThreadFabric::Seat final : public Fabric {
public:
    Seat(ThreadFabric& whole, int rank)
        : whole_(whole),
          rank_(rank),
          forgotten_(static_cast<std::size_t>(whole.ranks_)),
          held_(static_cast<std::size_t>(whole.ranks_)) {}

    int rank() const override { return rank_; }
    int size() const override { return whole_.ranks_; }

    void send(int to, Bytes message) override {
        const std::lock_guard guard(whole_.lock_);
        whole_.add(rank_, to, std::move(message));
    }

    std::optional<Message> receive() override {
        const auto now = Clock::now();
        const std::lock_guard guard(whole_.lock_);
        look();
        if (whole_.silent_[static_cast<std::size_t>(rank_)]) return std::nullopt;
        for (int i = 0; i < size(); ++i) {
            const int from = (next_ + i) % size();
            auto& entries = whole_.route(from, rank_).entries;
            if (forgotten_[static_cast<std::size_t>(from)]) entries.clear();
            if (held_[static_cast<std::size_t>(from)]) continue;
            if (entries.empty() || entries.front().due > now) continue;
            const std::size_t announced = entries.front().announced;
            if (announced > 0 && announced <= kLongestMessage) continue;  // it does not come
            Message message{from, std::move(entries.front().bytes), announced,
                            entries.front().has_failed};
            entries.pop_front();
            next_ = from + 1;
            return message;
        }
        return std::nullopt;
    }

    std::size_t unsent(int) const override { return 0; }
    std::size_t moving() const override {
        const std::lock_guard guard(whole_.lock_);
        look();
        return 0;
    }
    void forget(int rank) override { forgotten_[static_cast<std::size_t>(rank)] = true; }
    void hold_back(int rank, bool is_held) override {
        held_[static_cast<std::size_t>(rank)] = is_held;
    }

    Result<> make_group(const GroupRequest& request) override {
        const std::lock_guard guard(whole_.lock_);
        whole_.groups_[request.number].members = request.members;
        rounds_[request.number] = 0;
        return ok();
    }
    Result<> begin_sum(std::uint32_t group, std::vector<float> addends) override {
        const std::lock_guard guard(whole_.lock_);
        const auto own = rounds_.find(group);
        if (own == rounds_.end()) return Fabric::begin_sum(group, std::move(addends));
        const auto before = whole_.before_sums_.find(rank_);
        if (before != whole_.before_sums_.end()) HEDDLE_TRY(before->second());
        if (whole_.silent_[static_cast<std::size_t>(rank_)]) return ok();
        whole_.groups_[group].rounds[own->second].addends[rank_] = std::move(addends);
        return ok();
    }
    Result<std::optional<std::vector<float>>> take_sum(std::uint32_t group) override;
    void abandon_group(std::uint32_t group) override { rounds_.erase(group); }

private:
    void look() const {
        const auto before = whole_.before_looks_.find(rank_);
        if (before != whole_.before_looks_.end()) before->second();
    }

    ThreadFabric& whole_;
    const int rank_;
    std::vector<bool> forgotten_, held_;
    std::map<std::uint32_t, std::uint64_t> rounds_;  ///< sums taken so far, by group
    int next_ = 0;  ///< where to look first, so that no rank is left waiting
};

const ThreadFabric::Group::Round* ThreadFabric::whole_round(std::uint32_t group,
                                                            std::uint64_t round) const {
    const auto found = groups_.find(group);
    if (found == groups_.end()) return nullptr;
    const auto sum = found->second.rounds.find(round);
    if (sum == found->second.rounds.end()) return nullptr;
    return sum->second.addends.size() == found->second.members.size() ? &sum->second : nullptr;
}

Result<std::optional<std::vector<float>>> ThreadFabric::Seat::take_sum(std::uint32_t group) {
    const std::optional<std::vector<float>> none;
    const std::lock_guard guard(whole_.lock_);
    const auto own = rounds_.find(group);
    if (own == rounds_.end()) return none;
    if (whole_.failing_sums_.contains(rank_)) return failure(Errc::device, "MPI gives up a sum");
    const Group::Round* const round = whole_.whole_round(group, own->second);
    if (round == nullptr) return none;
    std::vector<float> sum;
    for (const auto& [rank, addends] : round->addends) {
        sum.resize(std::max(sum.size(), addends.size()));
        for (std::size_t i = 0; i < addends.size(); ++i) sum[i] += addends[i];
    }
    Group& all = whole_.groups_[group];
    if (++all.rounds[own->second].taken == all.members.size()) all.rounds.erase(own->second);
    ++own->second;
    return std::optional(std::move(sum));
}

ThreadFabric::ThreadFabric(int ranks, unsigned seed)
    : ranks_(ranks),
      routes_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)),
      silent_(static_cast<std::size_t>(ranks)),
      random_(seed) {}

std::unique_ptr<Fabric> ThreadFabric::join(int rank) { return std::make_unique<Seat>(*this, rank); }

void ThreadFabric::set_delay(Clock::duration longest) {
    const std::lock_guard guard(lock_);
    longest_ = longest;
}

void ThreadFabric::silence(int rank) {
    const std::lock_guard guard(lock_);
    silent_[static_cast<std::size_t>(rank)] = true;
}

void ThreadFabric::set_before_sums(int rank, std::function<Result<>()> then) {
    const std::lock_guard guard(lock_);
    before_sums_[rank] = std::move(then);
}

void ThreadFabric::fail_sums(int rank) {
    const std::lock_guard guard(lock_);
    failing_sums_.insert(rank);
}

void ThreadFabric::set_before_looks(int rank, std::function<void()> then) {
    const std::lock_guard guard(lock_);
    before_looks_[rank] = std::move(then);
}

void ThreadFabric::inject(int source, int to, Bytes message) {
    const std::lock_guard guard(lock_);
    add(source, to, std::move(message));
}

void ThreadFabric::announce(int source, int to, std::size_t bytes) {
    const std::lock_guard guard(lock_);
    route(source, to).entries.push_back({Clock::now(), {}, bytes});
}

void ThreadFabric::fail(int source, int to) {
    const std::lock_guard guard(lock_);
    route(source, to).entries.push_back({Clock::now(), {}, 0, true});
}

std::size_t ThreadFabric::waiting(int from, int to) const {
    const std::lock_guard guard(lock_);
    return routes_[index(from, to)].entries.size();
}

std::size_t ThreadFabric::carried(int from, int to) const {
    const std::lock_guard guard(lock_);
    return routes_[index(from, to)].bytes;
}

void ThreadFabric::add(int from, int to, Bytes message) {
    if (silent_[static_cast<std::size_t>(from)] || silent_[static_cast<std::size_t>(to)]) return;
    Route& way = route(from, to);
    auto due = Clock::now();
    if (longest_.count() > 0) {
        due += Clock::duration(
            std::uniform_int_distribution<Clock::rep>(0, longest_.count())(random_));
    }
    if (!way.entries.empty()) due = std::max(due, way.entries.back().due);  // in order
    way.bytes += message.size();
    way.entries.push_back({due, std::move(message), 0});
}

}  // namespace heddle::mpi
