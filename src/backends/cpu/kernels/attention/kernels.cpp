#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

extern const Kernel kFlashAttn;
extern const Kernel kLightningIndexer;
extern const Kernel kDsv4HcComb;
extern const Kernel kDsv4HcPre;
extern const Kernel kDsv4HcPost;

std::span<const Kernel> attention_kernels() {
    static const Kernel kernels[] = {kFlashAttn, kLightningIndexer, kDsv4HcComb, kDsv4HcPre,
                                     kDsv4HcPost};
    return kernels;
}

}  // namespace heddle::cpu
