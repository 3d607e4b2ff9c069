#pragma once

#include <functional>
#include <string>

namespace heddle {

/// Looks up a variable of the environment; empty if it is not set.
using Variable = std::function<std::string(const char* name)>;

/// Whether the environment asks for workers on other machines, or this is rank 0 of a job that has
/// them. In other MPI jobs MPI is left alone: to start it waits for all ranks, and a program may
/// well run as several equal ranks that each use a model of their own.
bool wants_mpi(const Variable& variable);

/// Whether devices of workers come behind those of this machine, not before them.
bool mpi_goes_last(const Variable& variable);

}  // namespace heddle
