// Rows of keys and values in lanes, from any place on. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_FLASH_ATTN_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_FLASH_ATTN_LANES_HPP
#undef HEDDLE_CPU_FLASH_ATTN_LANES_HPP
#else
#define HEDDLE_CPU_FLASH_ATTN_LANES_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/dot/prefetch.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"
#include "simd/unrolled.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A block of q8_0.
struct Q8Block {
    std::uint16_t scale;
    std::int8_t codes[32];
};
static_assert(sizeof(Q8Block) == 34);

/// Elements of a row from `i` on.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_element(D d, const T* row, std::int64_t i) {
    return load_f32(d, row + i);
}

template <class D>
HWY_INLINE hn::Vec<D> load_codes(D d, const std::int8_t* codes) {
    const hn::Rebind<std::int8_t, D> bytes;
    const hn::Rebind<std::int32_t, D> numbers;
    return hn::ConvertTo(d, hn::PromoteTo(numbers, hn::LoadU(bytes, codes)));
}

/// `i` is a multiple of the lanes, of which there are no more than a block has codes.
template <class D>
HWY_INLINE hn::Vec<D> load_element(D d, const Q8Block* row, std::int64_t i) {
    const Q8Block& block = row[i / 32];
    return hn::Mul(load_codes(d, block.codes + i % 32), hn::Set(d, half_to_float(block.scale)));
}

template <class T>
HWY_INLINE float element(const T* row, std::int64_t i) {
    return to_float(row[i]);
}
HWY_INLINE float element(const Q8Block* row, std::int64_t i) {
    return half_to_float(row[i / 32].scale) * static_cast<float>(row[i / 32].codes[i % 32]);
}

template <class T>
const T* row_of(const MatrixView& view, std::int64_t j) {
    return reinterpret_cast<const T*>(view.rows + static_cast<std::size_t>(j) * view.pitch);
}

/// Asks for rows ahead, a few cache lines in each of `steps` steps.
class Asking {
public:
    HWY_INLINE Asking(const Ahead& ahead, std::int64_t steps)
        : rows_(as_long_rows(ahead.first)), later_(as_long_rows(ahead.second)) {
        const std::int64_t lines = rows_.count * lines_of(rows_) + later_.count * lines_of(later_);
        lines_ = (lines + steps - 1) / steps;
        if (rows_.count == 0) rows_ = std::exchange(later_, {});
        begin_row();
    }

    HWY_INLINE void go_on() {
        for (std::int64_t wanted = lines_; wanted > 0 && left_ > 0;) {
            const std::int64_t n = wanted < left_ ? wanted : left_;
            for (const std::byte* end = at_ + n * kLine; at_ != end; at_ += kLine) prefetch_l2(at_);
            wanted -= n;
            left_ -= n;
            if (left_ == 0) end_row();
        }
    }

private:
    static constexpr std::int64_t kLine = 64;

    static HWY_INLINE std::int64_t lines_of(const RowsAhead& rows) {
        return (static_cast<std::int64_t>(rows.size) + kLine - 1) / kLine;
    }
    /// Rows without gaps are a long one.
    static HWY_INLINE RowsAhead as_long_rows(RowsAhead rows) {
        if (rows.count == 0 || rows.size != rows.pitch) return rows;
        return {rows.rows, 0, 1, rows.size * static_cast<std::size_t>(rows.count)};
    }

    HWY_INLINE void begin_row() {
        at_ = rows_.rows;
        left_ = rows_.count > 0 ? lines_of(rows_) : 0;
    }
    HWY_INLINE void end_row() {
        rows_.rows += rows_.pitch;
        if (--rows_.count == 0) rows_ = std::exchange(later_, {});
        begin_row();
    }

    RowsAhead rows_, later_;
    const std::byte* at_;
    std::int64_t left_;   ///< lines of this row
    std::int64_t lines_;  ///< of a step
};

/// use(number, block, head, q, first) for `step` rows at a time, from row `first` on: for all
/// heads, then for the next rows. `number` queries from q on are worked on together: four, two or
/// one.
template <class Head, class Use>
HWY_INLINE void for_blocks(const MatrixView& view, std::span<const Head> heads, std::int64_t step,
                           int queries, const Ahead& ahead, Use use) {
    constexpr std::integral_constant<int, 1> one;
    constexpr std::integral_constant<int, 2> two;
    constexpr std::integral_constant<int, 4> four;
    const std::int64_t blocks = (view.count + step - 1) / step;
    Asking asking(ahead, blocks * static_cast<std::int64_t>(heads.size()));
    for (std::int64_t first = 0; first < view.count; first += step) {
        MatrixView block = view;
        block.count = view.count - first < step ? view.count - first : step;
        for (const Head& head : heads) {
            asking.go_on();
            block.rows = view.rows + static_cast<std::size_t>(first) * view.pitch + head.offset;
            int q = 0;
            for (; q + 4 <= queries; q += 4) use(four, block, head, q, first);
            if (q + 2 <= queries) {
                use(two, block, head, q, first);
                q += 2;
            }
            if (q < queries) use(one, block, head, q, first);
        }
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
