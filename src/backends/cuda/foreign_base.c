// The part of ggml's base library that the plug-in uses, written against its interface alone: it
// has none of Heddle's functions. plugin_test loads the plug-in over it.

#include <stdlib.h>
#include <string.h>

#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "ggml/op_list.h"

static void drop_line(enum ggml_log_level level, const char* text, void* data) {
    (void)level, (void)text, (void)data;
}

void ggml_log_get(ggml_log_callback* log_callback, void** user_data) {
    *log_callback = drop_line;
    *user_data = NULL;
}

int ggml_graph_n_nodes(struct ggml_cgraph* cgraph) { return cgraph->n_nodes; }
struct ggml_tensor* ggml_graph_node(struct ggml_cgraph* cgraph, int i) {
    return cgraph->nodes[i];
}

bool ggml_is_empty(const struct ggml_tensor* tensor) {
    for (int d = 0; d < GGML_MAX_DIMS; ++d) {
        if (tensor->ne[d] == 0) return true;
    }
    return false;
}

int64_t ggml_nelements(const struct ggml_tensor* tensor) {
    return tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
}

void ggml_backend_synchronize(ggml_backend_t backend) { backend->iface.synchronize(backend); }

const char* ggml_type_name(enum ggml_type type) { return type == GGML_TYPE_F32 ? "f32" : "?"; }
const char* ggml_op_name(enum ggml_op op) { return op == GGML_OP_ADD ? "ADD" : "?"; }

ggml_backend_buffer_t ggml_backend_buffer_init(ggml_backend_buffer_type_t buft,
                                               struct ggml_backend_buffer_i iface, void* context,
                                               size_t size) {
    ggml_backend_buffer_t buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) return NULL;
    buffer->iface = iface;
    buffer->buft = buft;
    buffer->context = context;
    buffer->size = size;
    return buffer;
}

bool ggml_backend_buffer_is_host(ggml_backend_buffer_t buffer) {
    return buffer->buft->iface.is_host != NULL && buffer->buft->iface.is_host(buffer->buft);
}

ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t buft, size_t size) {
    return buft->iface.alloc_buffer(buft, size);
}

// ---- memory of the host ------------------------------------------------------------------------

static const char* host_name(ggml_backend_buffer_type_t buft) {
    (void)buft;
    return "CPU";
}
static size_t host_alignment(ggml_backend_buffer_type_t buft) {
    (void)buft;
    return 32;
}
static bool host_is_host(ggml_backend_buffer_type_t buft) {
    (void)buft;
    return true;
}
static void* host_base(ggml_backend_buffer_t buffer) { return buffer->context; }
static void host_free(ggml_backend_buffer_t buffer) { free(buffer->context); }
static void host_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    memset(buffer->context, value, buffer->size);
}
static ggml_backend_buffer_t host_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    struct ggml_backend_buffer_i table = {0};
    table.free_buffer = host_free;
    table.get_base = host_base;
    table.clear = host_clear;
    return ggml_backend_buffer_init(buft, table, aligned_alloc(32, (size + 31) / 32 * 32), size);
}

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void) {
    static struct ggml_backend_buffer_type type;
    type.iface.get_name = host_name;
    type.iface.alloc_buffer = host_alloc;
    type.iface.get_alignment = host_alignment;
    type.iface.is_host = host_is_host;
    return &type;
}
