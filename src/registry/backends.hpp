#pragma once

#include "core/hooks.h"
#include "registry/loader.hpp"
#include "registry/on_demand.hpp"
#include "registry/plugin_report.hpp"
#include "registry/registry.hpp"

namespace heddle {

/// Trials for all plug-ins but those that were built with this library, as long as
/// HEDDLE_PLUGIN_TRIAL says: seconds, 0 for no trials at all.
Loader::Trials chosen_trials();

/// Whether HEDDLE_UNSAFE_PLUGINS=1 asks for plug-ins that anybody could have put where they are.
/// Not heard in programs that run with more rights than their caller has.
Loader::Trust chosen_trust();

/// Where plug-ins that are loaded on request are looked for: where all are, and beside the library.
std::vector<std::filesystem::path> on_demand_directories();

/// Everything the process knows about backends.
struct Backends {
    Registry registry;
    PluginReport report;
    Loader loader{registry, report, &heddle_live_buffers, chosen_trials(), chosen_trust()};
    OnDemand on_demand{registry, loader};
};

/// The process's own. The first call registers what is built in, and loads what HEDDLE_BACKENDS
/// asks for. It is never destroyed: threads of backends may run until the very end.
Backends& backends();

/// Names of the plug-ins to look for, in order: all but those on request and those that the
/// environment switches off.
std::vector<std::string_view> wanted_plugins();

/// Registers the backends this library was linked with, accelerators before the CPU.
void register_built_in(Backends& backends);

/// What was found, loaded and rejected so far, and why.
std::vector<PluginRecord> plugin_report();

}  // namespace heddle
