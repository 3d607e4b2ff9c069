// Loads a GGUF file and runs the feed-forward half of one of its layers.
//
//   one_layer data/tales-7m-q8_0.gguf [layer]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <heddle/heddle.hpp>

using namespace heddle;

namespace {

/// A weight of the file in `store`, lying where the file is mapped: nothing is copied.
Result<Tensor> weight(const ModelFile& file, Context& store, Buffer& mapped,
                      const std::string& name) {
    const ggml_tensor* found = file.find(name);
    if (found == nullptr) return failure(Errc::not_found, file.path(), ": no tensor '", name, "'");
    const Tensor made = store.tensor(found->type, std::span(found->ne, 4), name);
    HEDDLE_TRY(store.check());
    HEDDLE_TRY(mapped.place(made, file.data_of(*found)));
    return made;
}

Result<> run(const std::string& path, int layer) {
    HEDDLE_TRY_ASSIGN(const ModelFile file, ModelFile::open(path));
    HEDDLE_TRY_ASSIGN(const std::string architecture, file.text("general.architecture"));
    HEDDLE_TRY_ASSIGN(const std::int64_t width, file.integer(architecture + ".embedding_length"));
    HEDDLE_TRY_ASSIGN(const double epsilon,
                      file.real(architecture + ".attention.layer_norm_rms_epsilon"));

    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
    HEDDLE_TRY_ASSIGN(Buffer mapped, Buffer::around(cpu, file.bytes().data(), file.bytes().size(),
                                                    file.bytes().size()));
    mapped.set_weights();
    HEDDLE_TRY_ASSIGN(Context store, Context::make_store(8));
    const std::string prefix = "blk." + std::to_string(layer) + ".ffn_";
    HEDDLE_TRY_ASSIGN(const Tensor words, weight(file, store, mapped, "token_embd.weight"));
    HEDDLE_TRY_ASSIGN(const Tensor norm, weight(file, store, mapped, prefix + "norm.weight"));
    HEDDLE_TRY_ASSIGN(const Tensor gate, weight(file, store, mapped, prefix + "gate.weight"));
    HEDDLE_TRY_ASSIGN(const Tensor up, weight(file, store, mapped, prefix + "up.weight"));
    HEDDLE_TRY_ASSIGN(const Tensor down, weight(file, store, mapped, prefix + "down.weight"));

    // The formula of the layer, as one would write it.
    HEDDLE_TRY_ASSIGN(Context context, Context::make());
    const Tensor tokens = context.tensor(GGML_TYPE_I32, {3}, "tokens").as_input();
    const Tensor x = get_rows(words, tokens);
    const Tensor normed = rms_norm(x, static_cast<float>(epsilon)) * norm;
    const Tensor y = x + matmul(down, swiglu(matmul(gate, normed), matmul(up, normed)));
    HEDDLE_TRY_ASSIGN(const Graph graph, Graph::of(context, y.as_output()));

    HEDDLE_TRY_ASSIGN(Scheduler scheduler, Scheduler::make());
    HEDDLE_TRY(scheduler.allocate(graph));
    HEDDLE_TRY(write<std::int32_t>(tokens, {300, 301, 302}));
    HEDDLE_TRY(scheduler.compute(graph));
    HEDDLE_TRY_ASSIGN(const std::vector<float> values, read<float>(y));

    double squares = 0;
    for (const float value : values) squares += double{value} * value;
    std::printf("%s, layer %d: %d nodes gave %lld numbers for each of 3 tokens, %.3f on average\n",
                architecture.c_str(), layer, graph.nodes(), static_cast<long long>(width),
                std::sqrt(squares / static_cast<double>(values.size())));
    return ok();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return std::fprintf(stderr, "one_layer: give a GGUF file\n"), 2;
    const auto done = run(argv[1], argc > 2 ? std::atoi(argv[2]) : 0);
    if (!done) std::fprintf(stderr, "one_layer: %s\n", done.error().message.c_str());
    return done ? 0 : 1;
}
