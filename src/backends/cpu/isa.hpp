#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/error.hpp"

/// Instruction sets. Kernels exist in several forms, and the best one that the machine has is used.
namespace heddle::cpu {

/// Names of the instruction sets that kernels are built for and this machine has, best first, the
/// plain one last. A null pointer follows the last name.
std::span<const char* const> isa_names();

/// From now on kernels run in the form for instruction set `name`; "best" goes back to the best
/// one. For the whole process. No graph may be running.
Result<> use_isa(std::string_view name);

/// How often that was done: what was planned for other forms is to be planned again.
std::uint64_t isa_changes();

/// What the forms in use need of the CPU. Names as features go by in the C API.
struct Features {
    bool sse3 = false, ssse3 = false;
    bool avx = false, avx2 = false, bmi2 = false, f16c = false, fma = false;
    bool avx512 = false, avx512_vbmi = false, avx512_vnni = false;
    bool neon = false, arm_fma = false, matmul_int8 = false, sve = false, dotprod = false;
    bool riscv_v = false, vsx = false, wasm_simd = false;
    int sve_bytes = 0;  ///< of a vector
};

/// Features of the best form this machine can run.
const Features& used_features();

}  // namespace heddle::cpu
