// A plug-in that cannot be trusted, for the tests of `heddle verify`: it says that it computes a
// few ops, and adds. The other ops end the process, hang, fail, or give wrong numbers.

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "heddle/backend.hpp"
#include "heddle/backend/nodes.hpp"

namespace {

using heddle::Errc;
using heddle::Result;
namespace plugin = heddle::plugin;

std::string_view objection(const ggml_tensor& node) {
    switch (node.op) {
        case GGML_OP_ADD:
        case GGML_OP_MUL:
        case GGML_OP_SQR:
        case GGML_OP_SQRT:
        case GGML_OP_LOG:
        case GGML_OP_SIN:
        case GGML_OP_COS:
            break;
        default:
            return "there is no trap for this op";
    }
    for (const ggml_tensor* source : {node.src[0], node.src[1]}) {
        if (source == nullptr) continue;
        if (source->type != GGML_TYPE_F32) return "only F32 runs here";
        if (!ggml_is_contiguous(source)) return "operands are not dense";
    }
    if (node.op == GGML_OP_ADD && !ggml_are_same_shape(node.src[0], node.src[1])) {
        return "operands have different extents";
    }
    return {};
}

class Stream {
public:
    static inline ggml_guid guid = {7, 7, 7};

    Result<> compute_node(ggml_tensor& node) {
        switch (node.op) {
            case GGML_OP_ADD:
                return add(node);
            case GGML_OP_SQR:
                GGML_ABORT("%s is a trap", ggml_op_name(node.op));
            case GGML_OP_SQRT:
                for (;;) pause();
            case GGML_OP_LOG:
                return heddle::failure(Errc::device, "the trap is out of ink");
            case GGML_OP_SIN:
                std::memset(node.data, 0, ggml_nbytes(&node));
                return heddle::ok();
            case GGML_OP_COS:
                std::_Exit(0);
            default:
                kill(getpid(), SIGKILL);
                return heddle::ok();
        }
    }

private:
    static Result<> add(ggml_tensor& node) {
        const auto* a = static_cast<const float*>(node.src[0]->data);
        const auto* b = static_cast<const float*>(node.src[1]->data);
        auto* y = static_cast<float*>(node.data);
        for (std::int64_t i = 0; i < ggml_nelements(&node); ++i) y[i] = a[i] + b[i];
        return heddle::ok();
    }
};

/// The second device is a trap as a whole.
class Device : public plugin::Device<Device> {
public:
    Device(ggml_backend_reg_t registration, const char* name)
        : plugin::Device<Device>(registration), name_(name) {}

    const char* name() { return name_; }
    const char* description() { return "for tests"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
    ggml_backend_buffer_type_t buffer_type() { return ggml_backend_cpu_buffer_type(); }
    bool accepts(ggml_backend_buffer_type_t type) { return ggml_backend_buft_is_host(type); }
    std::string_view objection(const ggml_tensor& node) { return ::objection(node); }
    std::unique_ptr<Stream> start(const char*) {
        if (std::string_view(name_) == "TRAP1") GGML_ABORT("the door falls shut");
        return std::make_unique<Stream>();
    }

private:
    const char* name_;
};

class Registration : public plugin::Registration<Registration> {
public:
    const char* name() { return "Trap"; }
    std::size_t device_count() { return 2; }
    ggml_backend_dev_t device(std::size_t index) {
        return (index == 0 ? first_ : second_).handle();
    }

private:
    Device first_{handle(), "TRAP0"}, second_{handle(), "TRAP1"};
};

}  // namespace

GGML_BACKEND_DL_IMPL(plugin::registration<Registration>)
