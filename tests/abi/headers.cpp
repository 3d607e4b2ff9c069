// Every header, public and for plug-ins, in one C++17 program.
#include <type_traits>

#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-blas.h"
#include "ggml-common.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml-impl.h"
#include "ggml-opt.h"
#include "ggml-quants.h"
#include "ggml-rpc.h"
#include "ggml-threading.h"
#include "ggml-vulkan.h"
#include "ggml.h"
#include "gguf.h"
#include "heddle/heddle.h"

static_assert(sizeof(ggml_context_ptr) == sizeof(void*));
static_assert(sizeof(gguf_context_ptr) == sizeof(void*));
static_assert(sizeof(ggml_gallocr_ptr) == sizeof(void*));
static_assert(sizeof(ggml_backend_ptr) == sizeof(void*));
static_assert(sizeof(ggml_backend_buffer_ptr) == sizeof(void*));
static_assert(sizeof(ggml_backend_event_ptr) == sizeof(void*));
static_assert(sizeof(ggml_backend_sched_ptr) == sizeof(void*));

// Tensors and graphs live in plain memory that is reused without any clean-up.
static_assert(std::is_trivially_destructible_v<ggml_tensor>);
static_assert(std::is_trivially_copyable_v<ggml_tensor>);
static_assert(std::is_trivially_copyable_v<ggml_cgraph>);

int main() {
    const ggml_context_ptr nothing;
    return nothing == nullptr ? 0 : 1;
}
