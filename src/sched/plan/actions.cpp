#include "sched/plan/actions.hpp"

#include <algorithm>
#include <numeric>

#include "ops/optimizer.hpp"
#include "runtime/buffer.hpp"

namespace heddle::sched {

bool writes_source(const GraphIndex& index, TensorId node, std::uint8_t slot) {
    using Step = ops::OptStepAdamw;
    return (slot == Step::kFirstMoment || slot == Step::kSecondMoment) &&
           index.facts(node).op == Step::id;
}

TensorId chosen_by(const GraphIndex& index, const Copy& copy) {
    constexpr std::uint8_t ids_slot = 2;  // of MUL_MAT_ID
    if (copy.chooser == kNoTensor) return kNoTensor;
    for (const auto source : index.sources(copy.chooser)) {
        if (source.slot == ids_slot) return source.tensor;
    }
    return kNoTensor;
}

namespace {

/// Decides which queue a copy goes on, and after which split it is submitted.
class Order {
public:
    Order(const PlanInput& input, Program& program)
        : in_(input),
          program_(program),
          writer_(input.index.size(), -1),
          own_(input.team.size()),
          ordinal_(input.splits.splits.size()),
          streamed_(input.splits.splits.size()),
          largest_(input.team.size()),
          before_(input.splits.copies.size()) {}

    void run() {
        const Splits& splits = in_.splits;
        program_.actions.reserve(splits.splits.size() + splits.copies.size() +
                                 splits.detours.size());
        program_.action_of_split.assign(splits.splits.size(), -1);
        program_.action_of_copy.assign(splits.copies.size(), -1);
        if (!splits.copies.empty()) {
            count_streamed();
            for (std::int32_t i = 0; i < split_count(); ++i) find_places(i);
        }
        emit();
    }

private:
    struct On {
        RunnerId runner;
        Queue queue;
    };

    std::int32_t split_count() const { return static_cast<std::int32_t>(in_.splits.splits.size()); }
    const Split& split(std::int32_t i) const {
        return in_.splits.splits[static_cast<std::size_t>(i)];
    }
    const Copy& copy(std::int32_t i) const {
        return in_.splits.copies[static_cast<std::size_t>(i)];
    }
    bool is_streamed(std::int32_t i) const {
        return copy(i).kind == Copy::Kind::constant &&
               program_.cached[static_cast<std::size_t>(i)] == nullptr;
    }

    static bool has_queues(const Runner& runner) { return runner.is_async && runner.has_events; }

    /// Whether the bytes are where every CPU can read them, whatever device they count for.
    bool is_on_host(TensorId tensor, RunnerId runner) const {
        const TensorId root = in_.index.root(tensor);
        if (in_.planned[static_cast<std::size_t>(root)] != 0) {
            return runner != kNoRunner && in_.team[runner].on_host;
        }
        Buffer* const buffer = in_.index[root].buffer;
        return buffer == nullptr || is_host(*buffer);
    }

    On queue_between(RunnerId from, bool from_host, RunnerId to, bool to_host) const {
        const auto queues_of = [&](RunnerId runner, bool on_host) {
            return runner != kNoRunner && !on_host && has_queues(in_.team[runner]);
        };
        if (queues_of(to, to_host)) {
            const bool is_exchange = from != kNoRunner && !from_host && in_.team[from].is_async;
            return {to, is_exchange ? Queue::exchange : Queue::upload};
        }
        const bool to_queue = to != kNoRunner && !to_host && in_.team[to].is_async;
        if (queues_of(from, from_host) && !to_queue) return {from, Queue::download};
        return {to != kNoRunner ? to : from, Queue::compute};
    }
    On queue_of(const Copy& copy) const {
        return queue_between(copy.from, is_on_host(copy.tensor, copy.from), copy.to, false);
    }
    On queue_of(const Detour& detour) const {
        const RunnerId home = in_.placement[detour.node].home;
        const RunnerId from = split(detour.split).runner;
        return queue_between(from, false, home, is_on_host(detour.node, home));
    }

    /// Bytes of constants that every split has to get in every run.
    void count_streamed() {
        for (std::int32_t i = 0; i < split_count(); ++i) {
            std::size_t& bytes = streamed_[static_cast<std::size_t>(i)];
            for (const std::int32_t number : split(i).inputs) {
                if (is_streamed(number)) bytes += copy(number).bytes;
            }
            std::size_t& largest = largest_[static_cast<std::size_t>(split(i).runner)];
            largest = std::max(largest, bytes);
        }
    }

    void find_places(std::int32_t current) {
        auto& own = own_[static_cast<std::size_t>(split(current).runner)];
        ordinal_[static_cast<std::size_t>(current)] = own.size();
        own.push_back(current);
        for (const std::int32_t number : split(current).inputs) {
            before_[static_cast<std::size_t>(number)] = place_of(number);
        }
        for (std::int32_t at = split(current).begin; at < split(current).end; ++at) {
            const TensorId node = in_.splits.order[static_cast<std::size_t>(at)];
            if (is_idle(in_.index, node)) continue;
            written(in_.index.root(node)) = current;
            for (const auto source : in_.index.sources(node)) {
                if (!writes_source(in_.index, node, source.slot)) continue;
                written(in_.index.root(source.tensor)) = current;
            }
        }
    }
    std::int32_t& written(TensorId root) { return writer_[static_cast<std::size_t>(root)]; }

    /// The split that a copy is submitted before: as early as its bytes are there, but only so far
    /// ahead that the memory of a few splits is taken.
    std::int32_t place_of(std::int32_t number) {
        const Copy& what = copy(number);
        const On on = queue_of(what);
        if (on.queue == Queue::compute) return what.split;
        std::int32_t place = std::max(written(in_.index.root(what.tensor)) + 1, window(number));
        if (const TensorId ids = chosen_by(in_.index, what);
            ids != kNoTensor && is_streamed(number)) {
            place = std::max(place, written(in_.index.root(ids)) + 1);
        }
        return place;
    }

    /// How early memory allows it: while the reader's last split but one before runs. Small
    /// constants go further ahead, so that the next large one is not held up by them.
    std::int32_t window(std::int32_t number) const {
        const Copy& what = copy(number);
        const auto& own = own_[static_cast<std::size_t>(what.to)];
        std::size_t first = ordinal_[static_cast<std::size_t>(what.split)];
        if (first > 0) --first;
        if (is_streamed(number)) {
            const std::size_t allowed =
                in_.streamed_splits * largest_[static_cast<std::size_t>(what.to)];
            const auto bytes_of = [&](std::size_t i) {
                return streamed_[static_cast<std::size_t>(own[i])];
            };
            std::size_t bytes = bytes_of(ordinal_[static_cast<std::size_t>(what.split)]);
            if (own[first] != what.split) bytes += bytes_of(first);
            while (first > 0 && bytes + bytes_of(first - 1) <= allowed) bytes += bytes_of(--first);
        }
        return first == 0 ? 0 : own[first - 1] + 1;
    }

    void emit() {
        std::vector<std::int32_t> by_place(before_.size());
        std::iota(by_place.begin(), by_place.end(), 0);
        std::ranges::stable_sort(by_place, {}, [&](std::int32_t number) {
            return before_[static_cast<std::size_t>(number)];
        });
        auto next = by_place.begin();
        for (std::int32_t i = 0; i < split_count(); ++i) {
            for (; next != by_place.end() && before_[static_cast<std::size_t>(*next)] <= i;
                 ++next) {
                program_.action_of_copy[static_cast<std::size_t>(*next)] =
                    add(Action::Kind::copy, queue_of(copy(*next)), *next);
            }
            program_.action_of_split[static_cast<std::size_t>(i)] =
                add(Action::Kind::compute, {split(i).runner, Queue::compute}, i);
            for (const std::int32_t number : split(i).detours) {
                const Detour& detour = in_.splits.detours[static_cast<std::size_t>(number)];
                add(Action::Kind::write_back, queue_of(detour), number);
            }
        }
    }

    std::int32_t add(Action::Kind kind, On on, std::int32_t index) {
        Action action;
        action.kind = kind;
        action.queue = on.queue;
        action.runner = on.runner;
        action.index = index;
        program_.actions.push_back(action);
        return static_cast<std::int32_t>(program_.actions.size() - 1);
    }

    const PlanInput& in_;
    Program& program_;
    std::vector<std::int32_t> writer_;  ///< of each root: the split that wrote it last so far
    std::vector<std::vector<std::int32_t>> own_;  ///< of each runner: its splits so far
    std::vector<std::size_t> ordinal_;            ///< of each split: its number among those
    std::vector<std::size_t> streamed_, largest_;
    std::vector<std::int32_t> before_;  ///< of each copy: the split it is submitted before
};

}  // namespace

void order_actions(const PlanInput& input, Program& program) { Order(input, program).run(); }

}  // namespace heddle::sched
