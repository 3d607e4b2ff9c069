#include "gguf/reader.hpp"

namespace heddle::gguf {
namespace {

/// Bytes of a context with the descriptions of `tensors` and `data_size` bytes.
Result<std::size_t> context_size(std::size_t tensors, std::size_t data_size) {
    std::size_t size = 0;
    if (__builtin_mul_overflow(tensors, kTensorOverhead, &size) ||
        __builtin_add_overflow(size, data_size, &size) || size > SIZE_MAX - kArenaAlignment) {
        return invalid("gguf: ", tensors, " tensors and ", data_size,
                       " bytes of data are more than a context can hold");
    }
    return size;
}

/// The first tensor of a context with data: all of it, as bytes.
Result<std::byte*> load_data(Source& source, const File& file, Context& context) {
    const std::size_t size = file.data_size();
    HEDDLE_TRY_ASSIGN(
        Tensor* const blob,
        new_tensor(context,
                   TensorSpec::dense(GGML_TYPE_I8, {static_cast<std::int64_t>(size), 1, 1, 1})));
    set_name(*blob, "GGUF tensor data binary blob");
    if (size > 0) {
        source.skip_to(file.data_offset());
        if (!source.read(blob->data, size)) {
            return failure(Errc::corrupt, "gguf: at byte ", source.position(),
                           ": the source ends in the data of ", size, " bytes at byte ",
                           file.data_offset());
        }
    }
    return static_cast<std::byte*>(blob->data);
}

}  // namespace

Result<OwnedContext> load_tensors(Source& source, const File& file, bool no_alloc) {
    const std::size_t data_size = no_alloc ? 0 : file.data_size();
    const std::size_t count = file.tensors().size() + (no_alloc ? 0 : 1);
    HEDDLE_TRY_ASSIGN(const std::size_t size, context_size(count, data_size));
    if (data_size > 0) {
        const std::uint64_t left = source.remaining() - (file.data_offset() - source.position());
        if (data_size > left) {
            return failure(Errc::corrupt, "gguf: at byte ", file.data_offset(), ": the data take ",
                           data_size, " bytes, but ", left, " are left");
        }
    }
    HEDDLE_TRY_ASSIGN(OwnedContext context, make_context(size, nullptr, no_alloc));
    std::byte* data = nullptr;
    if (!no_alloc) {
        HEDDLE_TRY_ASSIGN(data, load_data(source, file, *context));
    }
    context->no_alloc = true;  // the data are there already
    for (const TensorEntry& entry : file.tensors()) {
        HEDDLE_TRY_ASSIGN(Tensor* const tensor,
                          new_tensor(*context, TensorSpec::like(entry.tensor)));
        set_name(*tensor, name_of(entry.tensor));
        if (data != nullptr) tensor->data = data + entry.offset;
    }
    context->no_alloc = no_alloc;
    return context;
}

}  // namespace heddle::gguf
