#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sched/test_support.hpp"

/// What tests of whole sequences of calls share.
namespace heddle::sched {

using sim::Buffer;
using sim::ContextOwner;
using sim::Stream;

inline ContextOwner tensors_only(void* memory = nullptr, std::size_t size = 1 << 18) {
    return ContextOwner(ggml_init({.mem_size = size, .mem_buffer = memory, .no_alloc = true}));
}

/// A function that a registration may have, as programs look for it.
template <class Function>
Function proc(ggml_backend_dev_t device, const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

inline ggml_backend_dev_t cpu_device() {
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

class SequenceTest : public RigTest {
protected:
    ggml_backend_t device() { return rig->stream(0); }
    ggml_backend_t cpu() { return rig->cpu(); }

    void run(Sketch& net) {
        ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
    }
};

}  // namespace heddle::sched
