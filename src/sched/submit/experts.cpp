#include "sched/submit/experts.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/transfer.hpp"

namespace heddle::sched {
namespace {

/// How far kernels may read past the end of an expert.
constexpr std::size_t kSlack = 512;

}  // namespace

Result<const std::vector<std::uint8_t>*> ChosenExperts::of(TensorId id, const Tensor& ids,
                                                           std::int64_t experts) {
    for (std::size_t i = 0; i < count_; ++i) {
        const Choice& known = choices_[i];
        if (known.id == id && known.is_used.size() == static_cast<std::size_t>(experts)) {
            return &known.is_used;
        }
    }
    if (count_ == choices_.size()) choices_.emplace_back();
    Choice& choice = choices_[count_];
    choice.id = id;
    choice.is_used.assign(static_cast<std::size_t>(experts), 0);
    bytes_.resize(byte_size(ids));
    if (!bytes_.empty()) HEDDLE_TRY(read_tensor(ids, bytes_.data(), 0, bytes_.size()));
    for (std::int64_t i1 = 0; i1 < ids.ne[1]; ++i1) {
        for (std::int64_t i0 = 0; i0 < ids.ne[0]; ++i0) {
            std::int32_t expert = 0;
            const std::size_t at =
                static_cast<std::size_t>(i0) * ids.nb[0] + static_cast<std::size_t>(i1) * ids.nb[1];
            std::memcpy(&expert, bytes_.data() + at, sizeof expert);
            if (expert < 0 || expert >= experts) {
                return invalid(describe(ids), " chooses expert ", expert, " for token ", i1,
                               ", and there are ", experts);
            }
            choice.is_used[static_cast<std::size_t>(expert)] = 1;
        }
    }
    ++count_;
    return &choice.is_used;
}

void used_ranges(const Tensor& weight, const std::vector<std::uint8_t>& is_used,
                 std::vector<ByteRange>& ranges) {
    ranges.clear();
    const std::size_t size = weight.nb[2];
    const std::size_t total = byte_size(weight);
    const std::size_t experts = is_used.size();
    for (std::size_t first = 0; first < experts;) {
        if (is_used[first] == 0) {
            ++first;
            continue;
        }
        std::size_t end = first;
        while (end < experts && is_used[end] != 0) ++end;
        const std::size_t slack = end < experts ? std::min(size, kSlack) : 0;
        const std::size_t from = first * size;
        ranges.push_back({from, std::min(end * size + slack, total) - from});
        first = end;
    }
}

}  // namespace heddle::sched
