// The boundary as C functions outside `ggml-base` see it: what became of a failure is known there,
// and this goes through its C API.

#include "core/boundary.hpp"
#include "heddle/heddle.h"

namespace heddle::capi {

void report(const Error& error) noexcept { heddle_report_error(error.message.c_str()); }
void fail(const Error& error) noexcept { heddle_fail(error.message.c_str()); }

}  // namespace heddle::capi
