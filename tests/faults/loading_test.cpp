// Model files and quantisation while calls to the system fail.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "ggml-cpp.h"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

constexpr std::int64_t kColumns = 64, kRows = 4;
constexpr std::size_t kValues = kColumns * kRows;
constexpr char kLongText[] = "a text that is long enough to need a block of memory of its own";

const std::array<float, kValues>& values() {
    static const std::array<float, kValues> made = [] {
        std::array<float, kValues> result;
        for (std::size_t i = 0; i < kValues; ++i) {
            result[i] = std::sin(static_cast<float>(i) * 0.3f);
        }
        return result;
    }();
    return made;
}

const char* file_name() {
    static const std::string name =
        testing::TempDir() + "heddle_faults_" + std::to_string(getpid()) + ".gguf";
    return name.c_str();
}

/// A model file in the making, with values of every kind and two tensors.
gguf_context_ptr make_model(Run& run, ggml_context* tensors) {
    gguf_context_ptr model(run.made("an empty model", [] { return gguf_init_empty(); }));
    gguf_context* file = model.get();
    run.done("a number", [&] { gguf_set_val_u32(file, "general.alignment", 32); });
    run.done("a text", [&] { gguf_set_val_str(file, "general.name", kLongText); });
    const std::int32_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
    run.done("an array", [&] { gguf_set_arr_data(file, "numbers", GGUF_TYPE_INT32, numbers, 8); });
    const char* texts[] = {kLongText, "short", kLongText};
    run.done("texts", [&] { gguf_set_arr_str(file, "texts", texts, 3); });
    for (const char* name : {"first.weight", "second.weight"}) {
        ggml_tensor* tensor = run.made("a tensor", [&] {
            return ggml_new_tensor_2d(tensors, GGML_TYPE_F32, kColumns, kRows);
        });
        ggml_set_name(tensor, name);
        std::memcpy(tensor->data, values().data(), sizeof values());
        run.done("adding a tensor", [&] { gguf_add_tensor(file, tensor); });
    }
    return model;
}

void check_model(Run& run, const gguf_context* file, const ggml_context* tensors) {
    run.expect("four values and two tensors",
               gguf_get_n_kv(file) == 4 && gguf_get_n_tensors(file) == 2);
    const std::int64_t name = gguf_find_key(file, "general.name");
    run.expect("the text is there", name >= 0);
    run.expect("the text is the same", std::strcmp(gguf_get_val_str(file, name), kLongText) == 0);
    const std::int64_t texts = gguf_find_key(file, "texts");
    run.expect("the texts are the same",
               texts >= 0 && std::strcmp(gguf_get_arr_str(file, texts, 2), kLongText) == 0);
    for (const char* tensor_name : {"first.weight", "second.weight"}) {
        const ggml_tensor* tensor =
            ggml_get_tensor(const_cast<ggml_context*>(tensors), tensor_name);
        run.expect("the tensor is there", tensor != nullptr && tensor->data != nullptr);
        run.expect("its data are the same",
                   std::memcmp(tensor->data, values().data(), sizeof values()) == 0);
    }
}

/// Reads a model with its data by `open`, which takes the parameters.
template <class Open>
void read_model(Run& run, Open&& open) {
    ggml_context* data = nullptr;
    const gguf_context_ptr model(run.made("reading", [&] {
        data = nullptr;
        return open(gguf_init_params{.no_alloc = false, .ctx = &data});
    }));
    const ggml_context_ptr tensors(data);
    check_model(run, model.get(), data);
}

ggml_context_ptr make_tensors(Run& run) {
    return ggml_context_ptr(run.made("a context for tensors", [] {
        return ggml_init({.mem_size = 1 << 14, .mem_buffer = nullptr, .no_alloc = false});
    }));
}

struct DeleteFile {
    ~DeleteFile() { unlink(file_name()); }
};

void write_and_read_file(Run& run) {
    const DeleteFile afterwards;
    const ggml_context_ptr tensors = make_tensors(run);
    const gguf_context_ptr model = make_model(run, tensors.get());
    run.worked("writing", [&] { return gguf_write_to_file(model.get(), file_name(), false); });
    read_model(run,
               [](gguf_init_params params) { return gguf_init_from_file(file_name(), params); });
}

TEST(Sweep, LoadingFiles) {
    file_name(), values();
    sweep(write_and_read_file);
}

void write_and_read_memory(Run& run) {
    alignas(64) static std::array<char, 8192> bytes;
    const ggml_context_ptr tensors = make_tensors(run);
    const gguf_context_ptr model = make_model(run, tensors.get());
    std::size_t size = 0;
    run.worked("measuring", [&] { return (size = gguf_get_meta_size(model.get())) > 0; });
    run.expect("there is room", size + 2 * sizeof values() <= bytes.size());
    run.done("writing", [&] { gguf_get_meta_data(model.get(), bytes.data()); });
    for (std::size_t i = 0; i < 2; ++i) {
        std::memcpy(bytes.data() + size + i * sizeof values(), values().data(), sizeof values());
    }
    read_model(run, [&](gguf_init_params params) {
        return gguf_init_from_buffer(bytes.data(), size + 2 * sizeof values(), params);
    });
    const gguf_context_ptr copy(run.made("another model", [] { return gguf_init_empty(); }));
    run.done("copying values", [&] { gguf_set_kv(copy.get(), model.get()); });
    run.expect("all values are copied", gguf_get_n_kv(copy.get()) == 4);
    run.done("removing a value", [&] { gguf_remove_key(copy.get(), "texts"); });
    run.expect("one is gone", gguf_get_n_kv(copy.get()) == 3);
}

TEST(Sweep, LoadingFromMemory) {
    values();
    sweep(write_and_read_memory);
}

void read_a_broken_file(Run& run) {
    // No tensors, and one key of more bytes than there are.
    alignas(64) static std::array<char, 64> bytes{'G', 'G', 'U', 'F', 3};
    bytes[16] = 1;
    bytes[24] = 100;
    const gguf_context_ptr model(
        gguf_init_from_buffer(bytes.data(), bytes.size(), {.no_alloc = true, .ctx = nullptr}));
    run.expect("nothing was read", model == nullptr);
    run.expect("the reason is told", *heddle_last_error() != '\0');
}

TEST(Sweep, LoadingWhatIsBroken) { sweep(read_a_broken_file); }

void quantize(Run& run) {
    constexpr std::int64_t kLong = 256;
    static std::array<float, kLong> weights, importance;
    static std::array<char, kLong * 4> encoded;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] = std::sin(static_cast<float>(i) * 0.7f);
        importance[i] = 1;
    }
    for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K,
                                 GGML_TYPE_IQ4_XS, GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ3_S}) {
        run.worked("quantisation", [&] {
            return ggml_quantize_chunk(type, weights.data(), encoded.data(), 0, 1, kLong,
                                       importance.data()) == ggml_row_size(type, kLong);
        });
        run.worked("checking", [&] {
            return ggml_validate_row_data(type, encoded.data(), ggml_row_size(type, kLong));
        });
    }
    ggml_quantize_free();
}

TEST(Sweep, Quantizing) { sweep(quantize); }

}  // namespace
}  // namespace heddle::faults
