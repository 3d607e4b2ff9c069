/// Devices of other machines, through MPI: MPI1:CPU, MPI2:CUDA0, ...
///
/// The program is rank 0. Every other rank is a worker, `heddle worker`, which serves the devices
/// of its machine. HEDDLE_MPI_HOSTS=host,host:2 makes the library start workers on those hosts;
/// under a launcher such as mpirun they are started beside the program. docs/cluster.md tells more.
#pragma once

#include "../ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The registration "RPC", by which programs know devices of other machines. It has none until it
/// is configured.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_mpi_reg(void);

/// How a worker serves.
struct heddle_mpi_worker {
    ggml_backend_dev_t* devices;
    size_t n_devices;
    int n_threads;   ///< of CPU devices; 0: one for each core
    bool is_chosen;  ///< the devices were named: all are shown, also on the program's own machine
    /// Folders whose files it may read for the program; none: model files of its user or root.
    const char* const* folders;
    size_t n_folders;
    const size_t* budgets;  ///< bytes of each device that the program may take, 0: all; or NULL
};

/// Function "heddle_mpi_serve" of the registration: takes part in the MPI job of this process as a
/// worker. Returns true after rank 0 has said goodbye, false with heddle_last_error() otherwise.
typedef bool (*heddle_mpi_serve_t)(const struct heddle_mpi_worker* worker);

/// Function "heddle_backend_configure" of the registration. "": the workers that the environment
/// asks for. "threads=2,devices=CPU+SIM0": workers in threads of this process, which serve devices
/// of it in turn, for tests. "serve": none, because this process is a worker.
typedef bool (*heddle_mpi_configure_t)(const char* parameters);

/// Function "heddle_backend_load_file" of the registration: fills a tensor that is in memory of a
/// worker with as many bytes of a file as it takes, from byte `offset` on. A worker that has the
/// same file reads it itself, while this program goes on; otherwise this program reads and sends
/// it. Nothing is mapped. False with heddle_last_error() if it cannot be read here; what goes wrong
/// there is told by the next graph that reads the tensor.
typedef bool (*heddle_backend_load_file_t)(struct ggml_tensor* tensor, const char* path,
                                           uint64_t offset);

/// Function "heddle_mpi_ping_pong" of the registration: the shortest time, in seconds, that so many
/// bytes take from the worker of one device to that of another and back, of so many tries, by MPI
/// alone; `from` NULL: from this program. 0 with heddle_last_error() if it cannot be measured.
typedef double (*heddle_mpi_ping_pong_t)(ggml_backend_dev_t from, ggml_backend_dev_t to,
                                         size_t bytes, int rounds);

/// Function "heddle_mpi_sent" of the registration: bytes that this program has sent so far to the
/// worker of a device. Weights that workers read from files of their own are not among them.
typedef size_t (*heddle_mpi_sent_t)(ggml_backend_dev_t device);

#ifdef __cplusplus
}
#endif
