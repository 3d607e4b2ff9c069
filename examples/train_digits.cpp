// Learns to read digits that it draws itself, shows how the loss falls, and keeps what it learned.
//
//   train_digits [MODEL.gguf [LOSS.svg]]
#include <cstdio>
#include <random>
#include <vector>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"
#include "loss_curve.hpp"

namespace {

constexpr const char* kGlyphs[7] = {".###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###.",
                                    "#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...#",
                                    "#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...#",
                                    "#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .####",
                                    "##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#",
                                    "#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.",
                                    ".###. .###. ##### .###. ...#. .###. .###. .#... .###. .##.."};
constexpr int kWidth = 7, kHeight = 9, kPixels = kWidth * kHeight, kDigits = 10;
constexpr int kHidden = 96, kBatch = 20, kTrain = 16000, kNew = 2000, kEpochs = 12;

/// A glyph somewhere in its frame, with noise on every pixel.
void draw(std::mt19937& random, int digit, float* pixels) {
    std::normal_distribution<float> noise(0, 0.3F);
    const int left = static_cast<int>(random() % 3), top = static_cast<int>(random() % 3);
    for (int i = 0; i < kPixels; ++i) {
        const int x = i % kWidth - left, y = i / kWidth - top;
        const bool ink = 0 <= x && x < 5 && 0 <= y && y < 7 && kGlyphs[y][digit * 6 + x] == '#';
        pixels[i] = (ink ? 1.0F : 0.0F) + noise(random);
    }
}

/// The first points are for training, the others are new to it.
ggml_opt_dataset_t draw_dataset(std::mt19937& random) {
    ggml_opt_dataset_t made =
        ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, kPixels, kDigits, kTrain + kNew, 1);
    float* pixels = ggml_get_data_f32(ggml_opt_dataset_data(made));
    float* labels = ggml_get_data_f32(ggml_opt_dataset_labels(made));
    for (int i = 0; i < kTrain + kNew; ++i) {
        const int digit = static_cast<int>(random() % kDigits);
        draw(random, digit, pixels + i * kPixels);
        for (int k = 0; k < kDigits; ++k) labels[i * kDigits + k] = k == digit ? 1.0F : 0.0F;
    }
    return made;
}

ggml_tensor* parameter(ggml_context* store, const char* name, int columns, int rows) {
    ggml_tensor* made = ggml_new_tensor_2d(store, GGML_TYPE_F32, columns, rows);
    ggml_set_param(made);
    return ggml_set_name(made, name);
}

/// Small numbers to begin with, biases nearly zero.
void fill(std::mt19937& random, ggml_tensor* weights) {
    std::normal_distribution<float> normal(0, ggml_nrows(weights) > 1 ? 0.1F : 0.001F);
    float* numbers = ggml_get_data_f32(weights);
    for (int i = 0; i < ggml_nelements(weights); ++i) numbers[i] = normal(random);
}

bool write_model(const char* path, ggml_context* store) {
    const gguf_context_ptr file(gguf_init_empty());
    gguf_set_val_str(file.get(), "general.architecture", "digits");
    for (ggml_tensor* t = ggml_get_first_tensor(store); t; t = ggml_get_next_tensor(store, t)) {
        if ((t->flags & GGML_TENSOR_FLAG_PARAM) != 0) gguf_add_tensor(file.get(), t);
    }
    return gguf_write_to_file(file.get(), path, false);
}

}  // namespace

int main(int argc, char** argv) {
    std::mt19937 random(1);  // every run draws the same digits
    const ggml_backend_ptr cpu(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(cpu.get(), 2);
    ggml_backend_t backends[] = {cpu.get()};
    const ggml_backend_sched_ptr sched(
        ggml_backend_sched_new(backends, nullptr, 1, GGML_DEFAULT_GRAPH_SIZE, false, false));

    // What stays: the inputs and the weights.
    const ggml_context_ptr store(ggml_init({16 * ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor* x = ggml_new_tensor_2d(store.get(), GGML_TYPE_F32, kPixels, kBatch);
    ggml_tensor* weights[] = {parameter(store.get(), "first.weight", kPixels, kHidden),
                              parameter(store.get(), "first.bias", kHidden, 1),
                              parameter(store.get(), "second.weight", kHidden, kDigits),
                              parameter(store.get(), "second.bias", kDigits, 1)};
    const ggml_backend_buffer_ptr memory(ggml_backend_alloc_ctx_tensors(store.get(), cpu.get()));
    for (ggml_tensor* tensor : weights) fill(random, tensor);

    // What is computed: two layers.
    const ggml_context_ptr model(ggml_init({16 * ggml_tensor_overhead(), nullptr, true}));
    ggml_context* c = model.get();
    ggml_tensor* hidden = ggml_relu(c, ggml_add(c, ggml_mul_mat(c, weights[0], x), weights[1]));
    ggml_tensor* scores = ggml_add(c, ggml_mul_mat(c, weights[2], hidden), weights[3]);

    ggml_opt_params params = ggml_opt_default_params(sched.get(), GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
    params.ctx_compute = c;
    params.inputs = x;
    params.outputs = scores;
    ggml_opt_context_t training = ggml_opt_init(params);
    ggml_opt_dataset_t digits = draw_dataset(random);
    ggml_opt_result_t learned = ggml_opt_result_init(), tested = ggml_opt_result_init();
    std::vector<double> learning(kEpochs), unseen(kEpochs);
    double accuracy = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        ggml_opt_dataset_shuffle(training, digits, kTrain);
        for (ggml_opt_result_t result : {learned, tested}) ggml_opt_result_reset(result);
        ggml_opt_epoch(training, digits, learned, tested, kTrain, nullptr, nullptr);
        ggml_opt_result_loss(learned, &learning[epoch], nullptr);
        ggml_opt_result_loss(tested, &unseen[epoch], nullptr);
        ggml_opt_result_accuracy(tested, &accuracy, nullptr);
        std::printf("epoch %2d: loss %.4f, on new digits %.4f, %.2f %% of them right\n", epoch + 1,
                    learning[epoch], unseen[epoch], 100 * accuracy);
    }
    std::printf("accuracy on %d new digits: %.2f %%\n", kNew, 100 * accuracy);
    const bool saved = write_model(argc > 1 ? argv[1] : "digits.gguf", store.get());
    const bool drawn = write_svg(
        argc > 2 ? argv[2] : "loss.svg",
        {{"loss while learning", "#2a6fdb", learning}, {"loss on new digits", "#d9622b", unseen}});
    for (ggml_opt_result_t result : {learned, tested}) ggml_opt_result_free(result);
    ggml_opt_dataset_free(digits);
    ggml_opt_free(training);
    return saved && drawn && accuracy > 0.9 ? 0 : 1;
}
