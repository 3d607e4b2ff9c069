#include "backends/mpi/digest.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kTask = std::size_t{1} << 20;  ///< that a thread takes at a time
constexpr std::size_t kMostThreads = 16;
static_assert(kTask % kLeaf == 0 && kLeaf % kBlock == 0);

using State = std::array<std::uint32_t, 8>;
constexpr State kStart{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<std::uint32_t, 64> kConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// Words are big-endian.
std::uint32_t word_at(const std::byte* bytes) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    return __builtin_bswap32(word);
}

// ---- the compression function ------------------------------------------------------------------

/// Takes a block into the state. `Word` is a number, or a vector with a message in each lane. It is
/// inlined everywhere, so that vectors are never passed to a function.
template <class Word>
[[gnu::always_inline]] inline void compress(Word* state, Word* w) {
    Word a = state[0], b = state[1], c = state[2], d = state[3];
    Word e = state[4], f = state[5], g = state[6], h = state[7];
    for (std::size_t begin = 0; begin < kConstants.size(); begin += 16) {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < 16; ++i) {
            if (begin > 0) {
                const Word x = w[(i + 1) % 16], y = w[(i + 14) % 16];
                w[i] += ((x >> 7 | x << 25) ^ (x >> 18 | x << 14) ^ x >> 3) + w[(i + 9) % 16] +
                        ((y >> 17 | y << 15) ^ (y >> 19 | y << 13) ^ y >> 10);
            }
            const Word sum1 = (e >> 6 | e << 26) ^ (e >> 11 | e << 21) ^ (e >> 25 | e << 7);
            const Word sum0 = (a >> 2 | a << 30) ^ (a >> 13 | a << 19) ^ (a >> 22 | a << 10);
            const Word first = h + sum1 + ((e & f) ^ (~e & g)) + kConstants[begin + i] + w[i];
            const Word second = sum0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + first;
            d = c, c = b, b = a, a = first + second;
        }
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

Digest digest_in(const State& state) {
    Digest digest;
    for (std::size_t i = 0; i < state.size(); ++i) {
        const std::uint32_t word = __builtin_bswap32(state[i]);
        std::memcpy(digest.data() + i * sizeof word, &word, sizeof word);
    }
    return digest;
}

/// What stands behind the last whole block of a message, and its length in bits: one or two blocks.
std::vector<std::byte> padded_end(ByteView bytes) {
    const ByteView rest = bytes.last(bytes.size() % kBlock);
    std::vector<std::byte> end(rest.begin(), rest.end());
    end.push_back(std::byte{0x80});
    while (end.size() % kBlock != kBlock - 8) end.push_back(std::byte{0});
    const std::uint64_t bits = __builtin_bswap64(std::uint64_t{bytes.size()} * 8);
    const ByteView length = std::as_bytes(std::span(&bits, 1));
    end.insert(end.end(), length.begin(), length.end());
    return end;
}

// ---- leaves side by side -----------------------------------------------------------------------

// Compilers know these on every machine, be it without vectors.
using Words4 [[gnu::vector_size(16)]] = std::uint32_t;
using Words8 [[gnu::vector_size(32)]] = std::uint32_t;
using Words16 [[gnu::vector_size(64)]] = std::uint32_t;

/// Whole leaves, one in each lane.
template <class Words>
[[gnu::always_inline]] inline void hash_side_by_side(const std::byte* bytes, Digest* digests) {
    constexpr std::size_t kLanes = sizeof(Words) / sizeof(std::uint32_t);
    std::array<Words, 8> state;
    for (std::size_t i = 0; i < state.size(); ++i) state[i] = Words{} + kStart[i];
    std::array<Words, 16> w;
    for (std::size_t at = 0; at < kLeaf; at += kBlock) {
        for (std::size_t i = 0; i < w.size(); ++i) {
            for (std::size_t lane = 0; lane < kLanes; ++lane) {
                w[i][lane] = word_at(bytes + lane * kLeaf + at + 4 * i);
            }
        }
        compress(state.data(), w.data());
    }
    for (Words& each : w) each = Words{};
    w[0] += std::uint32_t{1} << 31;
    w[15] += std::uint32_t{8 * kLeaf};
    compress(state.data(), w.data());
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        State of_lane;
        for (std::size_t i = 0; i < state.size(); ++i) of_lane[i] = state[i][lane];
        digests[lane] = digest_in(of_lane);
    }
}

/// A way to hash so many leaves at once.
struct Way {
    std::size_t lanes;
    void (*hash)(const std::byte* bytes, Digest* digests);
};

void hash_4(const std::byte* bytes, Digest* digests) { hash_side_by_side<Words4>(bytes, digests); }

#ifdef __x86_64__
[[gnu::target("avx2")]] void hash_8(const std::byte* bytes, Digest* digests) {
    hash_side_by_side<Words8>(bytes, digests);
}
[[gnu::target("avx512f")]] void hash_16(const std::byte* bytes, Digest* digests) {
    hash_side_by_side<Words16>(bytes, digests);
}
#endif

Way best_way() {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") != 0) return {16, hash_16};
    if (__builtin_cpu_supports("avx2") != 0) return {8, hash_8};
#endif
    return {4, hash_4};
}

// ---- threads -----------------------------------------------------------------------------------

/// job(0) to job(count - 1), in any order, by this thread and others. Fails as the first one does.
Result<> in_parallel(std::size_t count, const std::function<Result<>(std::size_t)>& job) {
    std::atomic<std::size_t> next{0};
    std::mutex lock;
    std::optional<Error> failure;
    const auto work = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            auto done = plugin::attempt([&] { return job(i); });
            if (done) continue;
            const std::lock_guard guard(lock);
            if (!failure) failure = std::move(done).error();
            next = count;
        }
    };
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    {
        std::vector<std::jthread> others;
        while (others.size() + 1 < std::min({count, cores, kMostThreads})) {
            others.emplace_back(work);
        }
        work();
    }
    if (failure) return *std::move(failure);
    return ok();
}

}  // namespace

Digest sha256(ByteView bytes) {
    State state = kStart;
    const std::vector<std::byte> end = padded_end(bytes);
    for (ByteView rest : {bytes, ByteView(end)}) {
        for (; rest.size() >= kBlock; rest = rest.subspan(kBlock)) {
            std::array<std::uint32_t, 16> words;
            for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_at(rest.data() + 4 * i);
            compress(state.data(), words.data());
        }
    }
    return digest_in(state);
}

void hash_leaves(ByteView bytes, std::span<Digest> leaves) {
    static const Way way = best_way();
    while (bytes.size() >= way.lanes * kLeaf) {
        way.hash(bytes.data(), leaves.data());
        bytes = bytes.subspan(way.lanes * kLeaf);
        leaves = leaves.subspan(way.lanes);
    }
    for (; !bytes.empty(); leaves = leaves.subspan(1)) {
        const std::size_t size = std::min(bytes.size(), kLeaf);
        leaves.front() = sha256(bytes.first(size));
        bytes = bytes.subspan(size);
    }
}

Result<Digest> digest_of(std::uint64_t size, const ReadBytes& read) {
    std::vector<Digest> leaves(static_cast<std::size_t>((size + kLeaf - 1) / kLeaf));
    const auto pieces = static_cast<std::size_t>((size + kTask - 1) / kTask);
    HEDDLE_TRY(in_parallel(pieces, [&](std::size_t i) -> Result<> {
        const std::uint64_t at = std::uint64_t{i} * kTask;
        const auto left = static_cast<std::size_t>(std::min<std::uint64_t>(kTask, size - at));
        Bytes room;
        HEDDLE_TRY_ASSIGN(const ByteView bytes, read(at, left, room));
        hash_leaves(bytes, std::span(leaves).subspan(i * (kTask / kLeaf)));
        return ok();
    }));
    return sha256(std::as_bytes(std::span(leaves)));
}

Result<Digest> digest_of(ByteView bytes) {
    return digest_of(bytes.size(), [&](std::uint64_t at, std::size_t size, Bytes&) {
        return Result<ByteView>(bytes.subspan(static_cast<std::size_t>(at), size));
    });
}

}  // namespace heddle::mpi
