#include "runtime/status.hpp"

namespace heddle {

std::string_view name_of(Status status) {
    switch (status) {
        case GGML_STATUS_ALLOC_FAILED:
            return "ALLOC_FAILED";
        case GGML_STATUS_FAILED:
            return "FAILED";
        case GGML_STATUS_SUCCESS:
            return "SUCCESS";
        case GGML_STATUS_ABORTED:
            return "ABORTED";
    }
    return "unknown";
}

Result<> from_status(Status status, std::string_view what) {
    if (status == GGML_STATUS_SUCCESS) return ok();
    const Errc code = status == GGML_STATUS_ALLOC_FAILED ? Errc::out_of_memory
                      : status == GGML_STATUS_ABORTED    ? Errc::aborted
                                                         : Errc::device;
    return failure(code, what, ": the backend answered ", name_of(status), " (",
                   static_cast<int>(status), ')');
}

Status to_status(const Error& error) {
    if (error.code == Errc::out_of_memory) return GGML_STATUS_ALLOC_FAILED;
    if (error.code == Errc::aborted) return GGML_STATUS_ABORTED;
    return GGML_STATUS_FAILED;
}

}  // namespace heddle
