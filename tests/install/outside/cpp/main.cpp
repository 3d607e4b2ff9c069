#include <cstdio>
#include <heddle/heddle.hpp>
#include <vector>

namespace {

heddle::Result<float> last_of_sum() {
    HEDDLE_TRY_ASSIGN(const heddle::Device cpu, heddle::Device::cpu());
    HEDDLE_TRY_ASSIGN(heddle::Context context, heddle::Context::make());
    const heddle::Tensor a = context.tensor(GGML_TYPE_F32, {2, 2}, "a");
    const heddle::Tensor twice = a + a;
    HEDDLE_TRY_ASSIGN(const heddle::Graph graph, heddle::Graph::of(context, twice));
    HEDDLE_TRY_ASSIGN(const heddle::Buffer memory, heddle::Buffer::for_all(context, cpu));
    HEDDLE_TRY(heddle::write<float>(a, {1, 2, 3, 4}));
    HEDDLE_TRY_ASSIGN(heddle::Stream stream, cpu.start());
    HEDDLE_TRY(stream.compute(graph));
    HEDDLE_TRY_ASSIGN(const std::vector<float> sums, heddle::read<float>(twice));
    return sums.back();
}

}  // namespace

int main() {
    const auto last = last_of_sum();
    if (last && *last == 8) return 0;
    std::puts(last ? "a wrong sum" : last.error().message.c_str());
    return 1;
}
