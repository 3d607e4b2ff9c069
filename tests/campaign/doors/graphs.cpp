// Random graphs over random mixes of devices, against the processor alone. The graphs are those of
// tests/sched/fuzz.

#include "tests/campaign/door.hpp"
#include "tests/sched/fuzz/session.hpp"

namespace heddle::campaign {

std::string run_graphs(Choices& choices, Trace& trace) {
    static const fuzz::World world;
    fuzz::Dice dice([&](std::uint32_t n) { return choices.below(n); });
    const fuzz::Case which = fuzz::make_case(dice, static_cast<int>(world.size()), false);
    if (trace.is_wanted()) trace.line(fuzz::to_text(which));
    fuzz::Work work;
    return fuzz::run_case(which, world, work);
}

}  // namespace heddle::campaign
