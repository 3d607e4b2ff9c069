// A model over workers has the logits of one that runs here, bit by bit; and so has one that is cut
// over workers which add up what they have, as it is over devices here, and a layer alone.
//
//     mpi_same_bits MODEL
//
// with HEDDLE_MPI_HOSTS=localhost:2 in the environment.
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include "heddle/heddle.hpp"
#include "model/generator.hpp"

namespace {

using heddle::Device;
using heddle::Result;
using heddle::tool::Generator;
using heddle::tool::Token;
using Values = std::vector<float>;

/// Logits after a prompt that is read at once, and after each of some tokens.
Result<std::vector<Values>> logits_on(const std::string& model, const std::vector<Device>& on,
                                      bool join = false) {
    Generator::Options options;
    for (const Device& device : on) options.rooms.push_back({device});
    options.threads = 1;
    options.context = 64;
    options.join = join;
    HEDDLE_TRY_ASSIGN(const auto file, heddle::tool::open_model(model));
    HEDDLE_TRY_ASSIGN(const auto generator, Generator::load(file, options));
    std::vector<Values> all;
    const auto read = [&](const std::vector<Token>& tokens) -> Result<> {
        HEDDLE_TRY_ASSIGN(const auto logits, generator->read(tokens));
        all.emplace_back(logits.begin(), logits.end());
        return heddle::ok();
    };
    std::vector<Token> prompt;
    for (Token i = 0; i < 20; ++i) prompt.push_back(3 + 17 * i % 400);
    HEDDLE_TRY(read(prompt));
    for (Token i = 0; i < 8; ++i) HEDDLE_TRY(read({100 + i}));
    for (const auto& place : generator->model().places()) {
        if (join && !place.starts_with("Meta(" + on.front().name())) {
            return heddle::failure(heddle::Errc::device, "a layer is on ", place);
        }
        if (!join && !on.empty() && place != generator->model().places().back() &&
            !place.starts_with("MPI")) {
            return heddle::failure(heddle::Errc::device, "a layer is on ", place);
        }
    }
    return all;
}

ggml_backend_meta_split_state split_of(const ggml_tensor* tensor, void*) {
    ggml_backend_meta_split_state state{};
    const std::string name = ggml_get_name(tensor);
    state.axis = name == "up"     ? GGML_BACKEND_SPLIT_AXIS_1
                 : name == "down" ? GGML_BACKEND_SPLIT_AXIS_0
                                  : GGML_BACKEND_SPLIT_AXIS_MIRRORED;
    state.n_segments = 1;
    state.nr[0] = 1;
    state.ne[0] = state.ne[1] = 256;
    return state;
}

/// Two products of a layer; the second one's results are addends.
Result<Values> joined_layer(const Device& first, const Device& second) {
    ggml_backend_dev_t devices[] = {first.c(), second.c()};
    const ggml_backend_dev_t joined = ggml_backend_meta_device(devices, 2, split_of, nullptr);
    const ggml_backend_ptr stream(ggml_backend_dev_init(joined, nullptr));
    const ggml_context_ptr context(ggml_init({std::size_t{1} << 16, nullptr, true}));
    ggml_context* const c = context.get();
    ggml_tensor* const up = ggml_set_name(ggml_new_tensor_2d(c, GGML_TYPE_F32, 384, 512), "up");
    ggml_tensor* const down = ggml_set_name(ggml_new_tensor_2d(c, GGML_TYPE_F32, 512, 384), "down");
    ggml_tensor* const x = ggml_set_name(ggml_new_tensor_2d(c, GGML_TYPE_F32, 384, 40), "x");
    ggml_tensor* const sum = ggml_mul_mat(c, down, ggml_silu(c, ggml_mul_mat(c, up, x)));
    ggml_tensor* const out = ggml_scale(c, ggml_add(c, sum, x), 0.5F);
    ggml_cgraph* const graph = ggml_new_graph_custom(c, 64, false);
    ggml_build_forward_expand(graph, out);
    const ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors(c, stream.get()));
    if (buffer == nullptr) return heddle::failure(heddle::Errc::device, heddle_last_error());
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (ggml_tensor* tensor : {up, down, x}) {
        Values values(static_cast<std::size_t>(ggml_nelements(tensor)));
        for (float& value : values) value = normal(random);
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
    if (ggml_backend_graph_compute(stream.get(), graph) != GGML_STATUS_SUCCESS) {
        return heddle::failure(heddle::Errc::device, heddle_last_error());
    }
    Values values(static_cast<std::size_t>(ggml_nelements(out)));
    ggml_backend_tensor_get(out, values.data(), 0, ggml_nbytes(out));
    return values;
}

bool same_bits(const Values& a, const Values& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Result<> compare_all(const char* name, const std::vector<Values>& a, const std::vector<Values>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (same_bits(a[i], b[i])) continue;
        return heddle::failure(heddle::Errc::device, name, ": logits of step ", i, " differ");
    }
    std::printf("%s: %zu sets of %zu logits, the same bits\n", name, a.size(), a[0].size());
    return heddle::ok();
}

Result<> compare(const std::string& model) {
    HEDDLE_TRY_ASSIGN(const Device one, Device::find("MPI1:CPU"));
    HEDDLE_TRY_ASSIGN(const Device two, Device::find("MPI2:CPU"));
    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
    HEDDLE_TRY_ASSIGN(const auto local, logits_on(model, {}));
    const std::pair<const char*, std::vector<Device>> places[] = {{"one worker", {one}},
                                                                  {"two workers", {one, two}}};
    for (const auto& [name, devices] : places) {
        HEDDLE_TRY_ASSIGN(const auto remote, logits_on(model, devices));
        HEDDLE_TRY(compare_all(name, remote, local));
    }
    HEDDLE_TRY_ASSIGN(const std::vector<Device> simulated, Device::find_all("sim:devices=2"));
    HEDDLE_TRY_ASSIGN(const auto cut_here, logits_on(model, simulated, true));
    HEDDLE_TRY_ASSIGN(const auto cut_there, logits_on(model, {one, two}, true));
    HEDDLE_TRY(compare_all("two joined workers", cut_there, cut_here));
    HEDDLE_TRY_ASSIGN(const Values here, joined_layer(cpu, cpu));
    HEDDLE_TRY_ASSIGN(const Values there, joined_layer(one, two));
    if (!same_bits(here, there)) {
        return heddle::failure(heddle::Errc::device, "joined: the layer's results differ");
    }
    std::printf("joined: %zu results, the same bits\n", here.size());
    return heddle::ok();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const auto done = compare(argv[1]);
    if (done) return 0;
    std::fprintf(stderr, "mpi_same_bits: %s\n", done.error().message.c_str());
    return 1;
}
