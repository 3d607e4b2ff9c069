#pragma once

#include <functional>

#include "backends/mpi/client/cluster.hpp"
#include "heddle/backend/trace.h"

namespace heddle::mpi {

/// What streams of workers that are traced have done, on this process's clock. The clocks of
/// machines differ: a worker is asked the time, and the quickest of some answers tells by how much.
/// Workers that are lost tell nothing.
void each_span(Cluster& cluster, const std::function<void(const heddle_trace_span&)>& take);

}  // namespace heddle::mpi
