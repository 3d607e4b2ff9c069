#pragma once

#include "ggml.h"

namespace heddle::tool {

/// What computing takes, as the catalogue of ops has it.
struct Work {
    double flops = 0, bytes = 0;

    Work& operator+=(const Work& other) {
        flops += other.flops;
        bytes += other.bytes;
        return *this;
    }
};

Work work_of(const ggml_tensor& node);
Work work_of(ggml_cgraph* graph);

}  // namespace heddle::tool
