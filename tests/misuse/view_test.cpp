// A view that is made when its root has memory has an address and no buffer: what it is a view of
// tells where its bytes are.

#include <array>
#include <cstdio>
#include <memory>

#include "ggml-backend-impl.h"
#include "gguf.h"
#include "test_support.hpp"

namespace heddle::misuse {
namespace {

using testing::HasSubstr;

class ViewsOfDeviceMemory : public Misuse {
protected:
    void SetUp() override {
        ggml_backend_dev_t device = ggml_backend_dev_by_name("sim:devices=1");
        ASSERT_NE(device, nullptr) << heddle_last_error();
        root = input();
        buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(
            context.get(), ggml_backend_dev_buffer_type(device)));
        ASSERT_NE(buffer, nullptr) << heddle_last_error();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
        ggml_backend_tensor_set(root, values.data(), 0, sizeof values);
        view = ggml_view_1d(context.get(), root, 32, 128);
        ASSERT_EQ(view->buffer, nullptr);
        ASSERT_NE(view->data, nullptr);
    }

    Buffer buffer;
    ggml_tensor *root = nullptr, *view = nullptr;
    std::array<float, 64> values{};
};

TEST_F(ViewsOfDeviceMemory, AreNotReadByTheProcessor) {
    const Stream cpu(ggml_backend_cpu_init());
    ggml_tensor* node = ggml_sqr(context.get(), view);
    std::array<float, 32> result{};
    node->data = result.data();
    EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), graph_of(node)), GGML_STATUS_FAILED);
    EXPECT_THAT(heddle_last_error(), HasSubstr("which the CPU cannot read"));
}

TEST_F(ViewsOfDeviceMemory, AreWrittenToFilesFromThere) {
    ggml_set_name(view, "view");
    gguf_context* file = gguf_init_empty();
    gguf_add_tensor(file, view);
    const std::unique_ptr<FILE, Release<std::fclose>> stream(std::tmpfile());
    ASSERT_TRUE(gguf_write_to_file_ptr(file, stream.get(), false)) << heddle_last_error();
    gguf_free(file);

    std::rewind(stream.get());
    ggml_context* read = nullptr;
    gguf_free(gguf_init_from_file_ptr(stream.get(), {.no_alloc = false, .ctx = &read}));
    ASSERT_NE(read, nullptr) << heddle_last_error();
    const Context owned(read);
    const auto* numbers = ggml_get_data_f32(ggml_get_tensor(read, "view"));
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(numbers[i], values[i + 32]);
}

TEST_F(Misuse, AViewWithoutAnAddressIsNotCopied) {
    const Stream cpu(ggml_backend_cpu_init());
    ggml_tensor* root = input();
    ggml_tensor* view = ggml_view_tensor(context.get(), root);
    ggml_tensor* other = input();
    const Buffer buffer(ggml_backend_alloc_buffer(cpu.get(), 2 * ggml_nbytes(root)));
    auto* base = static_cast<char*>(ggml_backend_buffer_get_base(buffer.get()));
    ggml_backend_tensor_alloc(buffer.get(), root, base);
    ggml_backend_tensor_alloc(buffer.get(), other, base + ggml_nbytes(root));
    ASSERT_EQ(view->data, nullptr) << "it was made before its root was placed";
    EXPECT_FALSE(ggml_backend_buffer_copy_tensor(view, other));
    EXPECT_FALSE(ggml_backend_buffer_copy_tensor(other, view));
    EXPECT_TRUE(ggml_backend_buffer_copy_tensor(root, other));
}

TEST_F(Misuse, AViewOfWhereItsRootOnceWasIsNotWritten) {
    const Stream cpu(ggml_backend_cpu_init());
    ggml_tensor* root = input();
    Buffer before = allocate(cpu.get());
    ggml_tensor* view = ggml_view_1d(context.get(), root, 32, 128);
    ggml_set_i32(view, 1);
    EXPECT_STREQ(heddle_last_error(), "");
    root->buffer = nullptr, root->data = nullptr;
    const Buffer after(ggml_backend_alloc_buffer(cpu.get(), 256));
    ggml_backend_tensor_alloc(after.get(), root, ggml_backend_buffer_get_base(after.get()));
    before.reset();
    ggml_set_i32(view, 1);
    EXPECT_THAT(heddle_last_error(), HasSubstr("is not inside its buffer of 256 bytes"));
}

}  // namespace
}  // namespace heddle::misuse
