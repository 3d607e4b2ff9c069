// Adds two matrices on the best device there is.
#include <cstdio>
#include <heddle/heddle.hpp>

heddle::Result<> run() {
    HEDDLE_TRY_ASSIGN(const heddle::Device device, heddle::Device::best());

    // What is to be computed. Nothing is yet.
    HEDDLE_TRY_ASSIGN(heddle::Context context, heddle::Context::make());
    const heddle::Tensor a = context.tensor(GGML_TYPE_F32, {2, 2}, "a");
    const heddle::Tensor b = context.tensor(GGML_TYPE_F32, {2, 2}, "b");
    HEDDLE_TRY_ASSIGN(const heddle::Graph graph, heddle::Graph::of(context, a + b));

    // Memory on the device for all of it, and data for the operands.
    HEDDLE_TRY_ASSIGN(const heddle::Buffer memory, heddle::Buffer::for_all(context, device));
    HEDDLE_TRY(heddle::write<float>(a, {1, 2, 3, 4}));
    HEDDLE_TRY(heddle::write<float>(b, {10, 20, 30, 40}));

    HEDDLE_TRY_ASSIGN(heddle::Stream stream, device.start());
    HEDDLE_TRY(stream.compute(graph));
    HEDDLE_TRY_ASSIGN(const std::vector<float> sum, heddle::read<float>(graph.result()));
    std::printf("%s: %g %g %g %g\n", device.name().c_str(), sum[0], sum[1], sum[2], sum[3]);
    return heddle::ok();
}

int main() {
    const auto done = run();
    if (!done) std::fprintf(stderr, "first_graph: %s\n", done.error().message.c_str());
    return done ? 0 : 1;
}
