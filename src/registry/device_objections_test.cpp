// heddle/backend.hpp: devices that answer `supports` without making the words of `objection`.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ggml/op_list.h"
#include "heddle/backend.hpp"
#include "heddle/backend/nodes.hpp"

namespace {

namespace plugin = heddle::plugin;

class IdleStream {
public:
    static inline ggml_guid guid = {2};
    heddle::Result<> compute_node(ggml_tensor&) { return heddle::ok(); }
};

/// Has words for what it declines, and answers without them.
class WordyDevice : public plugin::Device<WordyDevice> {
public:
    WordyDevice() : Device(nullptr) {}
    const char* name() { return "WORDY"; }
    const char* description() { return "wordy"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
    ggml_backend_buffer_type_t buffer_type() { return nullptr; }
    std::unique_ptr<IdleStream> start(const char*) { return nullptr; }
    bool supports(const ggml_tensor& node) { return node.op == GGML_OP_ADD; }
    std::string objection(const ggml_tensor& node) {
        ++asked_for_words;
        return node.op == GGML_OP_ADD ? "" : std::string("no ") + ggml_op_name(node.op);
    }
    int asked_for_words = 0;
};

TEST(DeviceObjections, AreWordedOnlyWhereTheyAreRead) {
    WordyDevice device;
    ggml_tensor node{};
    node.op = GGML_OP_MUL;
    EXPECT_FALSE(device.handle()->iface.supports_op(device.handle(), &node));
    EXPECT_EQ(device.asked_for_words, 0);
    EXPECT_STREQ(plugin::objection_of(device.handle(), &node), "no MUL");
    EXPECT_EQ(device.asked_for_words, 1);
    node.op = GGML_OP_ADD;
    EXPECT_STREQ(plugin::objection_of(device.handle(), &node), "");
    EXPECT_TRUE(device.handle()->iface.supports_op(device.handle(), &node));
    EXPECT_EQ(device.asked_for_words, 1);
}

}  // namespace
