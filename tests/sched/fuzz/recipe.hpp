#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

/// Random graphs as data: they can be built again and again at other addresses, made smaller, and
/// printed.
namespace heddle::fuzz {

/// Choices that depend on the seed alone, on every machine, or on somebody who makes them.
class Dice {
public:
    /// A number below the given one; 0 is the simplest.
    using Source = std::function<std::uint32_t(std::uint32_t)>;

    /// Seeds that follow each other give streams that have nothing in common.
    explicit Dice(std::uint64_t seed) : state_(mixed(seed + 0x1234567)) {}
    explicit Dice(Source source) : source_(std::move(source)) {}

    std::uint32_t next();
    int below(int n) {
        const auto limit = static_cast<std::uint32_t>(n);
        return static_cast<int>(source_ ? source_(limit) : next() % limit);
    }
    int between(int low, int high) { return low + below(high - low + 1); }
    bool one_in(int n) { return below(n) == n - 1; }
    float number(float low, float high);

    template <class T>
    T pick(std::initializer_list<T> choices) {
        return choices.begin()[below(static_cast<int>(choices.size()))];
    }

private:
    static std::uint64_t mixed(std::uint64_t z);

    std::uint64_t state_ = 0;
    Source source_;
};

inline constexpr int kHost = -1;     ///< instead of the number of a device
inline constexpr int kForeign = -3;  ///< a device whose stream the scheduler does not have

/// A tensor that is not computed.
struct Leaf {
    enum class Kind {
        input,   ///< flagged INPUT; the scheduler gives it memory; new for each run
        plain,   ///< the same without the flag
        given,   ///< flagged INPUT, but in memory of its own; new for each run
        ids,     ///< row numbers, below kIds; flagged INPUT
        weight,  ///< in a buffer of usage WEIGHTS
        state,   ///< in memory of its own; graphs write it, and it stays from run to run
    };
    Kind kind = Kind::input;
    Type type = GGML_TYPE_F32;
    std::array<std::int64_t, 3> extent{1, 1, 1};
    int device = kHost;
    std::uint32_t seed = 0;
};
inline constexpr int kIds = 8;

/// Something done to values made before it. A builder that refuses them leaves the first as it is,
/// so that every recipe makes a graph.
struct Step {
    int op = 0;                     ///< in `ops()`
    std::array<int, 3> operands{};  ///< numbers of values: leafs first, then steps
    std::uint32_t seed = 0;
    bool is_output = false;
    bool is_dropped = false;  ///< stands for its first operand
    int pin = -2;             ///< the runner it is pinned to, if that can run it; -2: none
    int memory = -2;  ///< the device in whose memory its result has a place; -2: the scheduler's
};

struct Recipe {
    std::vector<Leaf> leafs;
    std::vector<Step> steps;
};

/// The same graph in other sizes, as from token to token: number 0 has those of the recipe. In the
/// others some leafs that come with each run have other numbers of rows, and some views begin
/// elsewhere and end earlier or later.
inline constexpr int kSizes = 4;
std::array<std::int64_t, 3> extent_in(const Leaf& leaf, int size);

/// What goes wrong with a simulated device while a graph is allocated and run.
struct Fault {
    enum class Kind { none, allocation, copy, node, lost };
    Kind kind = Kind::none;
    int device = 0;
    int number = 1;  ///< the first, second, ... of its kind; for a lost device: microseconds
};

/// One run of one of the graphs.
struct Run {
    int graph = 0;
    std::uint32_t seed = 0;    ///< of its inputs
    bool rebuild = false;      ///< at other addresses
    bool wait = true;          ///< and compare; else the next run follows at once
    bool reserve = false;      ///< before it is allocated
    bool new_weights = false;  ///< some of them are written before
    int size = 0;              ///< below kSizes: in which of its sizes
    Fault fault{};
};

/// All of a test: devices, settings, graphs, runs.
struct Case {
    std::uint64_t seed = 0;
    std::vector<int> devices;  ///< numbers of the world's devices
    bool blas = false;
    bool rounds = false;  ///< BLAS or another device that computes with kernels of its own
    bool offload = false, by_cost = false, observed = false, tracing = false, synchronous = false;
    bool checked = true;  ///< for hazards
    int slots = 1;
    std::size_t budget = 0;  ///< bytes on each device for what is kept; 0: as much as there is
    int threads = 1;         ///< of the processor
    std::string cost_file;   ///< keeps what was measured for `by_cost`; empty: nobody does
    std::vector<Recipe> graphs;
    std::vector<Run> runs;
};

/// How values are combined.
struct OpRule {
    std::string_view name;
    /// Null if the operands do not fit.
    Tensor* (*build)(ggml_context* context, std::span<Tensor* const> operands, Dice& dice);
    bool jumps = false;   ///< small differences of operands may make large ones of the result
    bool slides = false;  ///< in other sizes of the graph it chooses anew: a view that moves
};
std::span<const OpRule> ops();

// Parts of it.
std::span<const OpRule> state_ops();
std::span<const OpRule> image_ops();
std::span<const OpRule> sequence_ops();
std::span<const OpRule> training_ops();
std::span<const OpRule> custom_ops();
std::span<const OpRule> type_ops();

/// Of what cases are made.
struct Scope {
    int devices = 0;  ///< of the world
    int exact_devices =
        0;  ///< the first of them: simulated ones; the others round in their own way
    bool blas = false;
    bool faults = false;  ///< of simulated devices
    bool small = false;   ///< few steps and runs: more cases instead
};

Case make_case(Dice& dice, const Scope& scope);

inline Case make_case(std::uint64_t seed, const Scope& scope) {
    Dice dice(seed);
    Case made = make_case(dice, scope);
    made.seed = seed;
    return made;
}

/// Makes the case smaller. Words: "r2" (without run 2), "s0.5" (without step 5 of graph 0), "d1"
/// (without device 1), "l0.3" (leaf 3 of graph 0 on the host), "o0.5" (step 5 no output), "p0.5"
/// (no pin or memory), and "blas", "offload", "cost", "observed", "slots", "budget", "threads",
/// "tracing", "synchronous", "checked", "waits", "rebuilds", "reserves", "weights", "sizes",
/// "faults". False if it changes nothing.
bool reduce(Case& which, std::string_view word);

/// Words that may make the case smaller, those that take most away first.
std::vector<std::string> reductions(const Case& which);

std::string to_text(const Case& which);

}  // namespace heddle::fuzz
