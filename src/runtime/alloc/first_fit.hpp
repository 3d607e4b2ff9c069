#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "runtime/alloc/plan.hpp"

namespace heddle::alloc {

/// Places blocks in one line of addresses one after the other, each at the lowest place that is
/// free during its life, and looks for an order in which that takes little memory. Good with blocks
/// of any size and life, but each costs as many steps as there are blocks below its place. Keeps
/// its tables for the next blocks.
class FirstFit {
public:
    struct Item {
        std::uint32_t size;  ///< in units of the caller's choice
        std::int32_t first, last;
        std::uint32_t block;  ///< the caller's number
        std::uint32_t at;     ///< where it lies, once found
    };

    /// How many steps to spend on improving the best of the usual orders while it takes more than
    /// `good` units, and while it takes more than `bad`.
    struct Effort {
        std::uint32_t good, bad;
        std::size_t steps, steps_if_bad;
    };

    /// Units that must never be reached, so that sums of two can be counted.
    static constexpr std::uint32_t kTooMany = UINT32_MAX / 4;

    /// To be filled before `prepare`.
    std::vector<Item>& items() { return items_; }

    /// `peak` is a time when the most units are alive, `limit`, at most kTooMany, what must not be
    /// reached. No item crosses a multiple of `chunk`, and none is larger.
    void prepare(std::int32_t peak, std::uint32_t limit, std::uint32_t chunk) {
        peak_ = peak;
        chunk_ = chunk;
        best_ = limit;
        steps_ = 0;
        order_.resize(items_.size());
        at_.resize(items_.size());
        best_order_.clear();
        divide_time();
    }

    /// False if every order it tried reaches the limit. Equal items give equal results.
    bool search(const Effort& effort) {
        for (const Bottom bottom : {Bottom::far_reaching, Bottom::long_lived, Bottom::late,
                                    Bottom::early, Bottom::none}) {
            // The last one is slow, and seldom better.
            if (bottom == Bottom::none && best_ <= effort.bad) break;
            sort_by(bottom);
            if (try_order(best_) == items_.size()) keep_order();
            if (best_ <= effort.good) return true;
        }
        if (best_order_.empty()) return items_.empty();
        improve(effort);
        return true;
    }

    std::uint32_t used() const { return best_; }

private:
    /// Items alive at the peak are placed before all others, so that there is no gap then: in which
    /// order, or `none` if they are like the others. The rest follows by size.
    enum class Bottom { far_reaching, long_lived, late, early, none };

    static constexpr std::size_t kItemsPerPeriod = 48;

    struct Placed {
        std::uint32_t begin, end;
        std::int32_t first, last;
    };

    /// A part of the time, and what is placed and alive in it, by address. A short life need not be
    /// compared with what lives long before or after.
    struct Period {
        std::vector<Placed> placed;
        std::size_t next = 0;  ///< how far the search for the current item came
    };
    struct Span {
        std::uint32_t first, last;
    };

    /// 4096 times the logarithm to base 2, the part behind the point read off the leading digits.
    static std::uint32_t logarithm(std::uint32_t value) {
        const auto power = static_cast<std::uint32_t>(std::bit_width(value)) - 1;
        return (power << 12) +
               static_cast<std::uint32_t>((std::uint64_t{value} << 12 >> power) - 4096);
    }

    void divide_time() {
        std::int32_t end = 0;
        for (const Item& item : items_) end = std::max(end, item.last);
        const std::size_t count = std::clamp<std::size_t>(items_.size() / kItemsPerPeriod, 1, 256);
        period_count_ = count;
        if (count > periods_.size()) periods_.resize(count);
        spans_.clear();
        const auto period_at = [&](std::int32_t time) {
            return static_cast<std::uint32_t>(static_cast<std::size_t>(time) * count /
                                              (static_cast<std::size_t>(end) + 1));
        };
        for (const Item& item : items_) {
            spans_.push_back({period_at(item.first), period_at(item.last)});
        }
    }

    std::uint32_t urgency(const Item& item, Bottom bottom) const {
        const auto life = static_cast<std::uint32_t>(item.last - item.first + 1);
        if (bottom != Bottom::none && item.first <= peak_ && peak_ <= item.last) {
            constexpr std::uint32_t before_all_others = 1u << 31;
            std::int32_t key = 0;
            switch (bottom) {
                case Bottom::far_reaching:
                    key = std::max(peak_ - item.first, item.last - peak_);
                    break;
                case Bottom::late:
                    key = item.last;
                    break;
                case Bottom::early:
                    key = INT32_MAX - item.first;
                    break;
                default:
                    key = static_cast<std::int32_t>(life);
            }
            return before_all_others | static_cast<std::uint32_t>(key);
        }
        // Long lives make up for a little size: about size * life^0.1, always below 2^24.
        return 64 * logarithm(item.size) + 7 * logarithm(life);
    }

    void sort_by(Bottom bottom) {
        keys_.resize(items_.size());
        for (std::uint32_t i = 0; i < items_.size(); ++i) {
            keys_[i] = std::uint64_t{~urgency(items_[i], bottom)} << 32 | i;
        }
        std::ranges::sort(keys_);
        for (std::size_t i = 0; i < keys_.size(); ++i) {
            order_[i] = static_cast<std::uint32_t>(keys_[i]);
        }
    }

    /// Places items in order up to the first that reaches `limit`, and says which one that is.
    std::size_t try_order(std::uint32_t limit) {
        for (std::size_t i = 0; i < period_count_; ++i) periods_[i].placed.clear();
        top_ = 0;
        std::size_t done = stack(limit);
        for (; done < order_.size() && top_ < limit; ++done) place(order_[done]);
        return top_ < limit ? done : done - 1;
    }

    /// Items that are alive at the peak all meet there, so as long as there are no others each lies
    /// on top of the one before. Says how many that are.
    std::size_t stack(std::uint32_t limit) {
        if (chunk_ < kTooMany) return 0;
        std::size_t done = 0;
        for (; done < order_.size() && top_ < limit; ++done) {
            const std::uint32_t index = order_[done];
            const Item& item = items_[index];
            if (peak_ < item.first || item.last < peak_) break;
            const Placed placed{top_, top_ + item.size, item.first, item.last};
            for (std::uint32_t i = spans_[index].first; i <= spans_[index].last; ++i) {
                periods_[i].placed.push_back(placed);
            }
            at_[index] = top_;
            top_ = placed.end;
        }
        steps_ += done;
        return done;
    }

    void place(std::uint32_t index) {
        const Item item = items_[index];
        const Span span = spans_[index];
        for (std::uint32_t i = span.first; i <= span.last; ++i) periods_[i].next = 0;
        std::uint32_t address = 0;
        for (std::uint32_t agreed = 0, i = span.first; agreed <= span.last - span.first; ++agreed) {
            const std::uint32_t higher = lowest_fit(periods_[i], item, address);
            if (higher != address) agreed = 0;
            address = higher;
            i = i == span.last ? span.first : i + 1;
        }
        for (std::uint32_t i = span.first; i <= span.last; ++i) insert(periods_[i], item, address);
        at_[index] = address;
        top_ = std::max(top_, address + item.size);
    }

    /// The lowest address from `address` on that is free in one period. Continues where the search
    /// for this item stopped last: what lies before that is no obstacle higher up.
    std::uint32_t lowest_fit(Period& period, const Item& item, std::uint32_t address) {
        const Placed* const placed = period.placed.data();
        const std::size_t count = period.placed.size();
        std::size_t next = period.next;
        steps_ -= next;
        address = inside_chunk(address, item.size);
        for (; next < count && placed[next].begin < address + item.size; ++next) {
            // Without a branch that could not be predicted.
            const bool together =
                (placed[next].first <= item.last) & (placed[next].last >= item.first);
            const std::uint32_t above = std::max(address, together ? placed[next].end : 0);
            address = inside_chunk(above, item.size);
        }
        steps_ += next + 1;
        period.next = next;
        return address;
    }

    /// The lowest address from `address` on from which `size` units lie in one chunk.
    std::uint32_t inside_chunk(std::uint32_t address, std::uint32_t size) const {
        if (chunk_ >= kTooMany) return address;
        const std::uint32_t end = address - address % chunk_ + chunk_;
        return address + size <= end ? address : end;
    }

    static void insert(Period& period, const Item& item, std::uint32_t address) {
        std::size_t next = period.next;
        while (next > 0 && period.placed[next - 1].begin > address) --next;
        period.placed.insert(period.placed.begin() + static_cast<std::ptrdiff_t>(next),
                             {address, address + item.size, item.first, item.last});
    }

    void keep_order() {
        best_ = top_;
        best_order_ = order_;
        for (std::size_t i = 0; i < items_.size(); ++i) items_[i].at = at_[i];
    }

    /// The item that reached the limit was placed too late: it goes earlier, how much is left to
    /// chance, the same in every run.
    void improve(const Effort& effort) {
        constexpr int trials_per_start = 32;
        const std::size_t begin = steps_;
        std::minstd_rand random(1);
        order_ = best_order_;
        int failures = 0;
        while (best_ > effort.good) {
            const std::size_t allowed = best_ > effort.bad ? effort.steps_if_bad : effort.steps;
            if (steps_ - begin > allowed) return;
            // To be a little better is hardly easier than to be much better.
            const std::uint32_t limit =
                std::max(effort.good + 1, best_ - (best_ - effort.good) / 5);
            const std::size_t reached = try_order(limit);
            if (reached == order_.size()) {
                keep_order();
                failures = 0;
                continue;
            }
            if (++failures % trials_per_start == 0) order_ = best_order_;
            const auto from = order_.begin() + static_cast<std::ptrdiff_t>(reached);
            const auto to =
                order_.begin() + static_cast<std::ptrdiff_t>(reached * (random() % 1024) / 1024);
            std::rotate(to, from, from + 1);
        }
    }

    std::vector<Item> items_;
    std::int32_t peak_ = 0;
    std::uint32_t chunk_ = 0, best_ = 0, top_ = 0;
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint32_t> order_, best_order_, at_;
    std::vector<Period> periods_;  ///< the first `period_count_`; the others keep their memory
    std::size_t period_count_ = 0;
    std::vector<Span> spans_;  ///< the periods each item lives in
    std::size_t steps_ = 0;
};

}  // namespace heddle::alloc
