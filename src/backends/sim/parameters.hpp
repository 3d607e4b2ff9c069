#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/tensor.hpp"

/// The texts that say what simulated devices are like; `heddle/sim.h` documents them.
namespace heddle::sim {

/// A choice of ops. UNARY and GLU are chosen function by function.
class OpSet {
public:
    OpSet();  ///< none

    /// Every op but the caller's own functions, which only the CPU can call.
    static OpSet all();

    bool has(const Tensor& node) const;

    /// Applies a word of a list: "all", "none", "NAME" or "-NAME". The name is that of an op or of
    /// a function, in upper or lower case.
    Result<> apply(std::string_view word);

private:
    void set(Op op, bool value);

    std::vector<bool> ops_;  ///< by number
    std::bitset<GGML_UNARY_OP_COUNT> unary_;
    std::bitset<GGML_GLU_OP_COUNT> glu_;
};

/// What is to go wrong. Counts are from 1 on; 0 means never, and so does a negative time.
struct FaultPlan {
    std::uint64_t allocation = 0;
    std::uint64_t copy = 0;
    std::uint64_t node = 0;
    double lost = -1;  ///< virtual seconds
};

struct Parameters {
    int devices = 1;
    std::size_t memory = std::size_t{4} << 30;
    std::size_t max_buffer = memory;
    double flops = 10e12;             ///< operations per second
    double memory_bandwidth = 500e9;  ///< bytes per second
    double link_bandwidth = 25e9;     ///< bytes per second
    double latency = 10e-6;           ///< seconds
    int hosts = 1;                    ///< that the devices are spread over
    double net_bandwidth = 1.17e9;    ///< bytes per second between hosts
    double hop = 30e-6;               ///< seconds from host to host
    bool numbers = true;              ///< nodes are computed; else only their time passes
    OpSet ops = OpSet::all();
    bool pinned = false;
    std::int64_t offload_rows = 32;
    bool trace = false;
    FaultPlan faults;
};

/// "devices=2,mem=4G,ops=all,-ROPE": what is not named keeps its default.
Result<Parameters> parse_parameters(std::string_view text);

/// "alloc=3,lost=1.5ms".
Result<FaultPlan> parse_faults(std::string_view text);

}  // namespace heddle::sim
