#include "backends/cpu/isa.hpp"

#include <hwy/highway.h>

#include <atomic>
#include <vector>

#include "simd/extensions.hpp"

#if defined(__linux__) && defined(__aarch64__)
#include <sys/prctl.h>
#endif

namespace heddle::cpu {
namespace {

/// A bit of Highway's for each form, best first: lower bits are better.
std::vector<std::int64_t> targets_of_machine() {
    std::vector<std::int64_t> targets;
    // What the compiler counts on runs, even where Highway has doubts: it wants AES of every Arm.
    const std::int64_t all = (hwy::SupportedTargets() & HWY_TARGETS) | HWY_STATIC_TARGET;
    for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
        targets.push_back(rest & ~(rest - 1));
    }
    return targets;
}

/// As the machine is, whatever `use_isa` has chosen since.
const std::vector<std::int64_t>& targets() {
    static const std::vector<std::int64_t> all = targets_of_machine();
    return all;
}

Features features_of(std::int64_t best) {
    Features has;
#if HWY_ARCH_X86
    has.sse3 = has.ssse3 = best <= HWY_SSE4;
    has.avx = has.avx2 = has.bmi2 = has.f16c = has.fma = best <= HWY_AVX2;
    has.avx512 = best <= HWY_AVX3;
    has.avx512_vbmi = best <= HWY_AVX3_DL;
    has.avx512_vnni = has.avx512 && has_vnni();
#elif HWY_ARCH_ARM
    has.neon = has.arm_fma = best <= HWY_NEON;
    has.dotprod = has.neon && has_dot_products();
    has.matmul_int8 = has.neon && has_mixed_signs();
    has.sve = best <= HWY_SVE;
#if defined(PR_SVE_GET_VL)
    if (has.sve) has.sve_bytes = prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK;
#endif
#elif HWY_ARCH_RVV
    has.riscv_v = best <= HWY_RVV;
#elif HWY_ARCH_PPC
    has.vsx = best <= HWY_PPC8;
#elif HWY_ARCH_WASM
    has.wasm_simd = best <= HWY_WASM;
#endif
    return has;
}

std::atomic<std::uint64_t> changes = 0;

}  // namespace

std::span<const char* const> isa_names() {
    static const std::vector<const char*> names = [] {
        std::vector<const char*> all;
        for (const std::int64_t target : targets()) all.push_back(hwy::TargetName(target));
        all.push_back(nullptr);
        return all;
    }();
    return {names.data(), names.size() - 1};
}

Result<> use_isa(std::string_view name) {
    std::int64_t chosen = 0;  // to Highway: whatever is best
    if (name != "best") {
        std::string known;
        for (const std::int64_t target : targets()) {
            known.append(known.empty() ? "" : ", ").append(hwy::TargetName(target));
            if (name == hwy::TargetName(target)) chosen = target;
        }
        if (chosen == 0) {
            return failure(Errc::not_found, "instruction set '", name, "' is not among best, ",
                           known);
        }
    } else {
        targets();  // remembered before the first choice hides the others
    }
    hwy::SetSupportedTargetsForTest(chosen);
    hwy::GetChosenTarget().DeInit();
    ++changes;
    return ok();
}

std::uint64_t isa_changes() { return changes; }

const Features& used_features() {
    static const Features features = features_of(targets().front());
    return features;
}

}  // namespace heddle::cpu
