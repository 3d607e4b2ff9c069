#include "machine.hpp"

#include "ggml-cpu.h"
#include "ggml/ops_math.h"
#include "heddle/heddle.h"
#include "heddle/result.hpp"
#include "heddle/sim.h"
#include "tests/campaign/live_heap.hpp"

namespace heddle::campaign {

namespace {

/// Devices are for ever: it is made once, whatever becomes of its streams.
ggml_backend_dev_t sim_device() {
    ggml_backend_reg_t registration = ggml_backend_sim_reg();
    const auto configure = reinterpret_cast<heddle_backend_configure_t>(
        ggml_backend_reg_get_proc_address(registration, "heddle_backend_configure"));
    configure("devices=1,trace=0,mem=64M,offload=1");
    return ggml_backend_reg_dev_get(registration, 0);
}

std::unique_ptr<Machine> machine;

}  // namespace

Machine& Machine::shared() {
    static const bool once = (when_measuring([] { machine.reset(); }), true);
    if (once && machine == nullptr) machine = std::make_unique<Machine>();
    return *machine;
}

Machine::Machine() : cpu_(ggml_backend_cpu_init()) {
    static ggml_backend_dev_t device = sim_device();
    sim_.reset(ggml_backend_dev_init(device, nullptr));
    ggml_backend_t streams[] = {sim_.get(), cpu_.get()};
    scheduler_.reset(ggml_backend_sched_new(streams, nullptr, 2, 64, false, true));
    ggml_backend_cpu_set_n_threads(cpu_.get(), 1);
}

std::string Machine::check_scheduler() const {
    constexpr std::size_t kTensors = 8;
    fuzz::OwnedContext context(ggml_init({.mem_size = kTensors * ggml_tensor_overhead() +
                                                      ggml_graph_overhead_custom(kTensors, false),
                                          .mem_buffer = nullptr,
                                          .no_alloc = true}));
    ggml_tensor* x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 4);
    ggml_set_input(x);
    ggml_tensor* y = ggml_add(context.get(), ggml_sqr(context.get(), x), x);
    ggml_set_output(y);
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), kTensors, false);
    ggml_build_forward_expand(graph, y);
    ggml_backend_sched_reset(scheduler());
    if (!ggml_backend_sched_alloc_graph(scheduler(), graph)) {
        return text("a good graph is not allocated any more: ", heddle_last_error());
    }
    const float given[] = {1, 2, 3, 4};
    float got[4] = {};
    ggml_backend_tensor_set(x, given, 0, sizeof given);
    if (ggml_backend_sched_graph_compute(scheduler(), graph) != GGML_STATUS_SUCCESS) {
        return text("a good graph is not computed any more: ", heddle_last_error());
    }
    ggml_backend_tensor_get(y, got, 0, sizeof got);
    for (int i = 0; i < 4; ++i) {
        if (got[i] != given[i] * given[i] + given[i]) {
            return text("a good graph gives ", got[i], " for ", given[i]);
        }
    }
    return {};
}

}  // namespace heddle::campaign
