#include "backends/cpu/kernels/movement/copy_units.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/movement/past_caches.hpp"
#include "backends/cpu/kernels/movement/transpose.hpp"

namespace heddle::cpu {
namespace {

// Units of these sizes are moved by plain loads and stores.
bool is_word(std::size_t size) { return size == 1 || size == 2 || size == 4 || size == 8; }

/// Calls `body` with a number as wide as a unit.
template <class Body>
void with_word(std::size_t size, Body&& body) {
    switch (size) {
        case 1:
            return body(std::uint8_t{});
        case 2:
            return body(std::uint16_t{});
        case 4:
            return body(std::uint32_t{});
        default:
            return body(std::uint64_t{});
    }
}

template <class Word>
void move_words(const std::byte* from, std::int64_t from_stride, std::byte* to,
                std::int64_t to_stride, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        Word word;
        std::memcpy(&word, from + i * from_stride, sizeof word);
        std::memcpy(to + i * to_stride, &word, sizeof word);
    }
}

/// A stretch of units along one axis of each side.
struct Stretch {
    const std::byte* from;
    std::int64_t from_stride;
    std::byte* to;
    std::int64_t to_stride;
    std::int64_t count;
};

constexpr std::int64_t kLine = 64;  ///< bytes that caches hold together

/// Bytes of a buffer for what is not dense; as many as the largest unit, 256 floats, and more.
constexpr std::size_t kBufferSize = 4096;

/// More than this, read and written together, is more than caches hold.
constexpr double kCacheBytes = 32 << 20;

bool goes_past_caches(const Copy& copy) {
    return static_cast<double>(copy.to.count()) *
               static_cast<double>(copy.from.unit + copy.to.unit) >
           kCacheBytes;
}

/// Orders the loops around the innermost one as the source lies. Reads are waited for and
/// prefetched where they are in order; writes past the caches are neither.
void read_in_order(Copy& copy) {
    if (!copy.is_aligned) return;
    for (std::size_t d = 2; d < copy.from.rank; ++d) {
        for (std::size_t e = d; e > 1; --e) {
            if (copy.from.axes[e].stride >= copy.from.axes[e - 1].stride) break;
            std::swap(copy.from.axes[e], copy.from.axes[e - 1]);
            std::swap(copy.to.axes[e], copy.to.axes[e - 1]);
        }
    }
}

/// Converts a dense stretch, a piece at a time, on the way past the caches. Encoders of blocks read
/// in bursts, between which the CPU does not see how far this goes on: so the next piece is
/// asked for, and pieces are short enough for both to be in L1.
void convert_past_caches(const Copy& copy, const Stretch& stretch) {
    constexpr std::int64_t kPieceSize = 2048;
    alignas(64) std::byte converted[kBufferSize];
    const auto from_unit = static_cast<std::int64_t>(copy.from.unit);
    const auto to_unit = static_cast<std::int64_t>(copy.to.unit);
    const std::int64_t piece = std::max<std::int64_t>(1, kPieceSize / std::max(from_unit, to_unit));
    const bool is_encoding = to_unit < from_unit && copy.elements_per_unit > 1;
    for (std::int64_t i = 0; i < stretch.count; i += piece) {
        const std::int64_t n = std::min(piece, stretch.count - i);
        const std::byte* from = stretch.from + i * from_unit;
        if (is_encoding && i + n < stretch.count) {
            const std::int64_t next = std::min(piece, stretch.count - i - n) * from_unit;
            for (std::int64_t b = 0; b < next; b += kLine) hwy::Prefetch(from + n * from_unit + b);
        }
        copy.convert(from, converted, n * copy.elements_per_unit);
        copy_past_caches(converted, stretch.to + i * to_unit,
                         static_cast<std::size_t>(n * to_unit));
    }
}

/// Gathers what is not dense, converts, scatters what is not dense.
void convert_stretch(const Copy& copy, const Stretch& stretch, bool past_caches) {
    const auto from_unit = static_cast<std::int64_t>(copy.from.unit);
    const auto to_unit = static_cast<std::int64_t>(copy.to.unit);
    const bool from_dense = stretch.from_stride == from_unit;
    const bool to_dense = stretch.to_stride == to_unit;
    if (from_dense && to_dense) {
        if (past_caches) return convert_past_caches(copy, stretch);
        return copy.convert(stretch.from, stretch.to, stretch.count * copy.elements_per_unit);
    }
    alignas(64) std::byte gathered[kBufferSize];
    alignas(64) std::byte converted[kBufferSize];
    const std::int64_t chunk =
        static_cast<std::int64_t>(kBufferSize) / std::max(from_unit, to_unit);
    for (std::int64_t i = 0; i < stretch.count; i += chunk) {
        const std::int64_t n = std::min(chunk, stretch.count - i);
        const std::byte* from = stretch.from + i * stretch.from_stride;
        std::byte* to = stretch.to + i * stretch.to_stride;
        if (!from_dense) {
            move_units(from, stretch.from_stride, gathered, from_unit, n, copy.from.unit);
            from = gathered;
        }
        copy.convert(from, to_dense ? to : converted, n * copy.elements_per_unit);
        if (!to_dense) move_units(converted, to_unit, to, stretch.to_stride, n, copy.to.unit);
    }
}

void copy_stretches(const Copy& copy, bool past_caches, const Task& task) {
    // Parts begin at whole cache lines of a dense destination.
    const auto group = std::max<std::int64_t>(1, 64 / static_cast<std::int64_t>(copy.to.unit));
    const std::int64_t count = copy.to.count();
    const Range groups = task.share((count + group - 1) / group);
    const std::int64_t begin = groups.begin * group, end = std::min(groups.end * group, count);
    if (begin >= end) return;
    Cursor from(copy.from, begin), to(copy.to, begin);
    const bool is_bitwise = copy.convert.is_bitwise();
    const bool is_dense = copy.from.is_dense() && copy.to.is_dense();
    const std::int64_t from_stride = copy.from.axes[0].stride, to_stride = copy.to.axes[0].stride;
    for (std::int64_t i = begin; i < end;) {
        const std::int64_t n = std::min({from.left(), to.left(), end - i});
        if (is_bitwise && is_dense && past_caches) {
            copy_past_caches(from.here(), to.here(), static_cast<std::size_t>(n) * copy.to.unit);
        } else if (is_bitwise) {
            move_units(from.here(), from_stride, to.here(), to_stride, n, copy.to.unit);
        } else {
            convert_stretch(copy, {from.here(), from_stride, to.here(), to_stride, n}, past_caches);
        }
        i += n;
        from.advance(n);
        to.advance(n);
    }
}

// ---- transposes --------------------------------------------------------------------------------

/// A tile is so many units long at most in the direction in which the destination is dense; in the
/// other one, in which the source is, it has whole cache lines. All of it takes so many bytes.
constexpr std::int64_t kTileLength = 64;
constexpr std::int64_t kTileSize = 32768;

/// Tiles with a side of fewer units than this are not worth gathering before they are written.
constexpr std::int64_t kShortSide = 8;

/// The axis along which the source is dense while axis 0 is where the destination is; 0: none.
std::size_t transposed_axis(const Copy& copy) {
    if (!copy.is_aligned || !is_word(copy.from.unit)) return 0;
    if (copy.elements_per_unit != 1 || !copy.to.is_dense() || copy.from.is_dense()) return 0;
    for (std::size_t d = 1; d < copy.from.rank; ++d) {
        if (copy.from.axes[d].stride == static_cast<std::int64_t>(copy.from.unit)) return d;
    }
    return 0;
}

/// Words of 2 and 4 bytes have a fast way. Tiles with a short side are moved along the long one.
template <class Word>
void transpose_tile(const Transposition& tile, bool past_caches) {
    constexpr std::int64_t size = sizeof(Word);
    if (tile.columns < kShortSide) {
        for (std::int64_t j = 0; j < tile.columns; ++j) {
            move_words<Word>(tile.from + j * size, tile.from_stride, tile.to + j * tile.to_stride,
                             size, tile.rows);
        }
    } else if (tile.rows >= kShortSide && size == 2) {
        transpose_words_of_2(tile, past_caches);
    } else if (tile.rows >= kShortSide && size == 4) {
        transpose_words_of_4(tile, past_caches);
    } else {
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            move_words<Word>(tile.from + i * tile.from_stride, size, tile.to + i * size,
                             tile.to_stride, tile.columns);
        }
    }
}

/// How a copy whose source is dense along another axis than its destination is cut into tiles.
struct Tiling {
    std::int64_t length, width;  ///< of all of it, in units
    std::int64_t shift;          ///< units that the first tile is shorter
    std::int64_t tile_length, tile_width;
    std::int64_t rows, tiles_per_plane, tiles;

    /// `in_lines`: tiles begin where lines of the destination do.
    Tiling(const Layout& to, std::size_t axis, std::int64_t size, bool in_lines)
        : length(to.axes[0].extent),
          width(to.axes[axis].extent),
          shift(in_lines
                    ? static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to.data) % kLine) /
                          size
                    : 0),
          tile_length(std::min(kTileLength, length)),
          tile_width(kTileSize / (tile_length * kLine) * (kLine / size)),
          rows((length + shift + tile_length - 1) / tile_length),
          tiles_per_plane(rows * ((width + tile_width - 1) / tile_width)),
          tiles(to.count() / (length * width) * tiles_per_plane) {}
};

/// Where plane number `number` begins: all axes but axis 0 and `axis`.
std::byte* plane_of(const Layout& layout, std::size_t axis, std::int64_t number) {
    std::byte* plane = layout.data;
    for (std::size_t d = 1; d < layout.rank; ++d) {
        if (d == axis) continue;
        plane += number % layout.axes[d].extent * layout.axes[d].stride;
        number /= layout.axes[d].extent;
    }
    return plane;
}

template <class Word>
void copy_transposed(const Copy& copy, std::size_t axis, bool past_caches, const Task& task) {
    const Tiling tiling(copy.to, axis, sizeof(Word), past_caches);
    const std::int64_t from_stride = copy.from.axes[0].stride;
    const std::int64_t to_stride = copy.to.axes[axis].stride;
    const std::int64_t row = tiling.tile_length * static_cast<std::int64_t>(sizeof(Word));
    // Words that have no fast way are gathered before they are written.
    const bool is_direct =
        copy.convert.is_bitwise() && (sizeof(Word) == 2 || sizeof(Word) == 4 ||
                                      tiling.length < kShortSide || tiling.width < kShortSide);
    alignas(64) std::byte buffer[kTileSize];
    const Range range = task.share(tiling.tiles);
    for (std::int64_t tile = range.begin; tile < range.end; ++tile) {
        const std::int64_t in_plane = tile % tiling.tiles_per_plane;
        const std::int64_t begin = in_plane % tiling.rows * tiling.tile_length - tiling.shift;
        const std::int64_t i = std::max<std::int64_t>(begin, 0);
        const std::int64_t j = in_plane / tiling.rows * tiling.tile_width;
        const std::int64_t length = std::min(begin + tiling.tile_length, tiling.length) - i;
        const std::int64_t width = std::min(tiling.tile_width, tiling.width - j);
        const std::byte* from = plane_of(copy.from, axis, tile / tiling.tiles_per_plane) +
                                i * from_stride + j * copy.from.axes[axis].stride;
        std::byte* to = plane_of(copy.to, axis, tile / tiling.tiles_per_plane) +
                        i * copy.to.axes[0].stride + j * to_stride;
        if (is_direct) {
            transpose_tile<Word>({from, from_stride, to, to_stride, length, width}, past_caches);
            continue;
        }
        transpose_tile<Word>({from, from_stride, buffer, row, length, width}, false);
        for (std::int64_t k = 0; k < width; ++k) {
            copy.convert(buffer + k * row, to + k * to_stride, length);
        }
    }
}

bool is_same_memory(const Copy& copy) {
    if (!copy.is_aligned || !copy.convert.is_bitwise() || copy.from.data != copy.to.data)
        return false;
    for (std::size_t d = 0; d < copy.to.rank; ++d) {
        if (copy.from.axes[d].stride != copy.to.axes[d].stride) return false;
    }
    return true;
}

}  // namespace

Copy Copy::of_bits(Type type, const Layout& from, const Layout& to) {
    Copy copy{from, to, *RowConverter::between(type, type), block_size(type)};
    copy.is_aligned = align(copy.from, copy.to);
    return copy;
}

Copy Copy::of(const Tensor& x, const Tensor& y) {
    const std::int64_t from_block = block_size(x.type), to_block = block_size(y.type);
    Copy copy{Layout::of(x), Layout::of(y), *RowConverter::between(x.type, y.type)};
    copy.elements_per_unit = std::max(from_block, to_block);
    if (from_block < to_block) copy.from.group(to_block);
    if (to_block < from_block) copy.to.group(from_block);
    copy.is_aligned = align(copy.from, copy.to);
    return copy;
}

std::string_view objection_to_copy(const Tensor& x, const Tensor& y) {
    if (!RowConverter::between(x.type, y.type)) {
        return "there is no conversion from the type of x to that of the result";
    }
    if (element_count(x) != element_count(y)) {
        return "x and the result differ in their number of elements";
    }
    const std::int64_t from_block = block_size(x.type), to_block = block_size(y.type);
    if (from_block < to_block && !Layout::of(x).group(to_block)) {
        return "rows of x are not dense and whole blocks of the result";
    }
    if (to_block < from_block && !Layout::of(y).group(from_block)) {
        return "rows of the result are not dense and whole blocks of x";
    }
    return {};
}

void run_copy(const Copy& copy, const Task& task) {
    if (copy.to.count() == 0 || is_same_memory(copy)) return;
    const bool past_caches = goes_past_caches(copy);
    if (const std::size_t axis = transposed_axis(copy); axis == 0 && past_caches) {
        Copy ordered = copy;
        read_in_order(ordered);
        copy_stretches(ordered, true, task);
    } else if (axis == 0) {
        copy_stretches(copy, false, task);
    } else {
        with_word(copy.from.unit, [&](auto word) {
            copy_transposed<decltype(word)>(copy, axis, past_caches, task);
        });
    }
    if (past_caches) finish_past_caches();
}

int copy_tasks(const Tensor& x, const Tensor& y, int threads) {
    const std::int64_t count = element_count(y);
    const std::int64_t unit = std::max(block_size(x.type), block_size(y.type));
    const auto elements = static_cast<double>(count);
    const auto bytes_of = [elements](Type type) {
        return elements * static_cast<double>(size_of(type)) /
               static_cast<double>(block_size(type));
    };
    const double flops = RowConverter::between(x.type, y.type)->flops_per_element() * elements;
    return worthwhile_tasks(bytes_of(x.type) + bytes_of(y.type), flops, count / unit, threads);
}

void move_units(const std::byte* from, std::int64_t from_stride, std::byte* to,
                std::int64_t to_stride, std::int64_t n, std::size_t size) {
    const auto bytes = static_cast<std::int64_t>(size);
    if (from_stride == bytes && to_stride == bytes) {
        std::memcpy(to, from, static_cast<std::size_t>(n) * size);
    } else if (is_word(size)) {
        with_word(size, [&](auto word) {
            move_words<decltype(word)>(from, from_stride, to, to_stride, n);
        });
    } else {
        for (std::int64_t i = 0; i < n; ++i) {
            std::memcpy(to + i * to_stride, from + i * from_stride, size);
        }
    }
}

}  // namespace heddle::cpu
