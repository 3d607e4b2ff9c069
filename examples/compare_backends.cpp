// Computes the same graph on the processor and on every other device, and says how far they differ.
#include <cstdint>
#include <cstdio>
#include <heddle/heddle.hpp>

using namespace heddle;

namespace {

/// Numbers between -1 and 1 that are the same everywhere.
std::vector<float> numbers(const Tensor& tensor, std::uint32_t seed) {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    for (float& value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1.0f;
    }
    return values;
}

/// How far the results on `device` are from those of the processor, node by node.
Result<std::vector<Difference>> check(const Device& device) {
    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
    HEDDLE_TRY_ASSIGN(Context context, Context::make());
    const Tensor a = context.tensor(GGML_TYPE_F32, {128, 96}, "a");
    const Tensor b = context.tensor(GGML_TYPE_F32, {96, 64}, "b");
    const Tensor x = context.tensor(GGML_TYPE_F32, {128, 64}, "x");
    const Tensor first = matmul(a, x).named("first");
    const Tensor second = matmul(b, first).named("second");
    for (const Tensor& node : {first, second}) {
        const std::string objection = device.objection(node);
        if (!objection.empty()) {
            return failure(Errc::unsupported, node.name(), ": ", objection);
        }
    }
    HEDDLE_TRY_ASSIGN(const Graph graph, Graph::of(context, second));
    HEDDLE_TRY_ASSIGN(const Buffer memory, Buffer::for_all(context, cpu));
    HEDDLE_TRY(write(a, numbers(a, 1)));
    HEDDLE_TRY(write(b, numbers(b, 2)));
    HEDDLE_TRY(write(x, numbers(x, 3)));

    HEDDLE_TRY_ASSIGN(const Stream here, cpu.start());
    HEDDLE_TRY_ASSIGN(const Stream there, device.start());
    return compare(here, there, graph);
}

}  // namespace

int main() {
    if (const auto simulated = Device::find("sim:devices=1"); !simulated) {
        std::printf("no simulated device: %s\n", simulated.error().message.c_str());
    }
    bool all_close = true;
    std::printf("%-8s %-8s %-8s %s\n", "device", "node", "op", "error");
    for (const Device& device : Device::all()) {
        const auto differences = check(device);
        if (!differences) {
            std::printf("%-8s declines %s\n", device.name().c_str(),
                        differences.error().message.c_str());
            continue;
        }
        for (const Difference& each : *differences) {
            std::printf("%-8s %-8s %-8s %.1e\n", device.name().c_str(), each.node.c_str(),
                        each.op.c_str(), each.error);
            all_close = all_close && each.error < 1e-9;  // roundings of sums of 128 products
        }
    }
    std::printf(all_close ? "all agree\n" : "some disagree\n");
    return all_close ? 0 : 1;
}
