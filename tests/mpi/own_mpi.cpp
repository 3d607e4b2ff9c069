// A program that uses MPI itself, and a worker for it.
//
//     mpirun -n 1 mpi_own_mpi program : -n 2 mpi_own_mpi worker
//     mpirun -n 1 mpi_own_mpi narrow
//
// The program begins MPI and ends it; what it sends by it stays its own, and so does what happens
// when one of its calls fails. A narrow one lets no two threads call MPI at a time.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/mpi_calls.hpp"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "heddle/heddle.h"
#include "heddle/mpi.h"

namespace {

[[noreturn]] void die(const std::string& what) {
    std::fprintf(stderr, "mpi_own_mpi: %s: %s\n", what.c_str(), heddle_last_error());
    std::exit(1);
}

template <class Function>
Function function(const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_mpi_reg(), name));
}

int serve() {
    ggml_backend_dev_t cpu = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    heddle_mpi_worker worker{};
    worker.devices = &cpu;
    worker.n_devices = 1;
    worker.n_threads = 1;
    if (!function<heddle_mpi_serve_t>("heddle_mpi_serve")(&worker)) die("it does not serve");
    return 0;
}

/// To itself, with the tags that the messages of workers have.
struct OwnMessages {
    static constexpr int kTags = 4;
    static constexpr std::string_view kWords = "the program's own";

    OwnMessages() {
        for (int tag = 0; tag < kTags; ++tag) {
            MPI_Request& request = requests.emplace_back();
            MPI_Isend(kWords.data(), static_cast<int>(kWords.size()), MPI_CHAR, 0, tag,
                      MPI_COMM_WORLD, &request);
        }
    }
    void take() {
        for (int tag = 0; tag < kTags; ++tag) {
            int is_there = 0;
            MPI_Status status;
            MPI_Iprobe(0, tag, MPI_COMM_WORLD, &is_there, &status);
            if (is_there == 0) die("a message of tag " + std::to_string(tag) + " is gone");
            std::string found(kWords.size(), ' ');
            MPI_Recv(found.data(), static_cast<int>(found.size()), MPI_CHAR, 0, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            if (found != kWords) die("a message is another one");
        }
        MPI_Waitall(kTags, requests.data(), MPI_STATUSES_IGNORE);
    }
    std::vector<MPI_Request> requests;
};

void use(ggml_backend_dev_t device) {
    const ggml_context_ptr context(ggml_init({std::size_t{1} << 14, nullptr, true}));
    ggml_tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1000);
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), ggml_nbytes(x)));
    if (buffer == nullptr) die("a worker has no memory");
    ggml_backend_tensor_alloc(buffer.get(), x, ggml_backend_buffer_get_base(buffer.get()));
    std::vector<float> values(1000, 1.5F), found(1000);
    ggml_backend_tensor_set(x, values.data(), 0, ggml_nbytes(x));
    ggml_backend_tensor_get(x, found.data(), 0, ggml_nbytes(x));
    if (found != values) die("a worker has other values");
    std::printf("%s: the same values\n", ggml_backend_dev_name(device));
}

int program() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    if (level < MPI_THREAD_MULTIPLE) die("this MPI has no threads");
    OwnMessages messages;
    if (!function<heddle_mpi_configure_t>("heddle_backend_configure")("")) die("no workers");
    const ggml_backend_reg_t remote = ggml_backend_mpi_reg();
    const std::size_t count = ggml_backend_reg_dev_count(remote);
    for (std::size_t i = 0; i < count; ++i) use(ggml_backend_reg_dev_get(remote, i));
    messages.take();
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    if (handler != MPI_ERRORS_ARE_FATAL) die("failures of the program's calls end in another way");
    MPI_Finalize();
    std::puts("the program's own MPI has ended");
    return 0;
}

int narrow_program() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    if (level != MPI_THREAD_SERIALIZED) die("this MPI gives more than it is asked for");
    if (function<heddle_mpi_configure_t>("heddle_backend_configure")("")) die("there are workers");
    std::puts(heddle_last_error());
    MPI_Finalize();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    const std::string_view role = argc > 1 ? argv[1] : "";
    if (role == "worker") return serve();
    if (role == "narrow") return narrow_program();
    return role == "program" ? program() : 2;
}
