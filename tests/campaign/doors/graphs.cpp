// Random graphs over random mixes of devices, against the processor alone, with faults of simulated
// devices. The graphs are those of tests/sched/fuzz.

#include "core/hooks.h"
#include "heddle/sim.h"
#include "tests/campaign/door.hpp"
#include "tests/campaign/settings.hpp"
#include "tests/sched/fuzz/session.hpp"

namespace heddle::campaign {

std::string run_graphs(Choices& choices, Trace& trace) {
    static const fuzz::World world(settings().others());
    if (!world.missing().empty()) return text("there is no device '", world.missing(), "'");
    fuzz::Scope scope = world.scope();
    scope.blas = false;
    scope.small = true;
    fuzz::Dice dice([&](std::uint32_t n) { return choices.below(n); });
    fuzz::Case which = fuzz::make_case(dice, scope);
    which.cost_file = settings().cost_file;
    if (trace.is_wanted()) {
        trace.line(fuzz::to_text(which));
        for (const int device : which.devices) trace.line("device: ", world.kind(device));
    }
    const long buffers = heddle_live_buffers(ggml_backend_sim_reg());
    fuzz::Work work;
    std::string wrong = fuzz::run_case(which, world, work);
    const long left = heddle_live_buffers(ggml_backend_sim_reg()) - buffers;
    if (wrong.empty() && left != 0) wrong = text(left, " buffers are left over");
    return wrong;
}

}  // namespace heddle::campaign
