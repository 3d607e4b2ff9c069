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
#include <type_traits>

#include "backends/cpu/dot/fetch.hpp"
#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"

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

/// body(0), body(1), ... body(kCount - 1) with numbers that are known when it is compiled: arrays
/// of vectors stay in registers, which they do not in all loops.
template <int kCount, class Body>
HWY_INLINE void unrolled(Body body) {
    if constexpr (kCount > 0) {
        unrolled<kCount - 1>(body);
        body(std::integral_constant<int, kCount - 1>());
    }
}

template <class T>
const T* row_of(const Panel& panel, std::int64_t j) {
    return reinterpret_cast<const T*>(panel.rows + static_cast<std::size_t>(j) * panel.pitch);
}

/// Asks for rows ahead, a few cache lines in each of `steps` steps.
class Asking {
public:
    HWY_INLINE Asking(const RowsAhead& ahead, std::int64_t steps)
        : row_(ahead.rows), size_(ahead.size), pitch_(ahead.pitch), left_(ahead.count) {
        const auto lines = ahead.count * static_cast<std::int64_t>((size_ + kLine - 1) / kLine);
        lines_ = (lines + steps - 1) / steps;
    }

    HWY_INLINE void go_on() {
        for (std::int64_t n = left_ > 0 ? lines_ : 0; n > 0; --n) {
            fetch_soon(row_ + offset_);
            offset_ += kLine;
            if (offset_ < size_) continue;
            offset_ = 0;
            row_ += pitch_;
            if (--left_ == 0) return;
        }
    }

private:
    static constexpr std::size_t kLine = 64;

    const std::byte* row_;
    std::size_t size_, pitch_, offset_ = 0;
    std::int64_t left_, lines_;
};

/// use(number, first, ahead) for all queries, four, two or one at a time. The first ones ask for
/// all rows ahead.
template <class Use>
HWY_INLINE void for_queries(int count, RowsAhead ahead, Use use) {
    int first = 0;
    const auto take = [&](auto number) HWY_ATTR {
        for (; first + number <= count; first += number, ahead = {}) use(number, first, ahead);
    };
    take(std::integral_constant<int, 4>());
    take(std::integral_constant<int, 2>());
    take(std::integral_constant<int, 1>());
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
