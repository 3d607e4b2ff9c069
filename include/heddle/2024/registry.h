/// The registry by index: included by ggml-backend-2024.h.
///
/// An entry is a device of today, or what a program registered itself. The processor comes first,
/// then the other devices in today's order, then the program's own.
#pragma once

#include <stdint.h>

#include "../../ggml-backend.h"
#include "../heddle.h"
#include "shared.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Starts a stream; `user_data` is what was registered with it.
typedef ggml_backend_t (*ggml_backend_init_fn)(const char* params, void* user_data);

/// What a program registered.
struct heddle_2024_entry {
    char* name;
    ggml_backend_init_fn init_fn;
    ggml_backend_buffer_type_t default_buffer_type;
    void* user_data;
    struct heddle_2024_entry* next;
};

HEDDLE_2024_SHARED struct heddle_2024_entry* heddle_2024_entries = NULL;

/// Adds an entry at the end. The name is copied.
static inline void heddle_2024_register(const char* name, ggml_backend_init_fn init_fn,
                                        ggml_backend_buffer_type_t default_buffer_type,
                                        void* user_data) {
    struct heddle_2024_entry** end = &heddle_2024_entries;
    struct heddle_2024_entry* entry =
        (struct heddle_2024_entry*)malloc(sizeof(struct heddle_2024_entry));
    char* copy = (char*)malloc(strlen(name) + 1);
    if (entry == NULL || copy == NULL) {
        free(entry);
        free(copy);
        heddle_report_error("ggml_backend_register: no memory for another entry");
        return;
    }
    strcpy(copy, name);
    entry->name = copy;
    entry->init_fn = init_fn;
    entry->default_buffer_type = default_buffer_type;
    entry->user_data = user_data;
    entry->next = NULL;
    while (*end != NULL) end = &(*end)->next;
    *end = entry;
}

/// The device that is entry number `index`; NULL if that is none.
static inline ggml_backend_dev_t heddle_2024_device(size_t index) {
    const size_t count = ggml_backend_dev_count();
    int pass;
    size_t i;
    for (pass = 0; pass < 2; ++pass) {
        for (i = 0; i < count; ++i) {
            const ggml_backend_dev_t device = ggml_backend_dev_get(i);
            const bool is_cpu = ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU;
            if (is_cpu != (pass == 0)) continue;
            if (index == 0) return device;
            --index;
        }
    }
    return NULL;
}

/// What the program registered as entry number `index`; NULL if that is none.
static inline const struct heddle_2024_entry* heddle_2024_entry_at(size_t index) {
    const size_t count = ggml_backend_dev_count();
    const struct heddle_2024_entry* entry = heddle_2024_entries;
    if (index < count) return NULL;
    for (index -= count; entry != NULL && index > 0; --index) entry = entry->next;
    if (entry == NULL) heddle_report_error("the registry has no entry of this number");
    return entry;
}

/// Number of entries.
static inline size_t ggml_backend_reg_get_count(void) {
    size_t count = ggml_backend_dev_count();
    const struct heddle_2024_entry* entry = heddle_2024_entries;
    for (; entry != NULL; entry = entry->next) ++count;
    return count;
}

/// Name of entry `i`; NULL if there is none.
static inline const char* ggml_backend_reg_get_name(size_t i) {
    const ggml_backend_dev_t device = heddle_2024_device(i);
    const struct heddle_2024_entry* entry;
    if (device != NULL) return ggml_backend_dev_name(device);
    entry = heddle_2024_entry_at(i);
    return entry != NULL ? entry->name : NULL;
}

/// The first entry of exactly that name; SIZE_MAX if there is none.
static inline size_t ggml_backend_reg_find_by_name(const char* name) {
    const size_t count = ggml_backend_reg_get_count();
    size_t i;
    for (i = 0; i < count; ++i) {
        const char* const entry = ggml_backend_reg_get_name(i);
        if (entry != NULL && strcmp(entry, name) == 0) return i;
    }
    return SIZE_MAX;
}

/// A stream of entry `i`, which the caller owns; NULL if there is none or it does not start.
static inline ggml_backend_t ggml_backend_reg_init_backend(size_t i, const char* params) {
    const ggml_backend_dev_t device = heddle_2024_device(i);
    const struct heddle_2024_entry* entry;
    if (device != NULL) return ggml_backend_dev_init(device, params);
    entry = heddle_2024_entry_at(i);
    return entry != NULL ? entry->init_fn(params, entry->user_data) : NULL;
}

/// A stream by "name" or "name:params". NULL, with a message, if nothing has that name.
static inline ggml_backend_t ggml_backend_reg_init_backend_from_str(const char* backend_str) {
    const char* const colon = strchr(backend_str, ':');
    const size_t length = colon != NULL ? (size_t)(colon - backend_str) : strlen(backend_str);
    const size_t count = ggml_backend_reg_get_count();
    ggml_backend_dev_t device;
    size_t i;
    for (i = 0; i < count; ++i) {
        const char* const entry = ggml_backend_reg_get_name(i);
        if (entry == NULL || strlen(entry) != length) continue;
        if (strncmp(entry, backend_str, length) != 0) continue;
        return ggml_backend_reg_init_backend(i, colon != NULL ? colon + 1 : "");
    }
    // Plug-ins that are loaded when they are asked for take the whole text.
    device = ggml_backend_dev_by_name(backend_str);
    if (device != NULL) return ggml_backend_dev_init(device, NULL);
    heddle_report_error("ggml_backend_reg_init_backend_from_str: no backend has this name");
    return NULL;
}

/// The buffer type that entry `i` prefers; NULL if there is no such entry.
static inline ggml_backend_buffer_type_t ggml_backend_reg_get_default_buffer_type(size_t i) {
    const ggml_backend_dev_t device = heddle_2024_device(i);
    const struct heddle_2024_entry* entry;
    if (device != NULL) return ggml_backend_dev_buffer_type(device);
    entry = heddle_2024_entry_at(i);
    return entry != NULL ? entry->default_buffer_type : NULL;
}

/// A buffer of that type, which the caller owns; NULL without memory.
static inline ggml_backend_buffer_t ggml_backend_reg_alloc_buffer(size_t i, size_t size) {
    const ggml_backend_buffer_type_t buft = ggml_backend_reg_get_default_buffer_type(i);
    return buft != NULL ? ggml_backend_buft_alloc_buffer(buft, size) : NULL;
}

// ------------------------------------------------------------------------------------------------
// Backends once added their devices when they were told to. Today they are there from the
// beginning, or once their plug-in is loaded, so these only say how many there are.

static inline int heddle_2024_device_count(const char* registration) {
    const ggml_backend_reg_t reg = ggml_backend_reg_by_name(registration);
    return reg != NULL ? (int)ggml_backend_reg_dev_count(reg) : 0;
}

static inline int ggml_backend_cuda_reg_devices(void) { return heddle_2024_device_count("CUDA"); }
static inline int ggml_backend_sycl_reg_devices(void) { return heddle_2024_device_count("SYCL"); }
static inline int ggml_backend_vk_reg_devices(void) { return heddle_2024_device_count("Vulkan"); }
static inline int ggml_backend_kompute_reg_devices(void) {
    return heddle_2024_device_count("Kompute");
}

/// A stream of the first Metal device; NULL if there is none.
static inline ggml_backend_t ggml_backend_reg_metal_init(const char* params, void* user_data) {
    (void)user_data;
    if (heddle_2024_device_count("Metal") == 0) return NULL;
    return ggml_backend_dev_init(ggml_backend_reg_dev_get(ggml_backend_reg_by_name("Metal"), 0),
                                 params);
}

#ifdef __cplusplus
}
#endif

#define ggml_backend_register heddle_2024_register
