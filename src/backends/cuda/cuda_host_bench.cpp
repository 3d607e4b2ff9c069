// What the host does for each token of an 8B model on a CUDA device that has done everything at
// once: the scheduler's and this backend's own code, without a driver or a GPU.
//
//     cuda_host_bench [RUNS]

#include <cstdlib>

#include "backends/cuda/null_runtime.hpp"
#include "ggml-cuda.h"
#include "heddle/heddle.h"
#include "token_client.hpp"

int main(int count, char** words) {
    using namespace heddle::bench;
    const int runs = count > 1 ? std::max(1, std::atoi(words[1])) : 501;
    const ggml_backend_ptr device(ggml_backend_cuda_init(0));
    const ggml_backend_ptr cpu(ggml_backend_cpu_init());
    if (device == nullptr || cpu == nullptr) {
        std::printf("%s\n", heddle_last_error());
        return 1;
    }
    ggml_backend_cpu_set_n_threads(cpu.get(), 1);
    const TokenShape shape{.layers = 32,
                           .width = 4096,
                           .heads = 32,
                           .kv_heads = 8,
                           .hidden = 14336,
                           .cached = 4096,
                           .words = 32000,
                           .weights = GGML_TYPE_Q4_0,
                           .cache = GGML_TYPE_F16,
                           .has_words_on_host = true};
    const TokenModel model(shape, ggml_backend_get_default_buffer_type(device.get()));
    ggml_backend_t all[] = {device.get(), cpu.get()};
    const ggml_backend_sched_ptr sched(
        ggml_backend_sched_new(all, nullptr, 2, 1 << 14, false, true));
    const auto before = heddle::cuda::null_counts();
    print_stages(model, device.get(), sched.get(), runs);
    const auto after = heddle::cuda::null_counts();
    std::printf("%llu launches, %llu attributes set, %llu captures, %llu replays\n",
                static_cast<unsigned long long>(after.launches - before.launches),
                static_cast<unsigned long long>(after.attributes - before.attributes),
                static_cast<unsigned long long>(after.captures - before.captures),
                static_cast<unsigned long long>(after.replays - before.replays));
}
