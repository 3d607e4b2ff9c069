// The largest values of a row. Included once per instruction set.

#if defined(HEDDLE_CPU_ROW_LARGEST_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_ROW_LARGEST_HPP
#undef HEDDLE_CPU_ROW_LARGEST_HPP
#else
#define HEDDLE_CPU_ROW_LARGEST_HPP
#endif

#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/rows/row_order.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kMinusInfinity = -__builtin_inff();

/// Room for `size` values that may be among the largest, and for what sorting them takes.
struct LargestRoom {
    std::int64_t size;
    std::uint64_t* sorting;  ///< two for each
    float* values;
    std::int32_t *indices, *order;
};

/// Calls `found(i)` for the indices i, rising, of values for which `test` of their vector is true,
/// until it returns false.
template <class Test, class Found>
HWY_INLINE void for_indices_where(const float* x, std::int64_t n, Test test, Found found) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const auto report = [&](auto mask, std::int64_t i, std::int64_t count) HWY_ATTR {
        std::uint64_t bits = 0;
        hn::StoreMaskBits(d, mask, reinterpret_cast<std::uint8_t*>(&bits));
        for (; bits != 0; bits &= bits - 1) {
            const auto lane = static_cast<std::int64_t>(hwy::Num0BitsBelowLS1Bit_Nonzero64(bits));
            if (lane >= count || !found(i + lane)) return false;
        }
        return true;
    };
    std::int64_t i = 0;
    for (; i + 2 * step <= n; i += 2 * step) {  // most of them have none
        const auto here = test(hn::LoadU(d, x + i)), there = test(hn::LoadU(d, x + i + step));
        if (HWY_LIKELY(hn::AllFalse(d, hn::Or(here, there)))) continue;
        if (!report(here, i, step) || !report(there, i + step, step)) return;
    }
    for (; i < n; i += step) {
        const std::int64_t count = n - i < step ? n - i : step;
        HWY_ALIGN float rest[hn::MaxLanes(d)] = {};
        std::memcpy(rest, x + i, static_cast<std::size_t>(count) * sizeof(float));
        if (!report(test(hn::Load(d, rest)), i, count)) return;
    }
}

/// Folds x into columns of which there are `width`, whole vectors, and writes the largest of each.
/// A last line that is not whole is left out, and so is NaN.
inline void largest_of_columns(const float* x, std::int64_t n, std::int64_t width, float* largest) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const auto larger = [x, d](auto best, std::int64_t i) HWY_ATTR {
        const auto v = hn::LoadU(d, x + i);
        return hn::IfThenElse(hn::Gt(v, best), v, best);
    };
    std::int64_t column = 0;
    for (; column + 4 * step <= width; column += 4 * step) {
        auto best0 = hn::Set(d, kMinusInfinity), best1 = best0, best2 = best0, best3 = best0;
        for (std::int64_t line = 0; line + width <= n; line += width) {
            best0 = larger(best0, line + column);
            best1 = larger(best1, line + column + step);
            best2 = larger(best2, line + column + 2 * step);
            best3 = larger(best3, line + column + 3 * step);
        }
        hn::StoreU(best0, d, largest + column);
        hn::StoreU(best1, d, largest + column + step);
        hn::StoreU(best2, d, largest + column + 2 * step);
        hn::StoreU(best3, d, largest + column + 3 * step);
    }
    for (; column < width; column += step) {
        auto best = hn::Set(d, kMinusInfinity);
        for (std::int64_t line = 0; line + width <= n; line += width) {
            best = larger(best, line + column);
        }
        hn::StoreU(best, d, largest + column);
    }
}

/// A value that at least k of x reach, and not many more: the k-th of the largest of more than k
/// columns. Minus infinity if x is too short for that.
inline float nearly_kth_largest(const float* x, std::int64_t n, std::int64_t k,
                                const LargestRoom& room) {
    const Floats d;
    const std::int64_t unit = (n < 1024 ? 1 : 4) * lane_count(d);
    const std::int64_t width = (k + k / 2 + unit - 1) / unit * unit;
    if (width > room.size || 2 * width > n) return kMinusInfinity;
    largest_of_columns(x, n, width, room.values);
    order_row(room.values, width, true, room.sorting, room.order);
    return room.values[room.order[k - 1]];
}

/// Writes the indices of the k largest values of x, the largest first; equal ones in the order of
/// their indices, NaN last. There is room for more than k.
inline void find_largest(const float* x, std::int64_t n, std::int64_t k, const LargestRoom& room,
                         std::int32_t* largest) {
    const Floats d;
    if (n <= room.size && (n <= kMostCompared / 4 || n <= 4 * k)) {
        order_row(x, n, true, room.sorting, room.order);
        std::memcpy(largest, room.order, static_cast<std::size_t>(k) * sizeof(std::int32_t));
        return;
    }
    float least = nearly_kth_largest(x, n, k, room);  // the k largest are not below
    std::int64_t count = 0;                           // of those above
    const auto keep = [&](std::int64_t i) {
        room.values[count] = x[i];
        room.indices[count++] = static_cast<std::int32_t>(i);
    };
    const auto raise_least = [&] {
        order_row(room.values, count, true, room.sorting, room.order);
        least = room.values[room.order[k - 1]];
        const std::int64_t all = count;
        count = 0;
        for (std::int64_t i = 0; i < all; ++i) {
            if (room.values[i] > least) keep(room.indices[i]);
        }
    };
    for_indices_where(
        x, n, [&](auto v) HWY_ATTR { return hn::Gt(v, hn::Set(d, least)); },
        [&](std::int64_t i) {
            if (count == room.size) raise_least();
            if (x[i] > least) keep(i);
            return true;
        });
    order_row(room.values, count, true, room.sorting, room.order);
    std::int64_t done = 0;
    for (; done < count && done < k; ++done) largest[done] = room.indices[room.order[done]];
    const auto add = [&](std::int64_t i) {
        if (done < k) largest[done++] = static_cast<std::int32_t>(i);
        return done < k;
    };
    if (done == k) return;
    for_indices_where(
        x, n, [&](auto v) HWY_ATTR { return hn::Eq(v, hn::Set(d, least)); }, add);
    if (done == k) return;
    for_indices_where(
        x, n, [](auto v) HWY_ATTR { return hn::IsNaN(v); }, add);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_ROW_LARGEST_HPP
