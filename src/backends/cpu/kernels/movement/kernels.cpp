#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

extern const Kernel kDup, kCpy, kCont, kSet, kAcc, kGetRows, kGetRowsRepacked, kSetRows,
    kGetRowsBack, kRepeat, kRepeatBack, kConcat, kPad, kPadReflect1d, kRoll;

std::span<const Kernel> movement_kernels() {
    static const Kernel kernels[] = {
        kDup,     kCpy,         kCont,   kSet,        kAcc,    kGetRows, kGetRowsRepacked,
        kSetRows, kGetRowsBack, kRepeat, kRepeatBack, kConcat, kPad,     kPadReflect1d,
        kRoll};
    return kernels;
}

}  // namespace heddle::cpu
