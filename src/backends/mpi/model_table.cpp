#include "backends/mpi/model_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "ggml-cpp.h"
#include "gguf.h"
#include "heddle/heddle.h"

namespace heddle::mpi {
namespace {

constexpr std::uint64_t kLongestHead = std::uint64_t{256} << 20;

/// The reader of model files would tell the user of every file that is none.
bool is_likely(const OpenFile& file) {
    std::array<char, 4> magic{};
    std::uint32_t version = 0;
    return file.read(0, std::as_writable_bytes(std::span(magic))) &&
           file.read(4, std::as_writable_bytes(std::span(&version, 1))) &&
           std::string_view(magic.data(), magic.size()) == GGUF_MAGIC && version >= 2 &&
           version <= GGUF_VERSION;
}

std::size_t read_some(void* file, void* output, std::uint64_t offset, std::size_t size) {
    const std::span room(static_cast<std::byte*>(output), size);
    return static_cast<const OpenFile*>(file)->read(offset, room) ? size : 0;
}

}  // namespace

std::optional<ModelTable> model_table(const OpenFile& file) {
    if (!is_likely(file)) return std::nullopt;
    const gguf_context_ptr model(gguf_init_from_callback(read_some, const_cast<OpenFile*>(&file), 0,
                                                         std::min(file.size(), kLongestHead),
                                                         {.no_alloc = true, .ctx = nullptr}));
    if (model == nullptr) {
        heddle_clear_error();
        return std::nullopt;
    }
    ModelTable table;
    table.head = gguf_get_data_offset(model.get());
    if (table.head > file.size()) return std::nullopt;
    for (std::int64_t i = 0; i < gguf_get_n_tensors(model.get()); ++i) {
        const std::uint64_t at = gguf_get_tensor_offset(model.get(), i);
        const std::uint64_t size = gguf_get_tensor_size(model.get(), i);
        const std::uint64_t room = file.size() - table.head;
        if (at <= room && size <= room - at) table.tensors.push_back({table.head + at, size});
    }
    return table;
}

}  // namespace heddle::mpi
