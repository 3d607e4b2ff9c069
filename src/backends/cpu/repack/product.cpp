#include "backends/cpu/repack/product.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/products/gemm_pieces.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
namespace {

constexpr std::int64_t kPieceMicroPanels = 8;  ///< unpacked at a time, at most; they stay in cache
constexpr std::int64_t kPiecesPerTask = 4;     ///< so that no task waits long for another
constexpr std::int64_t kLeastMicroPanels = 4;  ///< of a piece, unless some task would have none

constexpr std::size_t kUnpackedSize =
    kPieceMicroPanels * kRepackRows * (kRepackDepth / 32) * kMostRowBytes;

std::int64_t parts_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
std::size_t whole_lines(std::size_t size) { return (size + 63) / 64 * 64; }

/// Where the results of a micro-panel and a tile go; what is not wanted goes to a place of its own.
class Results {
public:
    Results(float* const* columns, std::int64_t row, std::int64_t rows, int width, int wanted)
        : rows_(rows), wanted_(wanted) {
        for (int c = 0; c < width; ++c) {
            if (c < wanted) to_[c] = columns[c] + row;
            out_[c] = c < wanted && rows == kRepackRows ? to_[c] : spare_[c];
        }
    }

    /// `multiply(out, add)` gives sixteen results for each column.
    template <class Multiply>
    void take(bool add, Multiply multiply) {
        if (rows_ == kRepackRows) return multiply(static_cast<float* const*>(out_), add);
        multiply(static_cast<float* const*>(out_), false);
        for (int c = 0; c < wanted_; ++c) {
            for (std::int64_t r = 0; r < rows_; ++r) {
                to_[c][r] = add ? to_[c][r] + spare_[c][r] : spare_[c][r];
            }
        }
    }

private:
    const std::int64_t rows_;
    const int wanted_;
    float *to_[kRepackColumns], *out_[kRepackColumns];
    alignas(64) float spare_[kRepackColumns][kRepackRows] = {};
};

/// Memory for some blocks of a micro-panel of eight rows made sixteen.
struct WideMicroPanel {
    alignas(64) std::byte bytes[kRepackRows * kRepackDepth * 34 / 32];
};

}  // namespace

RepackProduct::RepackProduct(const Tensor& node)
    : node_(node),
      a_(*node.src[0]),
      b_(*node.src[1]),
      ids_(node.op == GGML_OP_MUL_MAT_ID ? node.src[2] : nullptr),
      layout_(*repack_layout_of(a_.type)),
      kernel_(repack_kernel_of(a_.type)),
      multiplier_(multiplier_of(a_.type)),
      depth_(a_.ne[0]),
      micro_panels_(parts_of(a_.ne[1], kRepackRows)),
      matrices_(a_.ne[2]),
      columns_(ids_ != nullptr ? ids_->ne[0] * ids_->ne[1] : row_count(b_)) {}

Demand RepackProduct::demand(int threads) const {
    const std::int64_t used = std::min(matrices_, columns_);
    const double bytes = static_cast<double>(byte_size(a_)) * static_cast<double>(used) /
                         static_cast<double>(std::max<std::int64_t>(matrices_, 1));
    const double flops =
        2.0 * static_cast<double>(columns_ * a_.ne[1]) * static_cast<double>(depth_);
    const std::int64_t pieces = micro_panels_ * used * parts_of(columns_, kRepackColumns);
    Demand demand{.tasks = worthwhile_tasks(bytes, flops, pieces, threads),
                  .scratch = table_size() + tiles_size()};
    if (columns_ > kNarrowTile) {  // no instruction set has micro-panels for fewer
        demand.scratch += static_cast<std::size_t>(demand.tasks) * kUnpackedSize;
    }
    return demand;
}

std::size_t RepackProduct::table_size() const {
    if (ids_ == nullptr) return 0;
    return whole_lines(static_cast<std::size_t>(matrices_ + 1 + columns_) * sizeof(std::int64_t));
}

/// Enough for any instruction set: another may be chosen before the product runs. Each matrix may
/// have a last tile that is not full.
std::size_t RepackProduct::tiles_size() const {
    const std::int64_t columns = columns_ + kRepackColumns * std::min(matrices_, columns_);
    return whole_lines(static_cast<std::size_t>(columns * (depth_ / 32)) * kMostColumnBytes);
}

// ---- columns -----------------------------------------------------------------------------------

/// Where the columns of each matrix begin in the list that follows.
const std::int64_t* RepackProduct::begins(const Task& task) const {
    return reinterpret_cast<const std::int64_t*>(task.scratch);
}

/// Sorts the columns by expert; columns of one expert stay in order.
void RepackProduct::sort_columns(const Task& task) const {
    auto* begin = reinterpret_cast<std::int64_t*>(task.scratch);
    std::int64_t* list = begin + matrices_ + 1;
    std::fill_n(begin, matrices_ + 1, 0);
    bool is_good = true;
    const auto for_columns = [&](auto body) {
        for (std::int64_t i = 0; i < columns_; ++i) {
            const auto expert = *at<const std::int32_t>(*ids_, i % ids_->ne[0], i / ids_->ne[0]);
            if (expert >= 0 && expert < matrices_) {
                body(expert, i);
            } else if (std::exchange(is_good, false)) {
                task.fail([&] { return text("ids name expert ", expert, " of ", matrices_); });
            }
        }
    };
    for_columns([&](std::int32_t expert, std::int64_t) { ++begin[expert + 1]; });
    for (std::int64_t e = 0; e < matrices_; ++e) begin[e + 1] += begin[e];
    // Each begin moves to the end of its columns, which is where those of the next expert begin:
    // moved up by one place they are begins again.
    for_columns([&](std::int32_t expert, std::int64_t i) { list[begin[expert]++] = i; });
    std::memmove(begin + 1, begin, static_cast<std::size_t>(matrices_) * sizeof *begin);
    begin[0] = 0;
}

std::int64_t RepackProduct::columns_of(const Task& task, std::int64_t matrix) const {
    if (ids_ == nullptr) return columns_;
    return begins(task)[matrix + 1] - begins(task)[matrix];
}

RepackProduct::Tiling RepackProduct::tiling_of(std::int64_t columns) const {
    const bool is_straight = columns <= kernel_.straight_columns;
    const int most = is_straight ? kernel_.columns : kernel_.micro_panels.columns;
    return {columns, is_straight, most, parts_of(columns, most)};
}

int RepackProduct::width_of(const Tiling& tiling, std::int64_t tile) const {
    if (!tiling.is_straight) return tiling.most;
    return kernel_.tile_width(
        std::min<std::int64_t>(tiling.columns - tile * tiling.most, tiling.most));
}

std::size_t RepackProduct::tile_size(const Tiling& tiling, int width, std::int64_t count) const {
    if (tiling.is_straight) return kernel_.tile_bytes(count, width);
    return kernel_.micro_panels.column_micro_panel_size(count);
}

std::size_t RepackProduct::size_of(const Tiling& tiling, std::int64_t tiles) const {
    if (tiles == 0) return 0;
    const std::size_t full = tile_size(tiling, tiling.most, depth_);
    return static_cast<std::size_t>(tiles - 1) * full +
           tile_size(tiling, width_of(tiling, tiles - 1), depth_);
}

/// Where the results of a column go.
Row RepackProduct::column_at(const Task& task, std::int64_t matrix, std::int64_t column) const {
    if (ids_ != nullptr) {
        const std::int64_t* begin = begins(task);
        const std::int64_t number = begin[matrices_ + 1 + begin[matrix] + column];
        return {number % ids_->ne[0], number / ids_->ne[0], 0};
    }
    if (column < b_.ne[1]) return {column, 0, 0};  // as a rule, and divisions take long
    return {column % b_.ne[1], column / b_.ne[1] % b_.ne[2], column / (b_.ne[1] * b_.ne[2])};
}

const float* RepackProduct::row_of_b(const Row& column) const {
    // Experts may share a row.
    if (ids_ != nullptr) return at<const float>(b_, 0, column.i1 % b_.ne[1], column.i2);
    return row_at<const float>(b_, column);
}

void RepackProduct::put_tile(const Task& task, std::int64_t matrix, std::int64_t tile,
                             std::int64_t chunk, std::byte* to) const {
    alignas(64) std::byte prepared[kRepackDepth * 2];
    const Tiling tiling = tiling_of(columns_of(task, matrix));
    const std::int64_t first = tile * tiling.most;
    const int width = width_of(tiling, tile);
    const auto wanted = static_cast<int>(std::min<std::int64_t>(width, tiling.columns - first));
    const std::int64_t begin = chunk * kRepackDepth;
    const std::int64_t count = std::min(kRepackDepth, depth_ - begin);
    to += tile_size(tiling, width, begin);
    if (wanted < width) std::memset(to, 0, tile_size(tiling, width, count));
    for (int c = 0; c < wanted; ++c) {
        const float* from = row_of_b(column_at(task, matrix, first + c)) + begin;
        prepare_row(multiplier_, GGML_TYPE_F32, from, prepared, count);
        if (tiling.is_straight) {
            kernel_.put_column(prepared, count, to, width, c);
        } else {
            kernel_.micro_panels.put_column(prepared, count, to, c);
        }
    }
}

/// All tiles of all matrices, one after the other.
void RepackProduct::put_tiles(const Task& task) const {
    std::int64_t all = 0;
    for (std::int64_t m = 0; m < matrices_; ++m) all += tiling_of(columns_of(task, m)).tiles;
    const std::int64_t chunks = parts_of(depth_, kRepackDepth);
    task.prepare(all * chunks, [&](std::int64_t item) {
        std::byte* to = task.scratch + table_size();
        std::int64_t tile = item / chunks, matrix = 0;
        for (;; ++matrix) {
            const Tiling tiling = tiling_of(columns_of(task, matrix));
            if (tile < tiling.tiles) {
                to += static_cast<std::size_t>(tile) * tile_size(tiling, tiling.most, depth_);
                break;
            }
            tile -= tiling.tiles;
            to += size_of(tiling, tiling.tiles);
        }
        put_tile(task, matrix, tile, item % chunks, to);
    });
}

// ---- pieces ------------------------------------------------------------------------------------

std::int64_t RepackProduct::micro_panel_rows(std::int64_t micro_panel) const {
    return std::min(kRepackRows, a_.ne[1] - micro_panel * kRepackRows);
}

const std::byte* RepackProduct::micro_panel_at(std::int64_t matrix, std::int64_t micro_panel,
                                               std::int64_t begin) const {
    return at(a_, 0, micro_panel * kRepackRows, matrix) +
           static_cast<std::size_t>(begin / layout_.block_elements *
                                    micro_panel_rows(micro_panel)) *
               layout_.block_size;
}

const std::byte* RepackProduct::whole_micro_panel(std::int64_t matrix, std::int64_t micro_panel,
                                                  Range elements, std::byte* wide) const {
    const std::byte* rows = micro_panel_at(matrix, micro_panel, elements.begin);
    if (micro_panel_rows(micro_panel) == kRepackRows) return rows;
    widen_micro_panel(layout_, rows, (elements.end - elements.begin) / layout_.block_elements,
                      wide);
    return wide;
}

RepackProduct::Cut RepackProduct::cut_for(const Tiling& tiling, int tasks) const {
    const std::int64_t tiles = tiling.tiles;
    if (tiling.is_straight && tiling.columns == 1 && tasks > 1) {
        const std::int64_t micro_panels = parts_of(micro_panels_, tasks);
        return {micro_panels, 1, parts_of(micro_panels_, micro_panels), 1,
                micro_panels / kInterleavedMicroPanels + 1};
    }
    const std::int64_t wanted = tasks > 1 ? kPiecesPerTask * tasks : 1;
    const std::int64_t most = tiles > 1 ? kPieceMicroPanels : micro_panels_;
    // A thread that goes on where it is in memory keeps what was prefetched.
    const std::int64_t least =
        std::clamp<std::int64_t>(micro_panels_ / tasks, 1, kLeastMicroPanels);
    Cut cut{};
    cut.micro_panels =
        std::clamp<std::int64_t>(micro_panels_ / wanted, std::min(least, most), most);
    cut.micro_panel_pieces = parts_of(micro_panels_, cut.micro_panels);
    // Few rows and many columns: columns are shared out too.
    const std::int64_t cuts = std::min(tiles, parts_of(wanted, cut.micro_panel_pieces));
    cut.tiles = parts_of(tiles, std::max<std::int64_t>(cuts, 1));
    cut.tile_pieces = tiles > 0 ? parts_of(tiles, cut.tiles) : 0;
    cut.units = 1;
    return cut;
}

RepackProduct::Piece RepackProduct::piece_of(const Cut& cut, const Tiling& tiling,
                                             std::int64_t matrix, std::int64_t number) const {
    const std::int64_t unit = number % cut.units, piece = number / cut.units;
    const std::int64_t micro_panel = piece % cut.micro_panel_pieces * cut.micro_panels;
    const std::int64_t tile = piece / cut.micro_panel_pieces * cut.tiles;
    return {matrix,
            {micro_panel, std::min(micro_panel + cut.micro_panels, micro_panels_)},
            {tile, std::min(tile + cut.tiles, tiling.tiles)},
            cut.units == 1 ? Range{0, cut.micro_panels} : Range{unit, unit + 1},
            unit == cut.units - 1};
}

std::int64_t RepackProduct::multiply_interleaved(const Piece& piece, const std::byte* column,
                                                 float* out) const {
    const std::int64_t whole = std::min(piece.micro_panels.end, a_.ne[1] / kRepackRows);
    const std::int64_t part =
        std::max<std::int64_t>(whole - piece.micro_panels.begin, 0) / kInterleavedMicroPanels;
    for (std::int64_t i = piece.turns.begin; i < std::min(part, piece.turns.end); ++i) {
        const std::byte* rows[kInterleavedMicroPanels];
        float* to[kInterleavedMicroPanels];
        for (int s = 0; s < kInterleavedMicroPanels; ++s) {
            const std::int64_t micro_panel = piece.micro_panels.begin + s * part + i;
            rows[s] = micro_panel_at(piece.matrix, micro_panel, 0);
            to[s] = out + micro_panel * kRepackRows;
        }
        kernel_.multiply_interleaved(rows, column, depth_, to);
    }
    return kInterleavedMicroPanels * part;
}

void RepackProduct::multiply_tile(const Task& task, const Piece& piece, const Tiling& tiling,
                                  std::int64_t tile, const std::byte* columns) const {
    const std::int64_t first = tile * tiling.most;
    const int width = width_of(tiling, tile);
    const auto wanted = static_cast<int>(std::min<std::int64_t>(width, tiling.columns - first));
    float* out[kRepackColumns];
    for (int c = 0; c < wanted; ++c) {
        out[c] = row_at<float>(node_, column_at(task, piece.matrix, first + c));
    }
    const std::int64_t done = width == 1 ? multiply_interleaved(piece, columns, out[0]) : 0;
    if (!piece.has_rest) return;
    for (std::int64_t s = piece.micro_panels.begin + done; s < piece.micro_panels.end; ++s) {
        Results results(out, s * kRepackRows, micro_panel_rows(s), width, wanted);
        // All at once, unless there must be room for rows that are missing.
        const bool is_whole = micro_panel_rows(s) == kRepackRows;
        const std::int64_t step = is_whole ? depth_ : kRepackDepth;
        WideMicroPanel wide;
        for (std::int64_t begin = 0; begin < depth_; begin += step) {
            const Range part{begin, std::min(begin + step, depth_)};
            const std::byte* rows = whole_micro_panel(piece.matrix, s, part, wide.bytes);
            results.take(begin > 0, [&](float* const* to, bool add) {
                kernel_.multiply(rows, columns + kernel_.tile_bytes(begin, width),
                                 part.end - part.begin, width, to, add);
            });
        }
    }
}

void RepackProduct::multiply_unpacked(const Task& task, const Piece& piece, const Tiling& tiling,
                                      const std::byte* tiles) const {
    std::byte* unpacked = task.scratch + table_size() + tiles_size() +
                          static_cast<std::size_t>(task.index) * kUnpackedSize;
    const std::int64_t row = piece.micro_panels.begin * kRepackRows;
    const MatrixView view{a_.type, micro_panel_at(piece.matrix, piece.micro_panels.begin, 0),
                          a_.nb[1], std::min(piece.micro_panels.end * kRepackRows, a_.ne[1]) - row,
                          depth_};
    multiply_piece(
        kernel_.micro_panels, view, tiles,
        {piece.tiles.begin * tiling.most, std::min(piece.tiles.end * tiling.most, tiling.columns)},
        [&](std::int64_t c) {
            return row_at<float>(node_, column_at(task, piece.matrix, c)) + row;
        },
        unpacked);
}

void RepackProduct::multiply(const Task& task, const Piece& piece, const Tiling& tiling,
                             const std::byte* tiles) const {
    if (!tiling.is_straight) return multiply_unpacked(task, piece, tiling, tiles);
    const std::size_t full = tile_size(tiling, tiling.most, depth_);
    for (std::int64_t t = piece.tiles.begin; t < piece.tiles.end; ++t) {
        multiply_tile(task, piece, tiling, t, tiles + static_cast<std::size_t>(t) * full);
    }
}

void RepackProduct::run(const Task& task) const {
    if (ids_ != nullptr) {
        if (task.index == 0) sort_columns(task);
        task.sync();
    }
    put_tiles(task);
    // The matrix that was worked on last, and what is before it.
    const std::byte* const all_tiles = task.scratch + table_size();
    std::int64_t matrix = 0, before = 0;
    const std::byte* tiles = all_tiles;
    std::int64_t all = 0;
    for (std::int64_t m = 0; m < matrices_; ++m) {
        all += cut_for(tiling_of(columns_of(task, m)), task.count).count();
    }
    task.share_out(all, [&](std::int64_t number) {
        if (number < before) matrix = 0, before = 0, tiles = all_tiles;
        for (;; ++matrix) {
            const Tiling tiling = tiling_of(columns_of(task, matrix));
            const Cut cut = cut_for(tiling, task.count);
            if (number < before + cut.count()) {
                return multiply(task, piece_of(cut, tiling, matrix, number - before), tiling,
                                tiles);
            }
            before += cut.count();
            tiles += size_of(tiling, tiling.tiles);
        }
    });
}

}  // namespace heddle::cpu
