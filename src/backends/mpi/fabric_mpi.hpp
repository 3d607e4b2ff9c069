#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backends/mpi/fabric.hpp"
#include "core/error.hpp"

/// Ranks that are processes of MPI. Besides, only mpi_calls.hpp and mpi_groups.hpp know MPI.
namespace heddle::mpi {

/// Workers to start: `command` on each of `hosts`; a host may stand there more than once.
struct SpawnRequest {
    std::vector<std::string> hosts;
    std::vector<std::string> command;
    std::chrono::milliseconds timeout{30'000};
};

/// Starts workers, and makes this process rank 0 of a job of them. It may take for ever to reach a
/// host, so after the timeout MPI counts as broken for this process.
Result<std::unique_ptr<Fabric>> spawn_workers(const SpawnRequest& request);

/// Takes part in the job that a launcher started this process in, or in that of the process that
/// spawned it. All ranks of a launcher's job do so, or the one that spawned it goes on to, or it
/// fails after the timeout: what the program itself sends by MPI stays apart.
///
/// Where the program began MPI itself this fails, and so does `spawn_workers`, unless any thread
/// may call MPI at any time (MPI_THREAD_MULTIPLE): a thread of Heddle's looks for messages.
Result<std::unique_ptr<Fabric>> join_job(std::chrono::milliseconds timeout);

/// Where the program began MPI itself it also ends it, maybe long before its own end. `leave` is
/// called then, while messages can still be sent.
void call_before_end(void (*leave)());

}  // namespace heddle::mpi
