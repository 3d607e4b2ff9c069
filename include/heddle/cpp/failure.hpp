/// How failures of the C API become values. Part of `heddle/heddle.hpp`.
#pragma once

#include <string_view>

#include "../../ggml.h"
#include "../heddle.h"
#include "../result.hpp"

namespace heddle::api::detail {

/// While it lives, functions of the C API that this thread calls return instead of stopping the
/// program.
class Returning {
public:
    Returning() : before_(heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN)) {}
    ~Returning() { heddle_set_thread_error_mode(before_); }
    Returning(const Returning&) = delete;
    Returning& operator=(const Returning&) = delete;

private:
    enum heddle_error_mode before_;
};

/// What the C API just said went wrong.
inline Error last_failure(Errc code, std::string_view otherwise) {
    const std::string_view said = heddle_last_error();
    return failure(code, said.empty() ? otherwise : said);
}

/// Calls the C API so that it returns; forgets what failed before.
template <class Call>
auto call(const Call& function) {
    const Returning returning;
    heddle_clear_error();
    return function();
}

/// Fails if the C API has reported something since `call` began.
inline Result<> check_said(Errc code) {
    const std::string_view said = heddle_last_error();
    if (!said.empty()) return failure(code, said);
    return ok();
}

/// A status of the C API as a value.
inline Result<> from(ggml_status status) {
    if (status == GGML_STATUS_SUCCESS) return ok();
    const Errc code = status == GGML_STATUS_ALLOC_FAILED ? Errc::out_of_memory
                      : status == GGML_STATUS_ABORTED    ? Errc::aborted
                                                         : Errc::device;
    return last_failure(code, ggml_status_to_string(status));
}

}  // namespace heddle::api::detail
