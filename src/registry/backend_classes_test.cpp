// heddle/backend.hpp: classes become tables, and nothing but values leaves them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "ggml/op_list.h"
#include "ggml/ops_math.h"
#include "heddle/backend.hpp"
#include "heddle/backend/nodes.hpp"

namespace {

using heddle::Errc;
using heddle::failure;
using heddle::Result;
using testing::ElementsAre;
using testing::HasSubstr;
namespace plugin = heddle::plugin;

/// The log as one text, while it lives.
class CaughtLog {
public:
    CaughtLog() {
        ggml_log_set([](ggml_log_level, const char* text,
                        void* self) { static_cast<CaughtLog*>(self)->text_ += text; },
                     this);
    }
    ~CaughtLog() { ggml_log_set(nullptr, nullptr); }
    const std::string& text() const { return text_; }

private:
    std::string text_;
};

/// The least a buffer can have.
class SmallBuffer {
public:
    explicit SmallBuffer(std::size_t size) : bytes_(size) {}
    void* base() { return bytes_.data(); }
    void write(std::size_t offset, std::span<const std::byte> bytes) {
        std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
    }
    void clear(std::uint8_t value) { std::memset(bytes_.data(), value, bytes_.size()); }

private:
    std::vector<std::byte> bytes_;
};

/// A buffer with everything, and with failures in it.
class FullBuffer : public SmallBuffer {
public:
    using SmallBuffer::SmallBuffer;
    Result<> read(std::size_t, std::span<std::byte>) { return failure(Errc::device, "lost"); }
    void fill(std::size_t, std::size_t, std::uint8_t) { throw std::runtime_error("no fill today"); }
    Result<> prepare(ggml_tensor&) { return failure(Errc::out_of_memory, "no room for extras"); }
    void write_pieces(ggml_tensor&, const std::byte*, plugin::Pieces) {}
    void read_pieces(const ggml_tensor&, std::byte*, plugin::Pieces pieces) { seen = pieces; }
    bool copy(const ggml_tensor&, ggml_tensor&) { throw 42; }
    void reset() { ++resets; }

    plugin::Pieces seen{};
    int resets = 0;
};

template <class B>
class Type : public plugin::BufferType<Type<B>> {
public:
    Type() : plugin::BufferType<Type<B>>(nullptr) {}
    const char* name() { return "Typed"; }
    std::unique_ptr<B> allocate(std::size_t size) {
        if (size > 1000) throw std::bad_alloc();
        return std::make_unique<B>(size);
    }
};

struct TensorIn {
    explicit TensorIn(ggml_backend_buffer_t buffer, std::size_t offset = 0) {
        tensor.data = static_cast<std::byte*>(buffer->iface.get_base(buffer)) + offset;
        std::strcpy(tensor.name, "x");
    }
    ggml_tensor tensor{};
};

TEST(BackendClasses, WhatABufferLacksIsNullInItsTable) {
    const ggml_backend_buffer_i table = plugin::BufferTable<SmallBuffer>::make();
    EXPECT_NE(table.set_tensor, nullptr);
    EXPECT_NE(table.clear, nullptr);
    EXPECT_EQ(table.get_tensor, nullptr);
    EXPECT_EQ(table.memset_tensor, nullptr);
    EXPECT_EQ(table.init_tensor, nullptr);
    EXPECT_EQ(table.set_tensor_2d, nullptr);
    EXPECT_EQ(table.cpy_tensor, nullptr);
    EXPECT_EQ(table.reset, nullptr);
}

TEST(BackendClasses, BuffersAreMadeUsedAndFreed) {
    Type<SmallBuffer> type;
    const ggml_backend_buffer_t buffer = type.handle()->iface.alloc_buffer(type.handle(), 100);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(buffer->size, 100u);
    EXPECT_EQ(type.handle()->iface.get_alignment(type.handle()), 64u);
    TensorIn at(buffer, 8);
    const int value = 5;
    buffer->iface.set_tensor(buffer, &at.tensor, &value, 4, sizeof value);
    int seen = 0;
    std::memcpy(&seen, static_cast<std::byte*>(buffer->iface.get_base(buffer)) + 12, sizeof seen);
    EXPECT_EQ(seen, 5);
    EXPECT_NE(plugin::buffer_cast<SmallBuffer>(buffer), nullptr);
    EXPECT_EQ(plugin::buffer_cast<FullBuffer>(buffer), nullptr);
    EXPECT_EQ(plugin::buffer_cast<FullBuffer>(nullptr), nullptr);
    ggml_backend_buffer_free(buffer);
}

TEST(BackendClasses, AccessOutsideTheBufferIsReportedAndNotMade) {
    const CaughtLog log;
    Type<SmallBuffer> type;
    const ggml_backend_buffer_t buffer = type.handle()->iface.alloc_buffer(type.handle(), 100);
    TensorIn at(buffer, 90);
    const char data[20] = {};
    buffer->iface.set_tensor(buffer, &at.tensor, data, 0, sizeof data);
    EXPECT_THAT(log.text(), HasSubstr("buffer of type Typed: write 'x': 20 bytes at offset 0"));
    buffer->iface.set_tensor(buffer, &at.tensor, data, SIZE_MAX - 5, sizeof data);
    ggml_backend_buffer_free(buffer);
}

TEST(BackendClasses, ErrorsAndExceptionsOfBuffersBecomeStatusAndSentence) {
    const CaughtLog log;
    Type<FullBuffer> type;
    const ggml_backend_buffer_t buffer = type.handle()->iface.alloc_buffer(type.handle(), 100);
    TensorIn at(buffer);
    char data[4];
    buffer->iface.get_tensor(buffer, &at.tensor, data, 0, 4);
    EXPECT_THAT(log.text(), HasSubstr("read 'x': lost"));
    buffer->iface.memset_tensor(buffer, &at.tensor, 1, 0, 4);
    EXPECT_THAT(log.text(), HasSubstr("fill 'x': no fill today"));
    EXPECT_EQ(buffer->iface.init_tensor(buffer, &at.tensor), GGML_STATUS_ALLOC_FAILED);
    EXPECT_FALSE(buffer->iface.cpy_tensor(buffer, &at.tensor, &at.tensor));
    buffer->iface.get_tensor_2d(buffer, &at.tensor, data, 1, 2, 3, 4, 5);
    buffer->iface.reset(buffer);
    const FullBuffer& full = *plugin::buffer_cast<FullBuffer>(buffer);
    EXPECT_EQ(full.seen.tensor_stride, 4u);
    EXPECT_EQ(full.resets, 1);
    ggml_backend_buffer_free(buffer);
    EXPECT_EQ(type.handle()->iface.alloc_buffer(type.handle(), 5000), nullptr);
    EXPECT_THAT(log.text(), HasSubstr("Typed: buffer of 5000 bytes: out of memory"));
}

class SmallStream {
public:
    static inline ggml_guid guid = {1};
    Result<> compute_node(ggml_tensor& node) {
        computed.push_back(node.name);
        if (node.op == GGML_OP_SUB) return failure(Errc::aborted, "asked to stop");
        return heddle::ok();
    }
    std::vector<std::string> computed;
};

struct Mark {
    int place = -1;
};
struct Plan {
    int runs = 0;
};

class FullDevice;

/// A stream with everything.
class FullStream {
public:
    static inline ggml_guid guid = {2};
    const char* name() { return "full stream"; }
    void compute(ggml_cgraph&) { throw std::bad_alloc(); }
    void synchronize() {}
    void write_async(ggml_tensor&, std::size_t, std::span<const std::byte>) {}
    void read_async(const ggml_tensor&, std::size_t, std::span<std::byte>) {}
    void write_pieces_async(ggml_tensor&, const std::byte*, plugin::Pieces) {}
    void read_pieces_async(const ggml_tensor&, std::byte*, plugin::Pieces) {}
    bool copy_async(ggml_backend_t, const ggml_tensor&, ggml_tensor&) { return true; }
    std::unique_ptr<Plan> plan(const ggml_cgraph&) { return std::make_unique<Plan>(); }
    Result<> compute_plan(Plan& plan) {
        if (++plan.runs > 1) return failure(Errc::device, "worn out");
        return heddle::ok();
    }
    void update_plan(Plan& plan, const ggml_cgraph&) { plan.runs = 0; }
    void record(Mark& mark) { mark.place = 3; }
    void wait(Mark& mark) { mark.place = 4; }
    void optimize(ggml_cgraph&) {}
};

class SmallDevice : public plugin::Device<SmallDevice> {
public:
    SmallDevice() : Device(nullptr) {}
    const char* name() { return "SMALL"; }
    const char* description() { return "small"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
    ggml_backend_buffer_type_t buffer_type() { return memory.handle(); }
    std::string_view objection(const ggml_tensor& node) {
        if (node.op == GGML_OP_ADD || node.op == GGML_OP_SUB) return {};
        if (node.op == GGML_OP_MUL) throw std::runtime_error("confused");
        return "only ADD and SUB";
    }
    Result<std::unique_ptr<SmallStream>> start(const char* params) {
        if (params != nullptr) return failure(Errc::invalid_argument, "no parameters, please");
        return std::make_unique<SmallStream>();
    }
    Type<SmallBuffer> memory;
};

class FullDevice : public plugin::Device<FullDevice> {
public:
    FullDevice() : Device(nullptr) {}
    const char* name() { return "FULL"; }
    const char* description() { return "full"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_GPU; }
    plugin::MemoryAmount memory() { return {10, 20}; }
    const char* id() { return "0000:01:00.0"; }
    ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    ggml_backend_buffer_type_t host_buffer_type() { return host_.handle(); }
    ggml_backend_buffer_t adopt(void*, std::size_t, std::size_t) { return nullptr; }
    bool supports(const ggml_tensor&) { return true; }
    bool wants(const ggml_tensor&) { return true; }
    std::unique_ptr<FullStream> start(const char*) { return std::make_unique<FullStream>(); }
    std::unique_ptr<Mark> make_event() { return std::make_unique<Mark>(); }
    void wait(Mark& mark) { mark.place = 5; }
    void describe(ggml_backend_dev_props& props) { props.caps.mmap_support = false; }

private:
    Type<SmallBuffer> memory_, host_;
};

TEST(BackendClasses, DevicesDescribeThemselvesFromWhatTheyHave) {
    SmallDevice small;
    FullDevice full;
    ggml_backend_dev_props props{};
    small.handle()->iface.get_props(small.handle(), &props);
    EXPECT_STREQ(props.name, "SMALL");
    EXPECT_EQ(props.memory_total, 0u);
    EXPECT_FALSE(props.caps.async || props.caps.events || props.caps.host_buffer ||
                 props.caps.buffer_from_host_ptr);
    EXPECT_EQ(small.handle()->iface.offload_op, nullptr);
    props = {};
    full.handle()->iface.get_props(full.handle(), &props);
    EXPECT_TRUE(props.caps.async && props.caps.events && props.caps.host_buffer &&
                props.caps.buffer_from_host_ptr);
    EXPECT_FALSE(props.caps.mmap_support);
    EXPECT_EQ(props.memory_free, 10u);
    EXPECT_STREQ(props.device_id, "0000:01:00.0");
    EXPECT_TRUE(full.handle()->iface.supports_buft(full.handle(), full.host_buffer_type()));
    EXPECT_FALSE(full.handle()->iface.supports_buft(full.handle(), small.buffer_type()));
}

TEST(BackendClasses, ViewsAreSupportedEverywhere) {
    const CaughtLog log;
    SmallDevice device;
    ggml_tensor node{};
    const auto supports = [&](ggml_op op) {
        node.op = op;
        return device.handle()->iface.supports_op(device.handle(), &node);
    };
    EXPECT_TRUE(supports(GGML_OP_RESHAPE));
    EXPECT_TRUE(supports(GGML_OP_NONE));
    EXPECT_TRUE(supports(GGML_OP_ADD));
    EXPECT_FALSE(supports(GGML_OP_DIV));
    EXPECT_FALSE(supports(GGML_OP_MUL));  // throws
    EXPECT_THAT(log.text(), HasSubstr("confused"));
}

/// A graph of nodes named "0", "1", ... in a context.
class Graph {
public:
    Graph() : context_(ggml_init({1 << 20, nullptr, true})), graph_(ggml_new_graph(context_)) {
        a_ = ggml_new_tensor_1d(context_, GGML_TYPE_F32, 4);
    }
    ~Graph() { ggml_free(context_); }

    ggml_tensor* add(ggml_tensor* (*op)(ggml_context*, ggml_tensor*, ggml_tensor*)) {
        ggml_tensor* node = op(context_, a_, a_);
        ggml_format_name(node, "%d", ggml_graph_n_nodes(graph_));
        ggml_build_forward_expand(graph_, node);
        return node;
    }
    ggml_cgraph* get() { return graph_; }

private:
    ggml_context* context_;
    ggml_cgraph* graph_;
    ggml_tensor* a_;
};

TEST(BackendClasses, StreamsComputeOnlyNodesThatWantIt) {
    const CaughtLog log;
    SmallDevice device;
    const ggml_backend_t stream = device.handle()->iface.init_backend(device.handle(), nullptr);
    ASSERT_NE(stream, nullptr);
    EXPECT_STREQ(stream->iface.get_name(stream), "SMALL");
    EXPECT_EQ(stream->iface.synchronize, nullptr);
    Graph graph;
    graph.add(ggml_add);
    graph.add(ggml_add)->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
    graph.add(ggml_add);
    EXPECT_EQ(stream->iface.graph_compute(stream, graph.get()), GGML_STATUS_SUCCESS);
    graph.add(ggml_sub);
    graph.add(ggml_add);
    EXPECT_EQ(stream->iface.graph_compute(stream, graph.get()), GGML_STATUS_ABORTED);
    EXPECT_THAT(log.text(), HasSubstr("SMALL: compute: '3': asked to stop"));
    auto* inner = plugin::stream_cast<SmallDevice, SmallStream>(stream);
    ASSERT_NE(inner, nullptr);
    EXPECT_THAT(inner->computed, ElementsAre("0", "2", "0", "2", "3"));
    stream->iface.free(stream);
    EXPECT_EQ(device.handle()->iface.init_backend(device.handle(), "x"), nullptr);
    EXPECT_THAT(log.text(), HasSubstr("SMALL: start a stream: no parameters, please"));
}

TEST(BackendClasses, AFullStreamHasAFullTable) {
    const CaughtLog log;
    FullDevice device;
    const ggml_backend_t stream = device.handle()->iface.init_backend(device.handle(), nullptr);
    const void* members[sizeof(ggml_backend_i) / sizeof(void*)];
    std::memcpy(members, &stream->iface, sizeof members);
    EXPECT_THAT(members, testing::Each(testing::NotNull()));
    Graph graph;
    EXPECT_EQ(stream->iface.graph_compute(stream, graph.get()), GGML_STATUS_ALLOC_FAILED);
    EXPECT_THAT(log.text(), HasSubstr("full stream: compute: out of memory"));
    void* plan = stream->iface.graph_plan_create(stream, graph.get());
    EXPECT_EQ(stream->iface.graph_plan_compute(stream, plan), GGML_STATUS_SUCCESS);
    EXPECT_EQ(stream->iface.graph_plan_compute(stream, plan), GGML_STATUS_FAILED);
    stream->iface.graph_plan_update(stream, plan, graph.get());
    EXPECT_EQ(stream->iface.graph_plan_compute(stream, plan), GGML_STATUS_SUCCESS);
    stream->iface.graph_plan_free(stream, plan);
    stream->iface.free(stream);
}

TEST(BackendClasses, EventsReachTheClassesThatKnowThem) {
    const CaughtLog log;
    FullDevice device;
    const ggml_backend_dev_t handle = device.handle();
    const ggml_backend_t stream = handle->iface.init_backend(handle, nullptr);
    const ggml_backend_event_t event = handle->iface.event_new(handle);
    const auto& mark = *static_cast<Mark*>(event->context);
    stream->iface.event_record(stream, event);
    EXPECT_EQ(mark.place, 3);
    stream->iface.event_wait(stream, event);
    EXPECT_EQ(mark.place, 4);
    handle->iface.event_synchronize(handle, event);
    EXPECT_EQ(mark.place, 5);

    // An event of another kind of device: waited for by the host, and never recorded.
    static bool waited;
    waited = false;
    ggml_backend_device foreign{};
    foreign.iface.event_synchronize = [](ggml_backend_dev_t, ggml_backend_event_t) {
        waited = true;
    };
    ggml_backend_event foreign_event{&foreign, nullptr};
    stream->iface.event_wait(stream, &foreign_event);
    EXPECT_TRUE(waited);
    stream->iface.event_record(stream, &foreign_event);
    EXPECT_THAT(log.text(), HasSubstr("the event belongs to another kind of device"));
    handle->iface.event_free(handle, event);
    stream->iface.free(stream);
}

class BrokenRegistration : public plugin::Registration<BrokenRegistration> {
public:
    BrokenRegistration() { throw std::runtime_error("no driver installed"); }
    const char* name() { return "Broken"; }
    std::size_t device_count() { return 0; }
    ggml_backend_dev_t device(std::size_t) { return nullptr; }
};

TEST(BackendClasses, ARegistrationThatCannotBeMadeIsNull) {
    const CaughtLog log;
    EXPECT_EQ(plugin::registration<BrokenRegistration>(), nullptr);
    EXPECT_THAT(log.text(), HasSubstr("no driver installed"));
}

}  // namespace
