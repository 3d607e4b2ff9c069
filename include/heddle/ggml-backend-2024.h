/// The names of the two generations of ggml's backend API before today's, for programs of 2023 and
/// 2024.
///
/// Include this instead of `ggml-backend.h`, after all other headers: where a name is still in use
/// with other arguments, a macro leads it to the old form. `HEDDLE_2024_GENERATION` chooses which:
///
///     2   buffer types and the first registry: the default
///     1   the one before: a buffer belongs to a backend, and a scheduler is made of streams alone
///
/// Both have all names that one of them had; the number decides only where they clash:
///
/// | name                               | 1                     | 2                            |
/// | ---------------------------------- | --------------------- | ---------------------------- |
/// | `ggml_backend_sched_new`           | backends, n           | backends, bufts, n, size     |
/// | `ggml_backend_tensor_set_async`    | tensor, ...           | backend, tensor, ... (today) |
/// | `ggml_backend_tensor_get_async`    | tensor, ...           | backend, tensor, ... (today) |
/// | `ggml_backend_cpu_buffer_from_ptr` | backend_cpu, ptr, size | ptr, size (today)           |
///
/// Handles are today's, so every function of today can be called with them, too. What these
/// functions remember is kept for the whole program; one thread at a time may call them, as then.
/// `HEDDLE_2024_GENERATION` must be the same in all files that pass buffers to each other.
#pragma once

#ifndef HEDDLE_2024_GENERATION
#define HEDDLE_2024_GENERATION 2
#endif
#if HEDDLE_2024_GENERATION != 1 && HEDDLE_2024_GENERATION != 2
#error "HEDDLE_2024_GENERATION is 1 or 2"
#endif

#include "../ggml-alloc.h"
#include "../ggml-backend.h"
#include "../ggml-cpu.h"
#include "cpu.h"
#include "heddle.h"
#include "sched.h"

// Above, today's names as they are; below, those of then in their place.
#include "2024/buffers.h"
#include "2024/registry.h"
#include "2024/sched.h"
#include "2024/streams.h"
