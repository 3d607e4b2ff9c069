// The entry point of a backend that is loaded as a plug-in. It is in no archive: a program that
// links several backends has none.
#define GGML_BACKEND_DL
#include "ggml-backend-impl.h"

extern "C" ggml_backend_reg_t HEDDLE_REGISTRATION(void);

GGML_BACKEND_DL_IMPL(HEDDLE_REGISTRATION)
