#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "backends/cpu/progress.hpp"
#include "core/tensor.hpp"
#include "ops/objections.hpp"

/// How the CPU computes a node: a list of kernels, each of which says which nodes it declines.
namespace heddle::cpu {

/// Numbers `begin` up to but not including `end`.
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// What the tasks of one node share. The executor owns it.
class Gate {
public:
    virtual void sync() = 0;                     ///< until every task of the node is here
    virtual void fail(std::string message) = 0;  ///< the first message of a node is kept

    /// The calling task has prepared `count` pieces of `all`: until all of them are.
    virtual void wait_for_prepared(std::int64_t count, std::int64_t all) = 0;

    Progress* progress = nullptr;  ///< of each task; null: there is one task
    std::uint32_t number = 0;      ///< of the step; no other that these threads compute has it

    std::atomic<std::int64_t> next_chunk{0};
    std::atomic<std::int64_t> next_to_prepare{0};

protected:
    ~Gate() = default;
};

/// One share of the work of a node. All `count` tasks of a node run at the same time, one per
/// thread.
struct Task {
    int index = 0;
    int count = 1;
    std::byte* scratch =
        nullptr;  ///< shared by all tasks; as large as demanded, aligned to 64 bytes
    Gate* gate = nullptr;
    bool plain = false;  ///< reference mode: no shortcuts that change results

    /// This task's part of `n` equal pieces of work; parts differ by one at most.
    Range share(std::int64_t n) const { return {n * index / count, n * (index + 1) / count}; }

    /// The number of a piece that no other task has taken, counting from 0. For work of uneven
    /// size.
    std::int64_t take() const { return gate->next_chunk.fetch_add(1, std::memory_order_relaxed); }

    /// Calls `unit(i)` for each i below `n`, together with the other tasks: for this task's share
    /// in order, so that what is read from memory is read as it lies there; then for what others
    /// have not begun of theirs. Once for each node.
    template <class Unit>
    void share_out(std::int64_t n, Unit&& unit) const {
        if (count == 1) {
            for (std::int64_t i = 0; i < n; ++i) unit(i);
            return;
        }
        gate->progress[index].begin(gate->number);
        for (int turn = 0; turn < count; ++turn) {
            const int whose = (index + turn) % count;
            const std::int64_t begin = n * whose / count, end = n * (whose + 1) / count;
            gate->progress[whose].take(gate->number, end - begin,
                                       [&](std::int64_t i) { unit(begin + i); });
        }
    }

    /// Calls `piece(i)` for each i below `n`, together with the tasks that are here, and returns
    /// when all pieces are done. Once for each node. Unlike with sync(), no task waits for one
    /// whose thread has not woken up yet.
    template <class Piece>
    void prepare(std::int64_t n, Piece&& piece) const {
        if (count == 1) {
            for (std::int64_t i = 0; i < n; ++i) piece(i);
            return;
        }
        std::int64_t done = 0;
        const auto next = [&] {
            return gate->next_to_prepare.fetch_add(1, std::memory_order_relaxed);
        };
        for (std::int64_t i = next(); i < n; i = next(), ++done) piece(i);
        gate->wait_for_prepared(done, n);
    }

    /// Waits for the other tasks of this node. Every task must call it equally often.
    void sync() const {
        if (count > 1) gate->sync();
    }

    /// Reports data that cannot be computed with, such as an index out of range; `sentence()` says
    /// what. The node's result is void, the graph stops after it; the task still returns normally.
    template <class Sentence>
    void fail(const Sentence& sentence) const noexcept {
        try {
            gate->fail(sentence());
        } catch (const std::bad_alloc&) {
            gate->fail("out of memory");  // short enough to need none
        }
    }
};

/// What a node wants: how many tasks, and bytes of scratch memory for all of them together.
struct Demand {
    int tasks = 1;
    std::size_t scratch = 0;
};

/// Fewer tasks where the work is too small to be worth waking a thread for. `bytes` is what is
/// moved, `flops` what is computed; `pieces` how far the work can be cut.
int worthwhile_tasks(double bytes, double flops, std::int64_t pieces, int threads);

/// As many tasks as rows of the result, as far as that is worthwhile.
Demand rows_demand(const Tensor& node, int threads);

/// When a kernel is asked, among those of its op: the first without an objection runs the node. No
/// two that are asked about the same nodes have one rank, so that the order is always said.
enum class Rank : std::uint8_t {
    special,   ///< first: better at the nodes it takes, and takes few
    ordinary,  ///< the kernel of the op; the only one that most ops have
    rest,      ///< last: for what the others decline
};

/// One way to compute an op.
struct Kernel {
    std::string_view name;
    Op op;

    /// Empty if this kernel can run the node, else why not. Looks at types, shapes and strides,
    /// never at data.
    std::string_view (*objection)(const Tensor& node);

    /// Computes this task's share. Reads sources, writes the result, allocates nothing.
    void (*run)(const Tensor& node, const Task& task);

    /// Null: `rows_demand`.
    Demand (*demand)(const Tensor& node, int threads) = nullptr;

    /// Operand 0 lies in a buffer of the repacking type (see repack/buffer_type.hpp), which no
    /// other kernel can read.
    bool reads_repacked = false;

    Rank rank = Rank::ordinary;
};

/// Every kernel for `op`, in the order of their ranks, which is the order in which they are asked.
/// The build lists every `extern const Kernel k...` of this folder.
std::span<const Kernel* const> kernels_for(Op op);

/// The kernel that runs `node`, or null and, in `*why`, what each one asked has against it.
const Kernel* choose_kernel(const Tensor& node, Objections* why = nullptr);

// ---- walking tensors ---------------------------------------------------------------------------

/// The address of element (i0, i1, i2, i3); for block types i0 counts blocks.
template <class T = std::byte>
T* at(const Tensor& t, std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0,
      std::int64_t i3 = 0) {
    const std::size_t offset =
        static_cast<std::size_t>(i0) * t.nb[0] + static_cast<std::size_t>(i1) * t.nb[1] +
        static_cast<std::size_t>(i2) * t.nb[2] + static_cast<std::size_t>(i3) * t.nb[3];
    return reinterpret_cast<T*>(static_cast<std::byte*>(t.data) + offset);
}

/// Coordinates of a row.
struct Row {
    std::int64_t i1, i2, i3;
};

/// Calls `body(Row)` for rows `range` of `t`, counted in logical order.
template <class Body>
void for_rows(const Tensor& t, Range range, Body&& body) {
    if (range.begin >= range.end) return;
    Row row{range.begin % t.ne[1], range.begin / t.ne[1] % t.ne[2],
            range.begin / (t.ne[1] * t.ne[2])};
    for (std::int64_t r = range.begin; r < range.end; ++r) {
        body(row);
        if (++row.i1 < t.ne[1]) continue;
        row.i1 = 0;
        if (++row.i2 < t.ne[2]) continue;
        row.i2 = 0;
        ++row.i3;
    }
}

template <class T = std::byte>
T* row_at(const Tensor& t, const Row& row) {
    return at<T>(t, 0, row.i1, row.i2, row.i3);
}

}  // namespace heddle::cpu
