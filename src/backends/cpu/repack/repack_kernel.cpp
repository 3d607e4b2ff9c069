#include "backends/cpu/repack/repack_kernel.hpp"

#include "backends/cpu/repack/families.hpp"

namespace heddle::cpu {

RepackKernel repack_kernel_of(Type type) {
    for (const auto family : {repack_simple_of, repack_k_of}) {
        if (const RepackKernel kernel = family(type)) return kernel;
    }
    return {};
}

}  // namespace heddle::cpu
