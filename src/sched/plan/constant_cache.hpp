#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/buffer.hpp"
#include "sched/plan/budget.hpp"
#include "sched/team.hpp"

namespace heddle::sched {

/// Copies of tensors that nothing writes, kept on the devices that read them as long as the budget
/// allows. Copied once; again only when the original's buffer has been written.
class ConstantCache {
public:
    /// A tensor's copy in memory of a runner. Its address stays as long as plans use it: entries of
    /// the latest plan go only with `clear`.
    struct Entry {
        const Buffer* source_buffer = nullptr;
        const void* source_data = nullptr;
        std::size_t bytes = 0;  ///< of the original
        RunnerId runner = kNoRunner;
        OwnedBuffer buffer;
        std::uint64_t generation = 0;  ///< of the original when it was copied; 0: not yet
        std::uint64_t last_plan = 0;   ///< for making room
    };

    explicit ConstantCache(Team& team);

    /// A place for a copy of `original` on `runner`; null if the budget or the device has no room,
    /// which is no failure: the copy is then made for each run. Entries of older plans make room.
    Entry* find_or_make(const Tensor& original, RunnerId runner);

    bool has(const Tensor& original, RunnerId runner) const { return find(original, runner); }

    /// Bytes that all entries on `runner` together may take.
    std::size_t capacity_on(RunnerId runner) const;

    /// A new plan: entries of older ones may go, so until it is made runs may be under way only if
    /// none has to. `results` are the bytes that graphs take on each runner already, `coming` those
    /// that this one will take besides; empty: none.
    void begin_plan(std::vector<std::size_t> results = {}, std::vector<std::size_t> coming = {});

    void set_budgets(Budgets budgets);
    const Budgets& budgets() const { return budgets_; }
    Budget budget_of(RunnerId runner) const;

    std::size_t bytes_on(RunnerId runner) const;
    bool empty() const { return entries_.empty(); }
    void clear(RunnerId runner);  ///< the device failed, or its memory is needed
    void clear();

private:
    Entry* find(const Tensor& original, RunnerId runner) const;
    std::size_t limit_of(RunnerId runner) const;
    std::size_t& allowance(RunnerId runner);
    bool make_room(RunnerId runner, std::size_t bytes);

    Team& team_;
    Budgets budgets_;
    std::vector<std::unique_ptr<Entry>> entries_;
    std::vector<std::size_t> results_, coming_;
    /// What each runner may still take, asked once in a plan: drivers take their time to answer.
    std::vector<std::optional<std::size_t>> allowances_;
    std::uint64_t plan_ = 0;
};

}  // namespace heddle::sched
