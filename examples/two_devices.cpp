// One graph over two devices, a simulated accelerator and the processor, and how it was run.
//
//   two_devices ["sim:flops=4T,link=16G"]
#include <cstdint>
#include <cstdio>
#include <heddle/heddle.hpp>

using namespace heddle;

namespace {

constexpr std::int64_t kWidth = 256, kTokens = 8;

/// Memory on `device` for all tensors of `weights`, with something in it.
Result<Buffer> place(Context& weights, const Device& device,
                     std::initializer_list<Tensor> tensors) {
    HEDDLE_TRY_ASSIGN(Buffer buffer, Buffer::for_all(weights, device));
    buffer.set_weights();  // nodes that read it run where it is
    for (const Tensor& tensor : tensors) {
        std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>(i % 13) / 100.0f - 0.05f;
        }
        HEDDLE_TRY(write(tensor, values));
    }
    return buffer;
}

Result<> run(const char* accelerator_name) {
    HEDDLE_TRY_ASSIGN(const Device accelerator, Device::find(accelerator_name));
    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());

    // The large layer is on the accelerator, the small one stays on the host.
    HEDDLE_TRY_ASSIGN(Context there, Context::make_store(2));
    HEDDLE_TRY_ASSIGN(Context here, Context::make_store(1));
    const Tensor up = there.tensor(GGML_TYPE_F32, {kWidth, 4 * kWidth}, "up");
    const Tensor down = there.tensor(GGML_TYPE_F32, {4 * kWidth, kWidth}, "down");
    const Tensor head = here.tensor(GGML_TYPE_F32, {kWidth, 16}, "head");
    HEDDLE_TRY_ASSIGN(const Buffer memory_there, place(there, accelerator, {up, down}));
    HEDDLE_TRY_ASSIGN(const Buffer memory_here, place(here, cpu, {head}));

    HEDDLE_TRY_ASSIGN(Context context, Context::make());
    const Tensor x = context.tensor(GGML_TYPE_F32, {kWidth, kTokens}, "x").as_input();
    const Tensor layer = x + matmul(down, silu(matmul(up, x)).named("hidden"));
    const Tensor classes = soft_max(matmul(head, layer.named("layer"))).named("classes");
    HEDDLE_TRY_ASSIGN(const Graph graph, Graph::of(context, classes.as_output()));

    // The scheduler gives every node a device, copies what has to move, and plans the memory.
    HEDDLE_TRY_ASSIGN(Scheduler scheduler, Scheduler::make({accelerator, cpu}));
    HEDDLE_TRY(scheduler.allocate(graph));
    HEDDLE_TRY(write(x, std::vector<float>(kWidth * kTokens, 0.1f)));
    HEDDLE_TRY(scheduler.compute(graph));
    HEDDLE_TRY_ASSIGN(const std::vector<float> result, read<float>(classes));

    for (const Tensor& tensor : {layer, classes}) {
        std::printf("%-8s ran on %s\n", tensor.c()->name, scheduler.place_of(tensor).c_str());
    }
    std::printf("first class of the first token: %.4f\n\n", result[0]);
    HEDDLE_TRY_ASSIGN(const std::string schedule, scheduler.explain());
    std::fputs(schedule.c_str(), stdout);
    return ok();
}

}  // namespace

int main(int argc, char** argv) {
    const auto done = run(argc > 1 ? argv[1] : "sim:flops=4T,link=16G");
    if (!done) std::fprintf(stderr, "two_devices: %s\n", done.error().message.c_str());
    return done ? 0 : 1;
}
