// Teaches a small language model the rhyme of the house that Jack built, and saves it as a file
// that `heddle run` continues texts with.
//
//   train_rhyme [MODEL.gguf [LOSS.svg]]
#include <algorithm>
#include <cstdio>
#include <random>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"
#include "loss_curve.hpp"
#include "rhyme_model.hpp"

namespace {

constexpr int kWindows = 256, kEpochs = 10;

/// A letter's place is its token. The first stands for all others, the second ends a verse.
const std::string kLetters = "?\n .JTabcdefghijklmnopqrstuvwxyz";
const int kTokens = static_cast<int>(kLetters.size());

std::string rhyme() {
    constexpr const char* kWho[] = {"house that Jack built",
                                    "malt that lay in",
                                    "rat that ate",
                                    "cat that killed",
                                    "dog that worried",
                                    "cow with the crumpled horn that tossed",
                                    "maiden all forlorn that milked",
                                    "man all tattered and torn that kissed",
                                    "priest all shaven and shorn that married",
                                    "cock that crowed in the morn that woke",
                                    "farmer sowing his corn that kept"};
    std::string text;
    for (std::size_t verse = 1; verse <= std::size(kWho); ++verse) {
        text += "This is";
        for (std::size_t i = verse; i-- > 0;) text += std::string(" the ") + kWho[i];
        text += ".\n";
    }
    return text;
}

/// Pieces of the text from anywhere in it; the label of each letter is the next one.
ggml_opt_dataset_t windows_of(const std::string& text, std::mt19937& random) {
    ggml_opt_dataset_t made = ggml_opt_dataset_init(GGML_TYPE_I32, GGML_TYPE_F32, kContext,
                                                    kContext * kTokens, kWindows, 1);
    auto* token = static_cast<std::int32_t*>(ggml_opt_dataset_data(made)->data);
    float* labels = ggml_get_data_f32(ggml_opt_dataset_labels(made));
    std::fill_n(labels, kWindows * kContext * kTokens, 0.0F);
    for (int window = 0; window < kWindows; ++window) {
        std::size_t at = random() % text.size();
        for (int i = 0; i < kContext; ++i, labels += kTokens) {
            *token++ = static_cast<std::int32_t>(kLetters.find(text[at]));
            at = (at + 1) % text.size();
            labels[kLetters.find(text[at])] = 1;
        }
    }
    return made;
}

/// Norms begin with ones, matrices with small numbers.
void fill(ggml_tensor* weights, std::mt19937& random) {
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(weights->ne[0])));
    std::generate_n(ggml_get_data_f32(weights), ggml_nelements(weights),
                    [&] { return ggml_nrows(weights) == 1 ? 1 : normal(random); });
}

bool write_model(const char* path, ggml_context* store) {
    const gguf_context_ptr file(gguf_init_empty());
    gguf_context* to = file.get();
    gguf_set_val_str(to, "general.architecture", "llama");
    gguf_set_val_u32(to, "llama.block_count", kLayers);
    gguf_set_val_u32(to, "llama.embedding_length", kWidth);
    gguf_set_val_u32(to, "llama.feed_forward_length", kHidden);
    gguf_set_val_u32(to, "llama.attention.head_count", kHeads);
    gguf_set_val_f32(to, "llama.attention.layer_norm_rms_epsilon", kEpsilon);
    gguf_set_val_u32(to, "llama.context_length", kContext);
    // SentencePiece writes spaces as U+2581.
    std::vector<std::string> pieces{"<unk>", "</s>", "\u2581"};
    for (const char letter : kLetters.substr(3)) pieces.emplace_back(1, letter);
    std::vector<const char*> texts;
    for (const std::string& piece : pieces) texts.push_back(piece.c_str());
    std::vector<std::int32_t> kinds(pieces.size(), 1);
    kinds[0] = 2, kinds[1] = 3;  // unknown, control
    gguf_set_val_str(to, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(to, "tokenizer.ggml.tokens", texts.data(), texts.size());
    gguf_set_arr_data(to, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, kinds.data(), kinds.size());
    gguf_set_val_u32(to, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(to, "tokenizer.ggml.eos_token_id", 1);
    gguf_set_val_bool(to, "tokenizer.ggml.add_bos_token", false);
    gguf_set_val_bool(to, "tokenizer.ggml.add_space_prefix", false);
    for (ggml_tensor* t = ggml_get_first_tensor(store); t; t = ggml_get_next_tensor(store, t)) {
        if ((t->flags & GGML_TENSOR_FLAG_PARAM) != 0) gguf_add_tensor(to, t);
    }
    return gguf_write_to_file(to, path, false);
}

}  // namespace

int main(int argc, char** argv) {
    std::mt19937 random(1);  // every run learns the same
    const ggml_backend_ptr cpu(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(cpu.get(), 2);
    ggml_backend_t backends[] = {cpu.get()};
    const ggml_backend_sched_ptr sched(
        ggml_backend_sched_new(backends, nullptr, 1, GGML_DEFAULT_GRAPH_SIZE, false, false));

    const std::size_t size = GGML_DEFAULT_GRAPH_SIZE * ggml_tensor_overhead();
    const ggml_context_ptr store(ggml_init({size, nullptr, true}));
    const ggml_context_ptr compute(ggml_init({size + 3 * ggml_graph_overhead(), nullptr, true}));
    ggml_tensor* tokens = ggml_new_tensor_2d(store.get(), GGML_TYPE_I32, kContext, kBatch);
    ggml_tensor* places = ggml_new_tensor_1d(store.get(), GGML_TYPE_I32, kContext);
    ggml_tensor* scores = Builder{store.get(), compute.get()}.model(tokens, places, kTokens);
    const ggml_backend_buffer_ptr memory(ggml_backend_alloc_ctx_tensors(store.get(), cpu.get()));
    for (int i = 0; i < kContext; ++i) static_cast<std::int32_t*>(places->data)[i] = i;
    for (ggml_tensor* t = places; (t = ggml_get_next_tensor(store.get(), t));) fill(t, random);

    ggml_opt_params params = ggml_opt_default_params(sched.get(), GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
    params.ctx_compute = compute.get();
    params.inputs = tokens;
    params.outputs = scores;
    ggml_opt_optimizer_params pace = ggml_opt_get_default_optimizer_params(nullptr);
    pace.adamw.alpha = 3e-3F;
    params.get_opt_pars = ggml_opt_get_constant_optimizer_params;
    params.get_opt_pars_ud = &pace;
    ggml_opt_context_t training = ggml_opt_init(params);
    ggml_opt_dataset_t windows = windows_of(rhyme(), random);
    ggml_opt_result_t learned = ggml_opt_result_init();
    std::vector<double> losses(kEpochs);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        double right = 0;
        ggml_opt_result_reset(learned);
        ggml_opt_dataset_shuffle(training, windows, -1);
        ggml_opt_epoch(training, windows, learned, nullptr, -1, nullptr, nullptr);
        ggml_opt_result_loss(learned, &losses[epoch], nullptr);
        ggml_opt_result_accuracy(learned, &right, nullptr);
        std::printf("epoch %2d: loss %.4f, %.1f %% of the letters right\n", epoch + 1,
                    losses[epoch], 100 * right);
    }
    const bool saved = write_model(argc > 1 ? argv[1] : "rhyme.gguf", store.get());
    const bool drawn = write_svg(argc > 2 ? argv[2] : "loss.svg", {{"loss", "#2a6fdb", losses}});
    ggml_opt_result_free(learned);
    ggml_opt_dataset_free(windows);
    ggml_opt_free(training);
    return saved && drawn && losses.back() < 0.2 ? 0 : 1;
}
