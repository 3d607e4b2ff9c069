/// What statements in the documentation may take for granted.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "gguf.h"
#include "heddle/heddle.h"
#include "heddle/plugins.h"
#include "heddle/sched.h"

extern struct ggml_context* ctx;
extern struct ggml_tensor *a, *b, *w, *x, *y;
extern struct ggml_cgraph* graph;
extern ggml_backend_t accelerator, cpu, backend;
extern ggml_backend_sched_t sched;
extern const float* data;
