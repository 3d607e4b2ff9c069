#include "backends/cpu/repack/strip_kernel.hpp"

#include "backends/cpu/repack/families.hpp"

namespace heddle::cpu {

RepackKernel repack_kernel_of(Type type) {
    for (const auto family : {simple_repack_of, k_repack_of}) {
        if (const RepackKernel kernel = family(type)) return kernel;
    }
    return {};
}

}  // namespace heddle::cpu
