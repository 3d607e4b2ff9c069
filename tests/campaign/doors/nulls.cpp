// Every function of the C API with one wrong argument among right ones: NULL for an object or a
// text, a negative or huge number. There is a sentence or a sensible answer, and the objects can be
// used afterwards.
#include "tests/campaign/doors/api_arguments.hpp"
#include "tests/campaign/doors/misuse.hpp"

namespace heddle::campaign {

std::string run_nulls(Choices& choices, Trace& trace) {
    prepare_for_misuse();
    ApiWorld world;
    ApiArguments arguments(world, choices, trace, ApiArguments::Misuse::one);
    const auto functions = api_functions();
    for (std::uint32_t calls = choices.below(8) + 1; calls > 0; --calls) {
        functions[choices.below(static_cast<std::uint32_t>(functions.size()))].call(arguments);
    }
    world.free_all(&choices);
    return {};
}

}  // namespace heddle::campaign
