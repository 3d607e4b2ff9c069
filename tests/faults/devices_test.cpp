// Device memory, copies, events and work in the background while calls to the system fail.

#include <gtest/gtest.h>

#include <array>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "tests/faults/faulty_devices.hpp"
#include "tests/faults/small_model.hpp"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

void use_host_buffers(Run& run) {
    alignas(64) static std::array<float, 64> memory;
    ggml_backend_dev_t device = run.made(
        "the processor", [] { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); });
    const ggml_backend_buffer_ptr first(run.made("a buffer", [&] {
        return ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), 4096);
    }));
    const ggml_backend_buffer_ptr second(run.made("a buffer of the caller's memory", [&] {
        return ggml_backend_dev_buffer_from_host_ptr(device, memory.data(), sizeof memory,
                                                     sizeof memory);
    }));
    const ggml_context_ptr context(run.made("a context", [] {
        return ggml_init({.mem_size = 4096, .mem_buffer = nullptr, .no_alloc = true});
    }));
    ggml_tensor* tensors[2];
    ggml_backend_buffer_t buffers[] = {first.get(), second.get()};
    for (int i = 0; i < 2; ++i) {
        tensors[i] = run.made("a tensor",
                              [&] { return ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 64); });
        run.succeeded("placing it", [&] {
            return ggml_backend_tensor_alloc(buffers[i], tensors[i],
                                             ggml_backend_buffer_get_base(buffers[i]));
        });
    }
    run.done("filling", [&] { ggml_backend_tensor_memset(tensors[0], 0, 0, 256); });
    const float value = 7;
    run.done("writing", [&] { ggml_backend_tensor_set(tensors[0], &value, 8, sizeof value); });
    run.done("copying", [&] { ggml_backend_tensor_copy(tensors[0], tensors[1]); });
    run.expect("the copy is right", memory[2] == 7 && memory[3] == 0);
    run.done("clearing", [&] { ggml_backend_buffer_clear(first.get(), 0); });
}

TEST(Sweep, HostBuffers) { sweep(use_host_buffers); }

void use_devices(Run& run) {
    const ggml_backend_ptr first(
        run.made("a stream", [] { return ggml_backend_dev_init(simulated(0), nullptr); }));
    const ggml_backend_ptr second(
        run.made("another stream", [] { return ggml_backend_dev_init(simulated(1), nullptr); }));
    const ggml_backend_event_ptr event(
        run.made("an event", [] { return ggml_backend_event_new(simulated(0)); }));
    const SmallModel model(run);
    const ggml_backend_buffer_ptr buffer(run.made("device memory", [&] {
        return ggml_backend_alloc_ctx_tensors(model.context(), first.get());
    }));
    model.fill(run);
    run.succeeded("computing in the background",
                  [&] { return ggml_backend_graph_compute_async(first.get(), model.graph()); });
    run.done("recording", [&] { ggml_backend_event_record(event.get(), first.get()); });
    run.done("waiting on the device", [&] { ggml_backend_event_wait(second.get(), event.get()); });
    run.done("waiting here", [&] { ggml_backend_event_synchronize(event.get()); });
    run.done("synchronising", [&] { ggml_backend_synchronize(first.get()); });
    model.check(run);
}

TEST(Sweep, DevicesAndEvents) { sweep_with_devices(use_devices); }

void copy_in_the_background(Run& run) {
    const ggml_backend_ptr first(
        run.made("a stream", [] { return ggml_backend_dev_init(simulated(0), nullptr); }));
    const ggml_backend_ptr second(
        run.made("another stream", [] { return ggml_backend_dev_init(simulated(1), nullptr); }));
    const ggml_context_ptr contexts[] = {
        ggml_context_ptr(run.made(
            "a context",
            [] { return ggml_init({.mem_size = 4096, .mem_buffer = nullptr, .no_alloc = true}); })),
        ggml_context_ptr(run.made("another context", [] {
            return ggml_init({.mem_size = 4096, .mem_buffer = nullptr, .no_alloc = true});
        }))};
    ggml_backend_t streams[] = {first.get(), second.get()};
    ggml_tensor* tensors[2];
    ggml_backend_buffer_ptr buffers[2];
    for (int i = 0; i < 2; ++i) {
        tensors[i] = run.made(
            "a tensor", [&] { return ggml_new_tensor_1d(contexts[i].get(), GGML_TYPE_F32, 64); });
        buffers[i].reset(run.made("device memory", [&] {
            return ggml_backend_alloc_ctx_tensors(contexts[i].get(), streams[i]);
        }));
    }
    std::array<float, 64> sent, received{};
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<float>(i);
    run.done("sending", [&] {
        ggml_backend_tensor_set_async(streams[0], tensors[0], sent.data(), 0, sizeof sent);
    });
    run.done("copying", [&] {
        ggml_backend_tensor_copy_async(streams[0], streams[1], tensors[0], tensors[1]);
    });
    run.done("receiving", [&] {
        ggml_backend_tensor_get_async(streams[1], tensors[1], received.data(), 0, sizeof received);
    });
    run.done("synchronising", [&] { ggml_backend_synchronize(streams[1]); });
    run.expect_near("what was sent is received", received, sent);
}

TEST(Sweep, CopiesInTheBackground) { sweep_with_devices(copy_in_the_background); }

}  // namespace
}  // namespace heddle::faults
