#include "quant/neighbours.hpp"

#include <array>
#include <mutex>

#include "quant/codec.hpp"

namespace heddle::quant {
namespace {

/// Squared distances between points, in steps of codes, as the sum of those of their lower and
/// their upper halves. The halves are few enough for a table of all pairs.
class Distances {
public:
    explicit Distances(const Codebook& book) : halves_(1) {
        const auto levels = static_cast<std::size_t>(book.levels);
        for (int i = 0; i < book.elements / 2; ++i) halves_ *= levels;
        between_.resize(halves_ * halves_);
        for (std::size_t a = 0; a < halves_; ++a) {
            for (std::size_t b = 0; b < halves_; ++b) {
                int sum = 0;
                for (std::size_t x = a, y = b; x != y; x /= levels, y /= levels) {
                    const int step = static_cast<int>(x % levels) - static_cast<int>(y % levels);
                    sum += step * step;
                }
                between_[a * halves_ + b] = static_cast<std::uint8_t>(sum);
            }
        }
        lower_.reserve(book.rows());
        upper_.reserve(book.rows());
        for (const std::uint16_t point : book.points) {
            lower_.push_back(static_cast<std::uint8_t>(point % halves_));
            upper_.push_back(static_cast<std::uint8_t>(point / halves_));
        }
    }

    /// The distance from `point` to every row.
    void to_rows(std::size_t point, std::span<std::uint8_t> distances) const {
        const std::uint8_t* from_lower = between_.data() + point % halves_ * halves_;
        const std::uint8_t* from_upper = between_.data() + point / halves_ * halves_;
        for (std::size_t row = 0; row < distances.size(); ++row) {
            distances[row] =
                static_cast<std::uint8_t>(from_lower[lower_[row]] + from_upper[upper_[row]]);
        }
    }

    static constexpr std::size_t kMost = 4 * 7 * 7;  ///< four elements of eight levels

private:
    std::size_t halves_;
    std::vector<std::uint8_t> between_, lower_, upper_;
};

/// Appends the list of one point: how many rows, then the rows, nearest first.
void append_nearest(std::span<const std::uint8_t> distances, int shells,
                    std::vector<std::uint16_t>& lists) {
    std::array<std::uint16_t, Distances::kMost + 1> count{};
    for (const std::uint8_t distance : distances) ++count[distance];

    // Where the rows of each distance begin, up to the last shell that is kept.
    std::array<std::uint16_t, Distances::kMost + 1> next{};
    std::uint16_t total = 0;
    std::size_t beyond = 0;
    for (int found = 0; beyond < count.size() && found < shells; ++beyond) {
        next[beyond] = total;
        total = static_cast<std::uint16_t>(total + count[beyond]);
        if (count[beyond] != 0) ++found;
    }

    lists.push_back(total);
    const std::size_t start = lists.size();
    lists.resize(start + total);
    for (std::size_t row = 0; row < distances.size(); ++row) {
        if (distances[row] >= beyond) continue;
        lists[start + next[distances[row]]++] = static_cast<std::uint16_t>(row);
    }
}

/// What is built for one codebook, on first use.
struct Slot {
    Type type;
    int shells;
    std::mutex mutex;
    std::shared_ptr<const Neighbours> table;

    std::shared_ptr<const Neighbours> get() {
        const std::lock_guard lock(mutex);
        if (table == nullptr) table = std::make_shared<Neighbours>(codebook_of(type), shells);
        return table;
    }

    void drop() {
        const std::lock_guard lock(mutex);
        table.reset();
    }
};

/// The process has one set of tables, because the C interface builds and frees them for all.
std::span<Slot> slots() {
    static std::array<Slot, 6> all{{{GGML_TYPE_IQ2_XXS, 2, {}, {}},
                                    {GGML_TYPE_IQ2_XS, 2, {}, {}},
                                    {GGML_TYPE_IQ2_S, 1, {}, {}},
                                    {GGML_TYPE_IQ3_XXS, 2, {}, {}},
                                    {GGML_TYPE_IQ3_S, 3, {}, {}},
                                    {GGML_TYPE_IQ1_S, 3, {}, {}}}};
    return all;
}

}  // namespace

Neighbours::Neighbours(const Codebook& book, int shells) {
    const Distances distances(book);
    place_.assign(book.space(), -1);
    for (std::size_t row = 0; row < book.rows(); ++row) {
        place_[book.points[row]] = static_cast<std::int32_t>(row);
    }
    std::vector<std::uint8_t> to_rows(book.rows());
    for (std::size_t point = 0; point < place_.size(); ++point) {
        if (place_[point] >= 0) continue;
        place_[point] = -1 - static_cast<std::int32_t>(lists_.size());
        distances.to_rows(point, to_rows);
        append_nearest(to_rows, shells, lists_);
    }
    lists_.shrink_to_fit();
}

std::span<const std::uint16_t> Neighbours::near(std::size_t point) const {
    if (place_[point] >= 0) return {};
    const std::uint16_t* list = lists_.data() + (-1 - place_[point]);
    return {list + 1, list[0]};
}

std::shared_ptr<const Neighbours> neighbours_of(Type type) {
    const Codebook* book = &codebook_of(type);
    for (Slot& slot : slots()) {
        if (&codebook_of(slot.type) == book) return slot.get();
    }
    return nullptr;
}

void prepare_search(Type type) { neighbours_of(type); }

void drop_search_tables() {
    for (Slot& slot : slots()) slot.drop();
}

}  // namespace heddle::quant
