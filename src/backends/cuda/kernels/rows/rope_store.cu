#include "backends/cuda/kernels/faults.cuh"
#include "backends/cuda/kernels/rows/rope.cuh"
#include "backends/cuda/kernels/rows/rope_store.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

/// One member as the kernel sees it. Rows are those of a token: x is (element, head, token).
struct Member {
    Operand x, y;
    Operand positions, factors;  ///< of a ROPE
    Operand indices;             ///< of a SET_ROWS
    Rotation rotation;
    bool is_turned = false, is_stored = false;
    bool is_by_fours = false;  ///< see FourRow
};

struct Members {
    Member member[4];
    IndexCheck is_index_inside;
};

__global__ void rope_store(Members members) {
    chain_join();
    const Member& m = members.member[blockIdx.y];
    const std::int64_t width = m.x.extent[0], heads = m.x.extent[1];
    const std::int64_t count = width * heads * m.x.extent[2];
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         n < count; n += step) {
        const Place p = unravel(n, m.x.extent);
        const std::int64_t head = p.i1, token = p.i2;
        const std::int64_t row = m.is_stored ? m.indices.integer(token) : 0;
        if (m.is_stored && !members.is_index_inside(row, m.y.extent[1])) continue;
        const auto get = [&](std::int64_t i) { return m.x(i, head, token); };
        const auto put = [&](std::int64_t i, float value) {
            if (m.is_stored) {
                m.y.put(value, i + head * width, row);
            } else {
                m.y.put(value, i, head, token);
            }
        };
        if (m.is_turned) {
            m.rotation.apply(p.i0, token, m.positions, m.factors, get, put);
        } else {
            put(p.i0, get(p.i0));
        }
    }
}

constexpr std::int64_t kMostPairs = 512;

/// All heads of a token of one member. A thread has several numbers under way at once: one after
/// the other would take a latency each.
struct TokenRow {
    static constexpr unsigned kAtOnce = 4;
    const Member& m;
    std::int64_t token, row;  ///< row: where the token is stored

    __device__ float get(unsigned i, unsigned head) const { return m.x(i, head, token); }
    __device__ void put(unsigned i, unsigned head, float value) const {
        if (m.is_stored) {
            m.y.put(value, i + std::int64_t{head} * m.x.extent[0], row);
        } else {
            m.y.put(value, i, head, token);
        }
    }

    /// Elements `begin` to `end` of every head as they are.
    __device__ void copy(unsigned begin, unsigned end) const {
        if (begin >= end) return;
        const unsigned size = end - begin, count = size * static_cast<unsigned>(m.x.extent[1]);
        for (unsigned first = threadIdx.x; first < count; first += kAtOnce * blockDim.x) {
            float values[kAtOnce];
#pragma unroll
            for (unsigned j = 0; j < kAtOnce; ++j) {
                const unsigned n = first + j * blockDim.x;
                if (n < count) values[j] = get(begin + n % size, n / size);
            }
#pragma unroll
            for (unsigned j = 0; j < kAtOnce; ++j) {
                const unsigned n = first + j * blockDim.x;
                if (n < count) put(begin + n % size, n / size, values[j]);
            }
        }
    }

    /// Pairs of every head, by what `turns` says of each.
    __device__ void turn(const float2* turns) const {
        const auto pairs = static_cast<unsigned>(m.rotation.pairs);
        const auto distance = static_cast<unsigned>(m.rotation.distance);
        const unsigned count = pairs * static_cast<unsigned>(m.x.extent[1]);
        const auto first_of = [&](unsigned pair) {
            return static_cast<unsigned>(m.rotation.params.n_offs) +
                   (distance == 1 ? 2 * pair : pair);
        };
        for (unsigned first = threadIdx.x; first < count; first += kAtOnce * blockDim.x) {
            float2 values[kAtOnce];
#pragma unroll
            for (unsigned j = 0; j < kAtOnce; ++j) {
                const unsigned n = first + j * blockDim.x, i = first_of(n % pairs);
                if (n < count) values[j] = {get(i, n / pairs), get(i + distance, n / pairs)};
            }
#pragma unroll
            for (unsigned j = 0; j < kAtOnce; ++j) {
                const unsigned n = first + j * blockDim.x, i = first_of(n % pairs);
                if (n >= count) continue;
                const float2 by = turns[n % pairs], v = values[j];
                put(i, n / pairs, v.x * by.x - v.y * by.y);
                put(i + distance, n / pairs, v.x * by.y + v.y * by.x);
            }
        }
    }
};

/// As above where heads lie behind each other, so that four numbers are one access, and what is
/// turned begins and ends at multiples of four.
struct FourRow {
    static constexpr unsigned kAtOnce = 4;
    const Member& m;
    std::int64_t token, row;

    __device__ const float* from() const {
        return reinterpret_cast<const float*>(m.x.data + token * m.x.stride[2]);
    }
    __device__ void put(unsigned at, const float (&v)[4]) const {
        std::byte* const to =
            m.is_stored ? m.y.data + row * m.y.stride[1] : m.y.data + token * m.y.stride[2];
        if (m.y.type == GGML_TYPE_F32) {
            reinterpret_cast<float4*>(to)[at] = float4{v[0], v[1], v[2], v[3]};
        } else {
            const __half2 low = __floats2half2_rn(v[0], v[1]), high = __floats2half2_rn(v[2], v[3]);
            reinterpret_cast<uint2*>(to)[at] = uint2{*reinterpret_cast<const unsigned*>(&low),
                                                     *reinterpret_cast<const unsigned*>(&high)};
        }
    }

    /// Where four elements are, counted in fours, and what becomes of them.
    struct Fours {
        unsigned at, pair;
        bool is_there, is_turned;
    };
    __device__ Fours fours(unsigned n, unsigned per_head, unsigned count) const {
        const auto begin = static_cast<unsigned>(m.rotation.params.n_offs);
        const auto pairs = static_cast<unsigned>(m.rotation.pairs);
        const unsigned offset = n % per_head * 4 - begin;  // wraps below `begin`
        const bool is_turned = m.is_turned && offset < 2 * pairs;
        const bool is_adjacent = m.rotation.distance == 1;
        const bool is_second =
            is_turned && !is_adjacent && offset >= pairs;  // comes with the first
        return {n, is_adjacent ? offset / 2 : offset, n < count && !is_second, is_turned};
    }

    __device__ void run(const float2* turns) const {
        const auto per_head = static_cast<unsigned>(m.x.extent[0] / 4);
        const unsigned count = per_head * static_cast<unsigned>(m.x.extent[1]);
        const unsigned apart = static_cast<unsigned>(m.rotation.pairs) / 4;
        const bool is_adjacent = m.rotation.distance == 1;
        const auto* const x = reinterpret_cast<const float4*>(from());
        for (unsigned first = threadIdx.x; first < count; first += kAtOnce * blockDim.x) {
            float4 low[kAtOnce], high[kAtOnce];
#pragma unroll
            for (unsigned j = 0; j < kAtOnce; ++j) {
                const Fours f = fours(first + j * blockDim.x, per_head, count);
                if (f.is_there) low[j] = x[f.at];
                if (f.is_there && f.is_turned && !is_adjacent) high[j] = x[f.at + apart];
            }
#pragma unroll
            for (unsigned j = 0; j < kAtOnce; ++j) {
                const Fours f = fours(first + j * blockDim.x, per_head, count);
                if (!f.is_there) continue;
                const float a[4] = {low[j].x, low[j].y, low[j].z, low[j].w};
                if (!f.is_turned) {
                    put(f.at, a);
                } else if (is_adjacent) {
                    const float2 s = turns[f.pair], t = turns[f.pair + 1];
                    put(f.at, {a[0] * s.x - a[1] * s.y, a[0] * s.y + a[1] * s.x,
                               a[2] * t.x - a[3] * t.y, a[2] * t.y + a[3] * t.x});
                } else {
                    turn_halves(f, turns, a, {high[j].x, high[j].y, high[j].z, high[j].w}, apart);
                }
            }
        }
    }

    __device__ void turn_halves(const Fours& f, const float2* turns, const float (&a)[4],
                                const float (&b)[4], unsigned apart) const {
        float first[4], second[4];
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            const float2 by = turns[f.pair + i];
            first[i] = a[i] * by.x - b[i] * by.y;
            second[i] = a[i] * by.y + b[i] * by.x;
        }
        put(f.at, first);
        put(f.at + apart, second);
    }

    static bool fits(const Member& m) {
        const auto in_fours = [](std::int64_t n) { return n % 4 == 0; };
        const auto starts_at = [](const Operand& t, std::int64_t stride, std::int64_t bytes) {
            return reinterpret_cast<std::uintptr_t>(t.data) % static_cast<unsigned>(bytes) == 0 &&
                   stride % bytes == 0;
        };
        const Rotation& r = m.rotation;
        const std::int64_t width = m.x.extent[0], size = m.y.type == GGML_TYPE_F32 ? 4 : 2;
        if (m.x.type != GGML_TYPE_F32 || m.x.stride[0] != 4 || !in_fours(width)) return false;
        if (m.x.extent[1] > 1 && m.x.stride[1] != 4 * width) return false;
        if (m.y.type != GGML_TYPE_F32 && m.y.type != GGML_TYPE_F16) return false;
        if (m.y.stride[0] != size) return false;
        if (!m.is_stored && m.x.extent[1] > 1 && m.y.stride[1] != size * width) return false;
        if (!starts_at(m.x, m.x.stride[2], 16)) return false;
        if (!starts_at(m.y, m.is_stored ? m.y.stride[1] : m.y.stride[2], 4 * size)) return false;
        return !m.is_turned || (in_fours(r.params.n_offs) && in_fours(r.pairs) && r.end() <= width);
    }
};

/// As above with a block for each token and member: what a pair is turned by is computed once for
/// all heads.
__global__ void __launch_bounds__(256) rope_store_tokens(Members members) {
    __shared__ float2 turns[kMostPairs];
    chain_join();
    const Member& m = members.member[blockIdx.y];
    const std::int64_t token = blockIdx.x;
    if (token >= m.x.extent[2]) return;
    const std::int64_t row = m.is_stored ? m.indices.integer(token) : 0;
    if (m.is_stored && !members.is_index_inside(row, m.y.extent[1])) return;
    if (m.is_turned) {
        for (std::int64_t pair = threadIdx.x; pair < m.rotation.pairs; pair += blockDim.x)
            turns[pair] = m.rotation.turn(pair, token, m.positions, m.factors);
        __syncthreads();
    }
    if (m.is_by_fours) return FourRow{m, token, row}.run(turns);
    const TokenRow of{m, token, row};
    const auto width = static_cast<unsigned>(m.x.extent[0]);
    if (!m.is_turned) return of.copy(0, width);
    const auto begin = static_cast<unsigned>(m.rotation.params.n_offs);
    const auto end = static_cast<unsigned>(m.rotation.end());
    of.turn(turns);
    of.copy(0, begin);
    of.copy(end, width);
}

/// Whether tokens are many, and their rows neither too long nor too short for a block each.
bool goes_by_tokens(const Members& members, int count) {
    constexpr std::int64_t kLeastTokens = 16, kMostTokens = 1 << 20;
    for (int i = 0; i < count; ++i) {
        const Member& m = members.member[i];
        if (m.x.extent[2] < kLeastTokens || m.x.extent[2] > kMostTokens) return false;
        if (m.x.extent[0] * m.x.extent[1] > kMostTokens) return false;
        if (m.is_turned && m.rotation.pairs > kMostPairs) return false;
    }
    return true;
}

Member member_of(const RopeStore& which) {
    Member m;
    const Tensor* const x = which.rope != nullptr ? which.rope->src[0] : which.store->src[0];
    m.x = operand(x);
    m.y = operand(which.store != nullptr ? which.store : which.rope);
    if (which.rope != nullptr) {
        m.is_turned = true;
        m.rotation = Rotation(*which.rope);
        m.positions = operand(which.rope->src[1]);
        m.factors = operand(which.rope->src[2]);
    } else {  // rows of a token are one head
        m.x.extent[2] = m.x.extent[1];
        m.x.stride[2] = m.x.stride[1];
        m.x.extent[1] = 1;
    }
    if (which.store != nullptr) {
        m.is_stored = true;
        m.indices = operand(which.store->src[1]);
    }
    m.is_by_fours = FourRow::fits(m);
    return m;
}

}  // namespace

std::string_view rope_objection(const Tensor& node) {
    if (node.op != GGML_OP_ROPE) return "not a ROPE";
    if (node.ne[3] != 1) return "more than one sequence";
    return {};
}

std::string_view store_objection(const Tensor& node) {
    if (node.op != GGML_OP_SET_ROWS) return "not a SET_ROWS";
    const Tensor &rows = *node.src[0], &indices = *node.src[1];
    if (!is_float(node) || !is_float(rows)) return "rows are not F32, F16 or BF16";
    if (rows.ne[2] != 1 || rows.ne[3] != 1 || indices.ne[1] != 1 || indices.ne[2] != 1) {
        return "rows of several matrices";
    }
    return {};
}

void launch_rope_store(const RopeStoreGroup& group, const Launch& launch) {
    Members members{};
    members.is_index_inside = {launch.faults, GGML_OP_SET_ROWS};
    std::int64_t most = 0, tokens = 0;
    for (int i = 0; i < group.count; ++i) {
        const Member m = member_of(group.members[static_cast<std::size_t>(i)]);
        const std::int64_t count = m.x.extent[0] * m.x.extent[1] * m.x.extent[2];
        most = count > most ? count : most;
        tokens = m.x.extent[2] > tokens ? m.x.extent[2] : tokens;
        members.member[i] = m;
    }
    if (most == 0) return;
    constexpr unsigned threads = 256;
    if (goes_by_tokens(members, group.count))
        return start(launch, rope_store_tokens,
                     dim3(static_cast<unsigned>(tokens), static_cast<unsigned>(group.count)),
                     threads, 0, members);
    start(launch, rope_store,
          dim3(blocks_for(most, threads, launch.device), static_cast<unsigned>(group.count)),
          threads, 0, members);
}

}  // namespace heddle::cuda
