#include "tests/faults/faulty_devices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "heddle/heddle.h"
#include "heddle/sim.h"
#include "plugin/ggml-backend-impl.h"

namespace heddle::faults {
namespace {

constexpr std::size_t kDevices = 2;

template <class Function>
Function sim_function(const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_sim_reg(), name));
}

/// What a device did in a run in which nothing failed.
struct Record {
    long copies = 0, nodes = 0;
    std::vector<double> ends;  ///< of all it did, in virtual seconds from the beginning
};
std::array<Record, kDevices> records;

/// The functions that those below stand in the way of.
ggml_backend_device_i real_device;
ggml_backend_buffer_type_i real_memory;

ggml_backend_t make_stream(ggml_backend_dev_t device, const char* parameters) {
    return strikes(Kind::device_stream) ? nullptr : real_device.init_backend(device, parameters);
}

ggml_backend_event_t make_event(ggml_backend_dev_t device) {
    return strikes(Kind::device_event) ? nullptr : real_device.event_new(device);
}

ggml_backend_buffer_t make_buffer(ggml_backend_buffer_type_t type, std::size_t size) {
    return strikes(Kind::device_memory) ? nullptr : real_memory.alloc_buffer(type, size);
}

void stand_in_the_way(ggml_backend_dev_t device) {
    real_device = device->iface;
    device->iface.init_backend = make_stream;
    device->iface.event_new = make_event;
    ggml_backend_buffer_type_t memory = ggml_backend_dev_buffer_type(device);
    real_memory = memory->iface;
    memory->iface.alloc_buffer = make_buffer;
}

long points_of(const Record& record, Kind kind) {
    if (kind == Kind::device_copy) return record.copies;
    return kind == Kind::device_node ? record.nodes : static_cast<long>(record.ends.size());
}

void tell(std::size_t device, const char* plan) {
    EXPECT_TRUE(sim_function<heddle_sim_fail_t>("heddle_sim_fail")(simulated(device), plan))
        << heddle_last_error();
}

}  // namespace

ggml_backend_dev_t simulated(std::size_t index) {
    return ggml_backend_reg_dev_get(ggml_backend_sim_reg(), index);
}

void configure_devices(bool traced) {
    const auto configure = sim_function<heddle_backend_configure_t>("heddle_backend_configure");
    ASSERT_TRUE(configure(traced ? "devices=2,mem=16M,trace=1" : "devices=2,mem=16M,trace=0"))
        << heddle_last_error();
    for (std::size_t i = 0; i < kDevices; ++i) stand_in_the_way(simulated(i));
}

void take_record() {
    const auto trace = sim_function<heddle_sim_trace_t>("heddle_sim_trace");
    for (std::size_t i = 0; i < kDevices; ++i) {
        std::vector<heddle_sim_item> items(
            trace(simulated(i), nullptr, 0, sizeof(heddle_sim_item)));
        trace(simulated(i), items.data(), items.size(), sizeof(heddle_sim_item));
        Record& record = records[i] = {};
        for (const heddle_sim_item& item : items) {
            record.nodes += item.kind == HEDDLE_SIM_NODE ? 1 : 0;
            record.copies += item.kind != HEDDLE_SIM_NODE && item.kind != HEDDLE_SIM_FILL ? 1 : 0;
            record.ends.push_back(item.end);
        }
        std::ranges::sort(record.ends);
    }
}

bool plan_failure(Kind kind, long number) {
    const auto clock = sim_function<heddle_sim_clock_t>("heddle_sim_clock");
    for (std::size_t i = 0; i < kDevices; ++i) {
        const long count = points_of(records[i], kind);
        if (number > count) {
            number -= count;
            continue;
        }
        std::array<char, 64> plan{};
        if (kind == Kind::device_lost) {
            // Just before the thing would have ended.
            const double begin = std::max(clock(simulated(i)), clock(nullptr));
            const double end = begin + records[i].ends[static_cast<std::size_t>(number - 1)];
            std::snprintf(plan.data(), plan.size(), "lost=%.9fs", end - 1e-7);
        } else {
            std::snprintf(plan.data(), plan.size(), "%s=%ld",
                          kind == Kind::device_copy ? "copy" : "node", number);
        }
        tell(i, plan.data());
        return true;
    }
    return false;
}

void mend_devices() {
    for (std::size_t i = 0; i < kDevices; ++i) {
        if (simulated(i) != nullptr) tell(i, nullptr);
    }
}

}  // namespace heddle::faults
