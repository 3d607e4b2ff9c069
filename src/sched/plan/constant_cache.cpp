#include "sched/plan/constant_cache.hpp"

#include <algorithm>

#include "runtime/buffer_type.hpp"
#include "runtime/device.hpp"

namespace heddle::sched {

ConstantCache::ConstantCache(Team& team) : team_(team), allowances_(team.size()) {}

void ConstantCache::begin_plan(std::vector<std::size_t> results, std::vector<std::size_t> coming) {
    ++plan_;
    results_ = std::move(results);
    coming_ = std::move(coming);
    results_.resize(team_.size());
    coming_.resize(team_.size());
    allowances_.assign(team_.size(), std::nullopt);
}

void ConstantCache::set_budgets(Budgets budgets) {
    budgets_ = std::move(budgets);
    allowances_.assign(team_.size(), std::nullopt);
}

Budget ConstantCache::budget_of(RunnerId runner) const {
    const auto index = static_cast<std::size_t>(runner);
    return index < budgets_.size() ? budgets_[index] : Budget{};
}

std::size_t ConstantCache::limit_of(RunnerId runner) const {
    const auto index = static_cast<std::size_t>(runner);
    const Budget budget = budget_of(runner);
    DeviceMemory memory = memory_of(*team_[runner].device);
    std::size_t taken = bytes_on(runner);
    if (index < coming_.size()) {
        memory.free -= std::min(memory.free, coming_[index]);
        const bool counts_results = budget.kind != Budget::Kind::free_share;
        if (counts_results) taken += results_[index] + coming_[index];
    }
    return budget.limit(memory, taken);
}

std::size_t& ConstantCache::allowance(RunnerId runner) {
    std::optional<std::size_t>& known = allowances_[static_cast<std::size_t>(runner)];
    if (!known) known = limit_of(runner);
    return *known;
}

std::size_t ConstantCache::capacity_on(RunnerId runner) const {
    return limit_of(runner) + bytes_on(runner);
}

/// Gives up entries of older plans, the oldest first, until `bytes` may be taken.
bool ConstantCache::make_room(RunnerId runner, std::size_t bytes) {
    std::size_t possible = allowance(runner);
    for (const auto& entry : entries_) {
        if (entry->runner == runner && entry->last_plan < plan_) possible += entry->buffer->size;
    }
    if (possible < bytes) return false;
    while (allowance(runner) < bytes) {
        const auto age = [&](const std::unique_ptr<Entry>& entry) {
            return entry->runner == runner ? entry->last_plan : UINT64_MAX;
        };
        const auto oldest = std::ranges::min_element(entries_, {}, age);
        allowance(runner) += (*oldest)->buffer->size;
        entries_.erase(oldest);
    }
    return true;
}

ConstantCache::Entry* ConstantCache::find(const Tensor& original, RunnerId runner) const {
    const Buffer* const source = root_buffer(original);
    for (const auto& entry : entries_) {
        if (entry->source_data == original.data && entry->source_buffer == source &&
            entry->runner == runner && entry->bytes == byte_size(original)) {
            return entry.get();
        }
    }
    return nullptr;
}

ConstantCache::Entry* ConstantCache::find_or_make(const Tensor& original, RunnerId runner) {
    const Buffer* const source = root_buffer(original);
    // Without a buffer a write would not be noticed; without data it is a mere question.
    if (source == nullptr || original.data == nullptr) return nullptr;
    if (Entry* known = find(original, runner)) {
        known->last_plan = plan_;
        return known;
    }
    const Runner& there = team_[runner];
    const std::size_t wanted =
        std::max(alloc_size_of(*there.type, original), alignment_of(*there.type));
    if (wanted > max_size_of(*there.type) || !make_room(runner, wanted)) return nullptr;
    auto made = allocate(*there.type, wanted);
    if (!made) return nullptr;
    auto entry = std::make_unique<Entry>();
    entry->source_buffer = source;
    entry->source_data = original.data;
    entry->bytes = byte_size(original);
    entry->runner = runner;
    entry->buffer = *std::move(made);
    entry->last_plan = plan_;
    set_usage(*entry->buffer, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    std::size_t& left = allowance(runner);
    left -= std::min(left, entry->buffer->size);
    return entries_.emplace_back(std::move(entry)).get();
}

std::size_t ConstantCache::bytes_on(RunnerId runner) const {
    std::size_t total = 0;
    for (const auto& entry : entries_) {
        if (entry->runner == runner) total += entry->buffer->size;
    }
    return total;
}

void ConstantCache::clear(RunnerId runner) {
    std::erase_if(entries_, [&](const auto& entry) { return entry->runner == runner; });
    allowances_[static_cast<std::size_t>(runner)].reset();
}

void ConstantCache::clear() {
    entries_.clear();
    allowances_.assign(team_.size(), std::nullopt);
}

}  // namespace heddle::sched
