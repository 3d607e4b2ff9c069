/* A program of 2024, by the installed header of those names. */
#include <heddle/ggml-backend-2024.h>

int main(void) {
    ggml_backend_t cpu = ggml_backend_reg_init_backend_from_str("CPU");
    const int is_cpu = ggml_backend_is_cpu(cpu);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 16);
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
    return is_cpu && sched != NULL ? 0 : 1;
}
