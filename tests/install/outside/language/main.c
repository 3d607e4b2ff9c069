/* A file written and read, types converted, the registry asked: one call into each library. */
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <gguf.h>

int main(void) {
    struct gguf_context* file = gguf_init_empty();
    gguf_set_val_u32(file, "layers", 7);
    const int64_t key = gguf_find_key(file, "layers");
    const int is_there = key >= 0 && gguf_get_val_u32(file, key) == 7;
    gguf_free(file);
    ggml_cpu_init();
    return is_there && ggml_backend_reg_count() > 0 && ggml_blck_size(GGML_TYPE_Q4_0) == 32 ? 0 : 1;
}
