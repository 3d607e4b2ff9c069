// Writes a model file with a value of every type and tensors of several shapes.
//
//   write_sample FILE [ALIGNMENT]
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "ggml.h"
#include "gguf.h"

namespace {

void set_values(gguf_context* file) {
    gguf_set_val_str(file, "general.architecture", "sample");
    gguf_set_val_u8(file, "value.u8", 200);
    gguf_set_val_i8(file, "value.i8", -100);
    gguf_set_val_u16(file, "value.u16", 60000);
    gguf_set_val_i16(file, "value.i16", -30000);
    gguf_set_val_u32(file, "value.u32", 4000000000u);
    gguf_set_val_i32(file, "value.i32", -2000000000);
    gguf_set_val_f32(file, "value.f32", 0.1f);
    gguf_set_val_u64(file, "value.u64", 18000000000000000000u);
    gguf_set_val_i64(file, "value.i64", -9000000000000000000);
    gguf_set_val_f64(file, "value.f64", 0.1);
    gguf_set_val_bool(file, "value.yes", true);
    gguf_set_val_bool(file, "value.no", false);
    gguf_set_val_str(file, "value.str",
                     "Gr\xc3\xbc\xc3\x9f"
                     "e");

    const std::array<std::int32_t, 5> numbers{1, -2, 3, -4, 5};
    const std::array<float, 3> fractions{0.5f, -0.25f, 1e30f};
    const std::array<std::int8_t, 3> truths{1, 0, 1};
    std::array<const char*, 3> words{"one", "", "three"};
    gguf_set_arr_data(file, "array.i32", GGUF_TYPE_INT32, numbers.data(), numbers.size());
    gguf_set_arr_data(file, "array.f32", GGUF_TYPE_FLOAT32, fractions.data(), fractions.size());
    gguf_set_arr_data(file, "array.bool", GGUF_TYPE_BOOL, truths.data(), truths.size());
    gguf_set_arr_str(file, "array.str", words.data(), words.size());
}

struct Shape {
    const char* name;
    ggml_type type;
    std::array<std::int64_t, 4> extents;
};

constexpr Shape kShapes[] = {
    {"vector", GGML_TYPE_F32, {7, 1, 1, 1}},   {"matrix", GGML_TYPE_F16, {5, 3, 1, 1}},
    {"blocks", GGML_TYPE_Q8_0, {64, 2, 1, 1}}, {"bytes", GGML_TYPE_I8, {1, 1, 1, 1}},
    {"deep", GGML_TYPE_I32, {2, 3, 4, 5}},     {"large_blocks", GGML_TYPE_Q4_K, {256, 1, 2, 1}},
};

void add_tensors(gguf_context* file, ggml_context* context) {
    for (const auto& [name, type, n] : kShapes) {
        ggml_tensor* tensor = ggml_new_tensor_4d(context, type, n[0], n[1], n[2], n[3]);
        ggml_set_name(tensor, name);
        auto* bytes = static_cast<unsigned char*>(ggml_get_data(tensor));
        for (std::size_t i = 0; i < ggml_nbytes(tensor); ++i) {
            bytes[i] = static_cast<unsigned char>(i * 7 % 60);  // no pattern here is a NaN
        }
        gguf_add_tensor(file, tensor);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: write_sample FILE [ALIGNMENT]\n");
        return 2;
    }
    gguf_context* file = gguf_init_empty();
    ggml_context* context =
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = false});
    set_values(file);
    add_tensors(file, context);
    if (argc > 2) {
        const auto alignment = static_cast<std::uint32_t>(std::atoi(argv[2]));
        gguf_set_val_u32(file, "general.alignment", alignment);
    }
    const bool written = gguf_write_to_file(file, argv[1], false);
    gguf_free(file);
    ggml_free(context);
    return written ? 0 : 1;
}
