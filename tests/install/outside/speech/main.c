#include <ggml-cpu.h>

int speech_hears(void);

int main(void) { return speech_hears() == 10 && ggml_cpu_has_sse3() >= 0 ? 0 : 1; }
