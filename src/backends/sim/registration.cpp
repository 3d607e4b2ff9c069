// heddle/sim.h, and the registration "SIM".

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "backends/named_functions.hpp"
#include "backends/sim/device.hpp"
#include "ggml-cpu.h"
#include "heddle/backend/nodes.hpp"
#include "heddle/backend/trace.h"
#include "heddle/sim.h"

namespace heddle::sim {
namespace {

class SimRegistration : public plugin::Registration<SimRegistration> {
public:
    SimRegistration() { replace_devices(Parameters{}); }

    const char* name() { return "SIM"; }
    std::size_t device_count() {
        const std::lock_guard guard(lock_);
        return devices_.size();
    }
    ggml_backend_dev_t device(std::size_t index) {
        const std::lock_guard guard(lock_);
        return index < devices_.size() ? devices_[index]->handle() : nullptr;
    }
    void* find(std::string_view name);

    void replace_devices(const Parameters& parameters) {
        const auto clock = std::make_shared<HostClock>();
        std::vector<std::unique_ptr<SimDevice>> fresh;
        fresh.reserve(static_cast<std::size_t>(parameters.devices));
        for (int i = 0; i < parameters.devices; ++i) {
            fresh.push_back(std::make_unique<SimDevice>(handle(), clock, parameters, i));
        }
        const std::lock_guard guard(lock_);
        // The program may still hold the old ones, or buffers and streams of theirs.
        retired_.reserve(retired_.size() + devices_.size());
        std::move(devices_.begin(), devices_.end(), std::back_inserter(retired_));
        devices_ = std::move(fresh);
    }

    /// The clock of the devices configured last is that of any of them.
    Timeline& first_timeline() {
        const std::lock_guard guard(lock_);
        return devices_.front()->timeline();
    }

private:
    std::mutex lock_;
    std::vector<std::unique_ptr<SimDevice>> devices_, retired_;
};

SimRegistration& the_registration() {
    return *static_cast<SimRegistration*>(ggml_backend_sim_reg()->context);
}

/// Runs `body`, which gives a Result; reports a failure as one of `function` and gives `otherwise`.
template <class T, class Body>
T answer(const char* function, T otherwise, Body&& body) {
    return plugin::attempt_or<T>(
        otherwise, [&] { return std::string(function); }, std::forward<Body>(body));
}

Result<SimDevice*> checked_device(ggml_backend_dev_t device) {
    if (SimDevice* found = sim_device(device)) return found;
    return invalid("this is not a simulated device");
}

// ---- functions found by name -------------------------------------------------------------------

bool configure(const char* parameters) {
    const auto done = plugin::attempt([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Parameters parsed,
                          parse_parameters(parameters != nullptr ? parameters : ""));
        the_registration().replace_devices(parsed);
        return ok();
    });
    if (!done) plugin::report(done.error());
    return done.has_value();
}

double clock_of(ggml_backend_dev_t device) {
    return answer("heddle_sim_clock", 0.0, [&]() -> Result<double> {
        if (device == nullptr) return the_registration().first_timeline().host_now();
        HEDDLE_TRY_ASSIGN(SimDevice* const found, checked_device(device));
        return found->timeline().now();
    });
}

double advance(double seconds) {
    return answer("heddle_sim_advance", 0.0, [&]() -> Result<double> {
        if (!(seconds >= 0)) return invalid("time cannot go on by ", seconds, " s");
        return the_registration().first_timeline().advance_host(seconds);
    });
}

std::size_t trace(ggml_backend_dev_t device, heddle_sim_item* items, std::size_t capacity,
                  std::size_t item_size) {
    return answer("heddle_sim_trace", std::size_t{0}, [&]() -> Result<std::size_t> {
        HEDDLE_TRY_ASSIGN(SimDevice* const found, checked_device(device));
        const std::vector<heddle_sim_item> all = found->timeline().trace();
        const std::size_t count = items != nullptr ? std::min(capacity, all.size()) : 0;
        for (std::size_t i = 0; i < count; ++i) {
            std::memcpy(reinterpret_cast<std::byte*>(items) + i * item_size, &all[i],
                        std::min(item_size, sizeof all[i]));
        }
        return all.size();
    });
}

void clear_trace(ggml_backend_dev_t device) {
    answer("heddle_sim_clear_trace", false, [&]() -> Result<bool> {
        HEDDLE_TRY_ASSIGN(SimDevice* const found, checked_device(device));
        found->timeline().clear_trace();
        return true;
    });
}

bool set_faults(ggml_backend_dev_t device, const char* plan) {
    return answer("heddle_sim_fail", false, [&]() -> Result<bool> {
        HEDDLE_TRY_ASSIGN(SimDevice* const found, checked_device(device));
        HEDDLE_TRY_ASSIGN(const FaultPlan parsed, parse_faults(plan != nullptr ? plan : ""));
        found->timeline().set_faults(parsed);
        return true;
    });
}

bool queue_span(ggml_backend_event_t from, ggml_backend_event_t to, double* begin, double* end) {
    return answer("heddle_queue_span", false, [&]() -> Result<bool> {
        const auto ticket_of = [](ggml_backend_event_t event) -> Ticket {
            if (event == nullptr || sim_device(event->device) == nullptr) return {};
            return static_cast<const SimEvent*>(event->context)->ticket;
        };
        const Ticket first = ticket_of(from), last = ticket_of(to);
        if (first.progress == nullptr || first.progress != last.progress) return false;
        const auto span = last.progress->span(first.number, last.number);
        if (!span) return false;
        *begin = span->begin, *end = span->end;
        return true;
    });
}

void* SimRegistration::find(std::string_view name) {
    static const std::array functions{
        named("heddle_backend_configure", configure), named("heddle_sim_clock", clock_of),
        named("heddle_sim_advance", advance),         named("heddle_sim_trace", trace),
        named("heddle_sim_clear_trace", clear_trace), named("heddle_sim_fail", set_faults),
        named(HEDDLE_QUEUE_SPAN, queue_span),
    };
    return find_function(functions, name);
}

}  // namespace

SimDevice* sim_device(ggml_backend_dev_t device) {
    if (device == nullptr || device->reg != ggml_backend_sim_reg()) return nullptr;
    return static_cast<SimDevice*>(device->context);
}

}  // namespace heddle::sim

ggml_backend_reg_t ggml_backend_sim_reg(void) {
    ggml_cpu_init();  // the kernels need it
    return heddle::plugin::registration<heddle::sim::SimRegistration>();
}
