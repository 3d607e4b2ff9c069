// Every public header in one C11 program, and the macros that programs use.
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-blas.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml-opt.h"
#include "ggml-rpc.h"
#include "ggml-vulkan.h"
#include "ggml.h"
#include "gguf.h"
#include "heddle/heddle.h"

// Programs define a function of this name themselves, so public headers must not declare it.
static void ggml_log_callback_default(enum ggml_log_level level, const char* text,
                                      void* user_data) {
    GGML_UNUSED_VARS(level, text, user_data);
}

static int64_t sum_of_extents(const struct ggml_tensor* src0, const struct ggml_tensor* src1,
                              const struct ggml_tensor* src2, const struct ggml_tensor* dst) {
    GGML_TENSOR_TERNARY_OP_LOCALS
    return ne00 + ne01 + ne02 + ne03 + ne10 + ne20 + ne3 + (int64_t)(nb0 + nb00 + nb13 + nb23);
}

static int64_t extents_of_one(const struct ggml_tensor* src0, const struct ggml_tensor* dst) {
    GGML_TENSOR_UNARY_OP_LOCALS;
    return ne00 * ne01 + ne0;
}

int main(void) {
    struct ggml_tensor tensor = {.ne = {2, 3, 4, 5}, .nb = {4, 8, 24, 96}};
    const ggml_log_callback callback = ggml_log_callback_default;
    callback(GGML_LOG_LEVEL_INFO, "", NULL);

    if (GGML_TENSOR_SIZE != sizeof(struct ggml_tensor)) return 1;
    if (GGML_PAD(33, 32) != 64 || GGML_PAD(32, 32) != 32) return 2;
    // A pointer that is NULL gives zeros: here src1 and src2.
    if (sum_of_extents(&tensor, NULL, NULL, &tensor) != 2 + 3 + 4 + 5 + 5 + 4 + 4) return 3;
    if (extents_of_one(&tensor, &tensor) != 2 * 3 + 2) return 4;

    if (tensor.ne[0] == 2)
        GGML_ASSERT(tensor.ne[1] == 3);
    else
        return 5;
    return 0;
}
