#include "door.hpp"

namespace heddle::campaign {

std::string run_builders(Choices& choices, Trace& trace);
std::string run_graphs(Choices& choices, Trace& trace);
std::string run_nodes(Choices& choices, Trace& trace);
std::string run_commands(Choices& choices, Trace& trace);
std::string run_files(Choices& choices, Trace& trace);
std::string run_api(Choices& choices, Trace& trace);
std::string run_models(Choices& choices, Trace& trace);
std::string run_nulls(Choices& choices, Trace& trace);

namespace {

/// Adding one: its function above, its row here, its file in CMakeLists.txt.
constexpr Door kDoors[] = {
    {"builders", "builders with random arguments, tensors at unreadable pages", 10, run_builders},
    {"graphs", "random graphs over random devices, with faults", 30, run_graphs, 5},
    {"nodes", "a node of any op with a field or two rewritten", 10, run_nodes},
    {"files", "damaged model files, in every way to read them", 10, run_files},
    {"api", "sequences of calls of the C API, right and wrong", 20, run_api, 7},
    {"nulls", "every function of the C API with one wrong argument", 20, run_nulls},
    {"commands", "random command lines of the program heddle", 60, run_commands},
    {"models", "damaged models, loaded and run by the program's loader", 20, run_models},
};

}  // namespace

std::span<const Door> doors() { return kDoors; }

}  // namespace heddle::campaign
