/* A program that knows nothing but the installed package. */
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <gguf.h>
#include <stdio.h>

int main(void) {
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    if (cpu == NULL || !ggml_backend_is_cpu(cpu)) return 1;
    printf("%s runs on %s\n", ggml_version(), ggml_backend_name(cpu));
    ggml_backend_free(cpu);
    return 0;
}
