/// What the other headers of this folder share.
#pragma once

#include <stdlib.h>
#include <string.h>

/// One object in the whole program, although every file that includes the header defines it.
#if defined(_MSC_VER)
#define HEDDLE_2024_SHARED __declspec(selectany)
#else
#define HEDDLE_2024_SHARED __attribute__((weak))
#endif

/// The calling convention that tables of functions once named.
#ifndef GGML_CALL
#define GGML_CALL
#endif
