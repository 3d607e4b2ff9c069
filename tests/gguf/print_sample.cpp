// Prints what a model file holds as JSON: {"version", "alignment", "values", "tensors"}.
//
//   print_sample FILE
#include <cstdint>
#include <cstdio>

#include "ggml.h"
#include "gguf.h"

namespace {

void print_string(const char* text) {
    std::putchar('"');
    for (; *text != '\0'; ++text) {
        const auto c = static_cast<unsigned char>(*text);
        if (c == '"' || c == '\\') std::putchar('\\');
        if (c < ' ') {
            std::printf("\\u%04x", c);
        } else {
            std::putchar(c);
        }
    }
    std::putchar('"');
}

template <class T>
T element(const void* data, std::size_t i) {
    return static_cast<const T*>(data)[i];
}

void print_number(gguf_type type, const void* data, std::size_t i) {
    switch (type) {
        case GGUF_TYPE_UINT8:
            std::printf("%u", element<std::uint8_t>(data, i));
            break;
        case GGUF_TYPE_INT8:
            std::printf("%d", element<std::int8_t>(data, i));
            break;
        case GGUF_TYPE_UINT16:
            std::printf("%u", element<std::uint16_t>(data, i));
            break;
        case GGUF_TYPE_INT16:
            std::printf("%d", element<std::int16_t>(data, i));
            break;
        case GGUF_TYPE_UINT32:
            std::printf("%u", element<std::uint32_t>(data, i));
            break;
        case GGUF_TYPE_INT32:
            std::printf("%d", element<std::int32_t>(data, i));
            break;
        case GGUF_TYPE_UINT64:
            std::printf("%llu", static_cast<unsigned long long>(element<std::uint64_t>(data, i)));
            break;
        case GGUF_TYPE_INT64:
            std::printf("%lld", static_cast<long long>(element<std::int64_t>(data, i)));
            break;
        case GGUF_TYPE_FLOAT32:
            std::printf("%.17g", element<float>(data, i));
            break;
        case GGUF_TYPE_FLOAT64:
            std::printf("%.17g", element<double>(data, i));
            break;
        case GGUF_TYPE_BOOL:
            std::printf(element<bool>(data, i) ? "true" : "false");
            break;
        default:
            std::printf("null");
    }
}

void print_value(const gguf_context* file, std::int64_t id) {
    const bool is_array = gguf_get_kv_type(file, id) == GGUF_TYPE_ARRAY;
    const gguf_type type = is_array ? gguf_get_arr_type(file, id) : gguf_get_kv_type(file, id);
    std::printf("{\"type\": \"%s\", \"value\": ", gguf_type_name(gguf_get_kv_type(file, id)));
    if (is_array) std::putchar('[');
    for (std::size_t i = 0; i < gguf_get_arr_n(file, id); ++i) {
        if (i > 0) std::printf(", ");
        if (type == GGUF_TYPE_STRING) {
            print_string(gguf_get_arr_str(file, id, i));
        } else {
            print_number(type, gguf_get_arr_data(file, id), i);
        }
    }
    std::printf(is_array ? "]}" : "}");
}

void print_tensor(const gguf_context* file, std::int64_t id, const ggml_tensor* tensor) {
    const std::int64_t* n = gguf_get_tensor_ne(file, id);
    std::printf("{\"name\": ");
    print_string(gguf_get_tensor_name(file, id));
    std::printf(
        ", \"type\": %d, \"shape\": [%lld, %lld, %lld, %lld], \"offset\": %zu, \"data\": \"",
        static_cast<int>(gguf_get_tensor_type(file, id)), static_cast<long long>(n[0]),
        static_cast<long long>(n[1]), static_cast<long long>(n[2]), static_cast<long long>(n[3]),
        gguf_get_data_offset(file) + gguf_get_tensor_offset(file, id));
    const auto* bytes = static_cast<const unsigned char*>(ggml_get_data(tensor));
    for (std::size_t i = 0; i < gguf_get_tensor_size(file, id); ++i) std::printf("%02x", bytes[i]);
    std::printf("\"}");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: print_sample FILE\n");
        return 2;
    }
    ggml_context* context = nullptr;
    gguf_context* file = gguf_init_from_file(argv[1], {.no_alloc = false, .ctx = &context});
    if (file == nullptr) return 1;  // the library has said why

    std::printf("{\"version\": %u, \"alignment\": %zu, \"values\": {", gguf_get_version(file),
                gguf_get_alignment(file));
    for (std::int64_t id = 0; id < gguf_get_n_kv(file); ++id) {
        if (id > 0) std::printf(", ");
        print_string(gguf_get_key(file, id));
        std::printf(": ");
        print_value(file, id);
    }
    std::printf("}, \"tensors\": [");
    for (std::int64_t id = 0; id < gguf_get_n_tensors(file); ++id) {
        if (id > 0) std::printf(", ");
        print_tensor(file, id, ggml_get_tensor(context, gguf_get_tensor_name(file, id)));
    }
    std::printf("]}\n");
    gguf_free(file);
    ggml_free(context);
    return 0;
}
