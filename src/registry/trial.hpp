#pragma once

#include <chrono>
#include <filesystem>

#include "core/error.hpp"

namespace heddle {

/// How long a plug-in may take to load. Drivers of machines with many accelerators need tens of
/// seconds when nothing else has woken them up; a plug-in that hangs is met once.
inline constexpr std::chrono::seconds kTrialLimit{60};

/// Loads a plug-in in a child process, to see whether this one would survive it: opens the file,
/// asks for its score, starts it, and reads its tables.
///
/// Fails, with what happened and where, if the plug-in ends the child, or is not done within
/// `limit`; the child is then killed. Whatever else may be wrong with the plug-in is not judged
/// here: a load that comes back can be done again.
///
/// Where there can be no child it fails, too, with `Errc::io`: another time there may be one. A
/// program that must load plug-ins there leaves out the trial (HEDDLE_PLUGIN_TRIAL=0).
///
/// The child is a fork of a process that may have other threads. There the C library promises
/// nothing but the functions that signal handlers may call. We rely on more, as glibc and musl give
/// it: memory can be allocated and libraries be opened, because their locks are made anew in the
/// child. A lock that another thread holds at that moment, in the program or in another library,
/// stays held; a plug-in that wants it hangs, which the limit ends. So programs should load
/// plug-ins before they start threads, as most do.
///
/// The child has default signal actions, no core file, nothing to read, writes nowhere, runs
/// none of the program's exit handlers, and dies with its parent. The program gets one SIGCHLD;
/// if it reaps every child itself, the sentence lacks the cause.
Result<> try_loading(const std::filesystem::path& path, std::chrono::milliseconds limit);

}  // namespace heddle
