// In the place of fabric_mpi.cpp where there is no MPI.
#include "backends/mpi/fabric_mpi.hpp"

namespace heddle::mpi {
namespace {

Error absent() { return {Errc::unsupported, "MPI: this build of Heddle has none"}; }

}  // namespace

Result<std::unique_ptr<Fabric>> spawn_workers(const SpawnRequest&) { return absent(); }
Result<std::unique_ptr<Fabric>> join_job(std::chrono::milliseconds) { return absent(); }
void call_before_end(void (*)()) {}

}  // namespace heddle::mpi
