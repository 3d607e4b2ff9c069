/// The scheduler that measures first and allocates then: included by ggml-backend-2024.h.
///
/// A program of then measured its largest graph, placed inputs of each graph by hand, and computed:
///
///     ggml_backend_sched_init_measure(sched, largest);
///     for each graph:
///         ggml_backend_sched_reset(sched);
///         ggml_tallocr_alloc(ggml_backend_sched_get_tallocr(sched, backend), input);
///         ggml_backend_tensor_set(input, ...);
///         ggml_backend_sched_graph_compute(sched, graph);
///
/// Today's scheduler does the planning. What it does not have is kept beside it: memory for inputs
/// that are placed by hand, and pins that last over several graphs.
#pragma once

#include "../../ggml-alloc.h"
#include "../../ggml-backend.h"
#include "../../ggml/op_list.h"
#include "../heddle.h"
#include "shared.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Places tensors by hand.
typedef struct ggml_tallocr* ggml_tallocr_t;

/// Memory on one stream for tensors placed by hand.
///
/// While it is only measured, the allocator's `buffer` is NULL, `base` is the buffer type, and
/// `offset` counts.
struct heddle_2024_place {
    struct ggml_tallocr tallocr;
    ggml_backend_buffer_t buffer;
    size_t size;     ///< What the largest graph needs, in bytes.
    size_t start;    ///< The first offset.
    bool is_in_use;  ///< The program has asked for it.
};

/// Who shall compute a node.
struct heddle_2024_pin {
    struct ggml_tensor* node;
    ggml_backend_t backend;
};

/// What a scheduler of then had beyond today's.
struct heddle_2024_sched {
    ggml_backend_sched_t sched;
    struct heddle_2024_place* places;  ///< One for each stream.
    struct heddle_2024_pin* pins;
    size_t n_pins;
    size_t room_for_pins;
    const struct ggml_cgraph* graph;  ///< The one that is allocated now.
    bool is_measured;
    struct heddle_2024_sched* next;
};

HEDDLE_2024_SHARED struct heddle_2024_sched* heddle_2024_scheds = NULL;

/// What is kept beside `sched`; NULL if it was made by today's function.
static inline struct heddle_2024_sched* heddle_2024_beside(ggml_backend_sched_t sched) {
    struct heddle_2024_sched* beside = heddle_2024_scheds;
    while (beside != NULL && beside->sched != sched) beside = beside->next;
    return beside;
}

/// Where tensors are placed by hand on `backend`; NULL if it is no stream of the scheduler.
static inline struct heddle_2024_place* heddle_2024_place(ggml_backend_sched_t sched,
                                                          ggml_backend_t backend) {
    struct heddle_2024_sched* const beside = heddle_2024_beside(sched);
    const int count = beside != NULL ? ggml_backend_sched_get_n_backends(sched) : 0;
    int i;
    for (i = 0; i < count; ++i) {
        if (ggml_backend_sched_get_backend(sched, i) == backend) return &beside->places[i];
    }
    heddle_report_error("the stream is none of this scheduler's");
    return NULL;
}

static inline void heddle_2024_sched_free(ggml_backend_sched_t sched) {
    struct heddle_2024_sched** link = &heddle_2024_scheds;
    while (*link != NULL && (*link)->sched != sched) link = &(*link)->next;
    if (sched != NULL && *link != NULL) {
        struct heddle_2024_sched* const beside = *link;
        int i;
        for (i = 0; i < ggml_backend_sched_get_n_backends(sched); ++i) {
            ggml_backend_buffer_free(beside->places[i].buffer);
        }
        *link = beside->next;
        free(beside->places);
        free(beside->pins);
        free(beside);
    }
    ggml_backend_sched_free(sched);
}

/// A scheduler; `bufts` may be NULL. NULL if the streams do not fit together, or without memory.
static inline ggml_backend_sched_t heddle_2024_sched_new(ggml_backend_t* backends,
                                                         ggml_backend_buffer_type_t* bufts,
                                                         int n_backends, size_t graph_size) {
    const ggml_backend_sched_t sched =
        ggml_backend_sched_new(backends, bufts, n_backends, graph_size, false, false);
    struct heddle_2024_sched* beside;
    int i;
    if (sched == NULL) return NULL;
    beside = (struct heddle_2024_sched*)calloc(1, sizeof(struct heddle_2024_sched));
    if (beside != NULL) {
        beside->places =
            (struct heddle_2024_place*)calloc((size_t)n_backends, sizeof(struct heddle_2024_place));
    }
    if (beside == NULL || beside->places == NULL) {
        free(beside);
        ggml_backend_sched_free(sched);
        heddle_report_error("ggml_backend_sched_new: no memory for the scheduler");
        return NULL;
    }
    for (i = 0; i < n_backends; ++i) {
        const ggml_backend_buffer_type_t buft =
            ggml_backend_sched_get_buffer_type(sched, backends[i]);
        beside->places[i].tallocr.base = buft;
        beside->places[i].tallocr.alignment = ggml_backend_buft_get_alignment(buft);
    }
    beside->sched = sched;
    beside->next = heddle_2024_scheds;
    heddle_2024_scheds = beside;
    return sched;
}

/// The same as generation 1 had it.
static inline ggml_backend_sched_t heddle_2024_sched_new_of_streams(ggml_backend_t* backends,
                                                                    int n_backends) {
    return heddle_2024_sched_new(backends, NULL, n_backends, GGML_DEFAULT_GRAPH_SIZE);
}

// ------------------------------------------------------------------------------------------------
// Memory for tensors placed by hand

/// ggml_tallocr_alloc(), which only counts while a scheduler has not measured: then the tensor
/// stays without memory.
static inline enum ggml_status heddle_2024_tallocr_alloc(struct ggml_tallocr* talloc,
                                                         struct ggml_tensor* tensor) {
    if (talloc->buffer != NULL) return ggml_tallocr_alloc(talloc, tensor);
    talloc->offset +=
        GGML_PAD(ggml_backend_buft_get_alloc_size((ggml_backend_buffer_type_t)talloc->base, tensor),
                 talloc->alignment);
    return GGML_STATUS_SUCCESS;
}

/// Whether `tensor`, a source of node `n` of `graph`, is an input without memory that no node
/// before has.
static inline bool heddle_2024_is_new_input(struct ggml_cgraph* graph, int n, int source) {
    const struct ggml_tensor* const tensor = ggml_graph_node(graph, n)->src[source];
    int i, j;
    if (tensor == NULL || tensor->op != GGML_OP_NONE) return false;
    if (tensor->data != NULL || tensor->view_src != NULL) return false;
    for (i = 0; i <= n; ++i) {
        const struct ggml_tensor* const node = ggml_graph_node(graph, i);
        for (j = 0; j < (i < n ? GGML_MAX_SRC : source); ++j) {
            if (node->src[j] == tensor) return false;
        }
    }
    return true;
}

/// Bytes for all inputs of `graph` that have no memory, if they were placed in `buft`.
static inline size_t heddle_2024_input_size(struct ggml_cgraph* graph,
                                            ggml_backend_buffer_type_t buft) {
    const size_t alignment = ggml_backend_buft_get_alignment(buft);
    size_t size = 0;
    int n, source;
    for (n = 0; n < ggml_graph_n_nodes(graph); ++n) {
        for (source = 0; source < GGML_MAX_SRC; ++source) {
            if (!heddle_2024_is_new_input(graph, n, source)) continue;
            size += GGML_PAD(
                ggml_backend_buft_get_alloc_size(buft, ggml_graph_node(graph, n)->src[source]),
                alignment);
        }
    }
    return size;
}

/// Gets the memory of a place that was measured; false without.
static inline bool heddle_2024_furnish(struct heddle_2024_place* place) {
    if (place->buffer != NULL || place->size == 0) return true;
    // One alignment more: a buffer need not begin at a multiple of it.
    place->buffer = ggml_backend_buft_alloc_buffer((ggml_backend_buffer_type_t)place->tallocr.base,
                                                   place->size + place->tallocr.alignment);
    if (place->buffer == NULL) return false;
    place->tallocr = ggml_tallocr_new(place->buffer);
    place->start = place->tallocr.offset;
    return true;
}

/// Plans the largest graph there will be, and gets memory for it. False without memory. Pins hold
/// for this graph alone.
static inline bool ggml_backend_sched_init_measure(ggml_backend_sched_t sched,
                                                   struct ggml_cgraph* measure_graph) {
    struct heddle_2024_sched* const beside = heddle_2024_beside(sched);
    bool is_fine = ggml_backend_sched_reserve(sched, measure_graph);
    int i;
    if (beside == NULL) return is_fine;
    for (i = 0; i < ggml_backend_sched_get_n_backends(sched); ++i) {
        struct heddle_2024_place* const place = &beside->places[i];
        size_t inputs;
        if (place->buffer != NULL) continue;  // measured before
        inputs =
            heddle_2024_input_size(measure_graph, (ggml_backend_buffer_type_t)place->tallocr.base);
        if (place->tallocr.offset > place->size) place->size = place->tallocr.offset;
        if (inputs > place->size) place->size = inputs;
        place->tallocr.offset = 0;
        if (place->is_in_use && !heddle_2024_furnish(place)) is_fine = false;
    }
    beside->is_measured = true;
    beside->graph = NULL;
    beside->n_pins = 0;
    return is_fine;
}

/// Who places tensors by hand in memory of `backend`, anew after every reset. NULL if that is no
/// stream of the scheduler.
static inline ggml_tallocr_t ggml_backend_sched_get_tallocr(ggml_backend_sched_t sched,
                                                            ggml_backend_t backend) {
    struct heddle_2024_place* const place = heddle_2024_place(sched, backend);
    if (place == NULL) return NULL;
    place->is_in_use = true;
    if (heddle_2024_beside(sched)->is_measured) heddle_2024_furnish(place);
    return &place->tallocr;
}

/// That memory; NULL until the scheduler has measured, or if no graph has inputs to place.
static inline ggml_backend_buffer_t ggml_backend_sched_get_buffer(ggml_backend_sched_t sched,
                                                                  ggml_backend_t backend) {
    const ggml_tallocr_t tallocr = ggml_backend_sched_get_tallocr(sched, backend);
    return tallocr != NULL ? tallocr->buffer : NULL;
}

// ------------------------------------------------------------------------------------------------
// Graphs

/// Forgets the graph, all pins, and what was placed by hand.
static inline void heddle_2024_sched_reset(ggml_backend_sched_t sched) {
    struct heddle_2024_sched* const beside = heddle_2024_beside(sched);
    int i;
    ggml_backend_sched_reset(sched);
    if (beside == NULL) return;
    for (i = 0; i < ggml_backend_sched_get_n_backends(sched); ++i) {
        struct heddle_2024_place* const place = &beside->places[i];
        if (place->tallocr.buffer == NULL && place->tallocr.offset > place->size) {
            place->size = place->tallocr.offset;
        }
        place->tallocr.offset = place->start;
    }
    beside->n_pins = 0;
    beside->graph = NULL;
}

/// Decides that `backend` computes `node`, in every graph until the next reset.
static inline void ggml_backend_sched_set_node_backend(ggml_backend_sched_t sched,
                                                       struct ggml_tensor* node,
                                                       ggml_backend_t backend) {
    struct heddle_2024_sched* const beside = heddle_2024_beside(sched);
    ggml_backend_sched_set_tensor_backend(sched, node, backend);
    if (beside == NULL) return;
    if (beside->n_pins == beside->room_for_pins) {
        const size_t room = 2 * beside->room_for_pins + 16;
        struct heddle_2024_pin* const pins =
            (struct heddle_2024_pin*)realloc(beside->pins, room * sizeof(struct heddle_2024_pin));
        if (pins == NULL) {
            heddle_report_error("ggml_backend_sched_set_node_backend: no memory for another pin");
            return;
        }
        beside->pins = pins;
        beside->room_for_pins = room;
    }
    beside->pins[beside->n_pins].node = node;
    beside->pins[beside->n_pins].backend = backend;
    ++beside->n_pins;
    beside->graph = NULL;
}

/// Who computes `node`; NULL if that is not decided.
static inline ggml_backend_t ggml_backend_sched_get_node_backend(ggml_backend_sched_t sched,
                                                                 struct ggml_tensor* node) {
    return ggml_backend_sched_get_tensor_backend(sched, node);
}

/// Decides who computes what, gets memory and computes `graph`, and waits: also when another graph
/// ran before and there was no reset.
static inline enum ggml_status heddle_2024_sched_graph_compute(ggml_backend_sched_t sched,
                                                               struct ggml_cgraph* graph) {
    struct heddle_2024_sched* const beside = heddle_2024_beside(sched);
    enum ggml_status status;
    size_t i;
    if (beside != NULL && beside->graph != graph) {
        ggml_backend_sched_reset(sched);
        for (i = 0; i < beside->n_pins; ++i) {
            ggml_backend_sched_set_tensor_backend(sched, beside->pins[i].node,
                                                  beside->pins[i].backend);
        }
    }
    status = ggml_backend_sched_graph_compute(sched, graph);
    if (beside != NULL) beside->graph = status == GGML_STATUS_SUCCESS ? graph : NULL;
    return status;
}

#ifdef __cplusplus
}
#endif

#define ggml_tallocr_alloc heddle_2024_tallocr_alloc
#define ggml_backend_sched_free heddle_2024_sched_free
#define ggml_backend_sched_reset heddle_2024_sched_reset
#define ggml_backend_sched_graph_compute heddle_2024_sched_graph_compute
#if HEDDLE_2024_GENERATION == 1
#define ggml_backend_sched_new heddle_2024_sched_new_of_streams
#else
#define ggml_backend_sched_new heddle_2024_sched_new
#endif
