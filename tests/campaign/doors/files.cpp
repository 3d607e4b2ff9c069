// Model files: whatever the bytes are, every way to read them gives the same file or the same
// refusal; what was accepted can be looked at, changed, written, and read again equal.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ggml-impl.h"
#include "gguf.h"
#include "heddle/heddle.h"
#include "tests/campaign/doors/gguf_draft.hpp"
#include "tests/campaign/doors/guarded_memory.hpp"
#include "tests/campaign/doors/misuse.hpp"

namespace heddle::campaign {
namespace {

struct Free {
    void operator()(gguf_context* file) const { gguf_free(file); }
    void operator()(ggml_context* context) const { ggml_free(context); }
};
using FilePtr = std::unique_ptr<gguf_context, Free>;
using ContextPtr = std::unique_ptr<ggml_context, Free>;

/// A file as it was read, with its tensors where they were asked for.
struct Loaded {
    FilePtr file;
    ContextPtr tensors;
};

enum class Tensors { none, described, loaded };

/// Reads in the way `read` does; a refusal must have its sentence and leave no tensors behind.
template <class Read>
Loaded load(Tensors tensors, std::string& wrong, Read&& read) {
    ggml_context* context = nullptr;
    const gguf_init_params params{tensors != Tensors::loaded,
                                  tensors == Tensors::none ? nullptr : &context};
    heddle_clear_error();
    Loaded loaded{FilePtr(read(params)), nullptr};
    loaded.tensors.reset(context);
    if (loaded.file == nullptr) {
        if (*heddle_last_error() == '\0') wrong = "a file is refused without a sentence";
        if (context != nullptr) wrong = "a file is refused, but there are tensors";
    } else if (tensors != Tensors::none && context == nullptr) {
        wrong = "a file is accepted, but there are no tensors";
    }
    return loaded;
}

/// Serves bytes through the callback interface.
struct Server {
    std::span<const std::byte> bytes;
    bool asked_nothing = false;

    static std::size_t serve(void* self, void* out, std::uint64_t offset, std::size_t length) {
        auto& server = *static_cast<Server*>(self);
        if (length == 0) server.asked_nothing = true;
        if (offset >= server.bytes.size()) return 0;
        const std::size_t n = std::min<std::size_t>(length, server.bytes.size() - offset);
        std::memcpy(out, server.bytes.data() + offset, n);
        return n;
    }
};

std::vector<std::byte> metadata_of(const gguf_context* file) {
    std::vector<std::byte> bytes(gguf_get_meta_size(file));
    gguf_get_meta_data(file, bytes.data());
    return bytes;
}

constexpr std::size_t kLargestAlignment = 1 << 16;  // metadata are padded to it: more is only slow

bool is_small(const gguf_context* file) { return gguf_get_alignment(file) <= kLargestAlignment; }

// ---- looking -----------------------------------------------------------------------------------

/// All bytes of a value, added up, so that each of them is read.
std::size_t sum_of_value(const gguf_context* file, std::int64_t id) {
    const gguf_type kind = gguf_get_kv_type(file, id);
    const bool is_array = kind == GGUF_TYPE_ARRAY;
    const gguf_type type = is_array ? gguf_get_arr_type(file, id) : kind;
    const std::size_t count = gguf_get_arr_n(file, id);
    std::size_t sum = count;
    if (type == GGUF_TYPE_STRING) {
        for (std::size_t i = 0; i < count; ++i) {
            sum +=
                std::strlen(is_array ? gguf_get_arr_str(file, id, i) : gguf_get_val_str(file, id));
        }
        return sum;
    }
    const auto* data = static_cast<const unsigned char*>(gguf_get_arr_data(file, id));
    const std::size_t bytes = count * gguf_type_size(type);
    for (std::size_t i = 0; i < bytes; ++i) sum += data[i];
    return sum;
}

/// Every getter of values, right or wrong for `id`.
void ask_all(const gguf_context* file, std::int64_t id) {
    gguf_get_val_u8(file, id), gguf_get_val_i8(file, id), gguf_get_val_u16(file, id);
    gguf_get_val_i16(file, id), gguf_get_val_u32(file, id), gguf_get_val_i32(file, id);
    gguf_get_val_f32(file, id), gguf_get_val_u64(file, id), gguf_get_val_i64(file, id);
    gguf_get_val_f64(file, id), gguf_get_val_bool(file, id), gguf_get_val_str(file, id);
    gguf_get_val_data(file, id), gguf_get_arr_data(file, id), gguf_get_arr_type(file, id);
    gguf_get_arr_n(file, id), gguf_get_key(file, id), gguf_get_kv_type(file, id);
    gguf_get_arr_str(file, id, 0), gguf_get_arr_str(file, id, gguf_get_arr_n(file, id));
    gguf_get_arr_str(file, id, SIZE_MAX);
}

void ask_tensor(const gguf_context* file, std::int64_t id) {
    gguf_get_tensor_name(file, id), gguf_get_tensor_ne(file, id), gguf_get_tensor_type(file, id);
    gguf_get_tensor_size(file, id), gguf_get_tensor_offset(file, id);
}

/// What one can see of a file; the same for the same file.
std::size_t look_at(const gguf_context* file, Choices& choices, std::string& wrong) {
    std::size_t sum = gguf_get_version(file) + gguf_get_alignment(file);
    const std::int64_t pairs = gguf_get_n_kv(file), tensors = gguf_get_n_tensors(file);
    for (std::int64_t id = 0; id < pairs; ++id) {
        sum += sum_of_value(file, id);
        if (gguf_find_key(file, gguf_get_key(file, id)) != id) wrong = "a key is not found";
    }
    for (std::int64_t id = 0; id < tensors; ++id) {
        sum += gguf_get_tensor_offset(file, id) + gguf_get_tensor_size(file, id);
        if (std::strlen(gguf_get_tensor_name(file, id)) >= GGML_MAX_NAME) wrong = "a long name";
        if (gguf_find_tensor(file, gguf_get_tensor_name(file, id)) != id) {
            wrong = "a tensor is not found";
        }
    }
    if (choices.one_in(8)) {
        for (const std::int64_t id : {std::int64_t{-1}, pairs, INT64_MAX, INT64_MIN}) {
            ask_all(file, id);
            ask_tensor(file, id);
        }
        if (pairs > 0) ask_all(file, choices.between(0, pairs - 1));
    }
    return sum;
}

/// The first tensor is all data with the padding between them.
ggml_tensor* first_of_file(ggml_context* context) {
    return ggml_get_next_tensor(context, ggml_get_first_tensor(context));
}

/// Both ends of every tensor that was loaded.
std::size_t sum_of_data(ggml_context* context) {
    std::size_t sum = 0;
    for (ggml_tensor* t = first_of_file(context); t != nullptr;
         t = ggml_get_next_tensor(context, t)) {
        const auto* data = static_cast<const unsigned char*>(t->data);
        const std::size_t size = ggml_nbytes(t);
        if (data != nullptr && size > 0) sum += size + data[0] + data[size - 1];
    }
    return sum;
}

// ---- reading in every way ----------------------------------------------------------------------

/// From a stream, or from a path; now and then behind other bytes, as in an archive.
Loaded load_from_stream(std::span<const std::byte> bytes, Choices& choices, std::string& wrong) {
    if (choices.one_in(8)) {
        const int file = memfd_create("campaign", 0);
        if (file < 0 || write(file, bytes.data(), bytes.size()) < 0) return {};
        const std::string path = "/proc/self/fd/" + std::to_string(file);
        Loaded loaded = load(Tensors::loaded, wrong, [&](const gguf_init_params& params) {
            return gguf_init_from_file(path.c_str(), params);
        });
        close(file);
        return loaded;
    }
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    std::FILE* stream = fmemopen(copy.data(), copy.size(), "rb");
    if (stream == nullptr) return {};
    Loaded loaded = load(Tensors::loaded, wrong, [&](const gguf_init_params& params) {
        return gguf_init_from_file_ptr(stream, params);
    });
    std::fclose(stream);
    return loaded;
}

/// Through the callback, in pieces of any size, with a limit that is right, too low or too high.
std::string compare_with_callback(std::span<const std::byte> bytes, const Loaded& first,
                                  Choices& choices) {
    Server server{bytes};
    const auto piece = choices.pick<std::size_t>({0, 1, 7, 4096, SIZE_MAX});
    const std::uint64_t limit =
        choices.pick<std::uint64_t>({bytes.size(), bytes.size() + 1, bytes.size() + (1u << 16), 0,
                                     bytes.size() / 2, UINT64_MAX, INT64_MAX});
    const auto tensors = choices.pick({Tensors::none, Tensors::described, Tensors::loaded});
    std::string wrong;
    const Loaded loaded = load(tensors, wrong, [&](const gguf_init_params& params) {
        return gguf_init_from_callback(Server::serve, &server, piece, limit, params);
    });
    if (!wrong.empty()) return wrong;
    if (server.asked_nothing) return "a callback is asked for 0 bytes";
    if (limit < bytes.size()) return {};
    if (first.file != nullptr && loaded.file == nullptr) {
        return std::string("only the callback refuses: ") + heddle_last_error();
    }
    if (first.file == nullptr || !is_small(first.file.get())) return {};
    if (metadata_of(first.file.get()) != metadata_of(loaded.file.get())) {
        return "the callback gives another file";
    }
    return {};
}

// ---- writing again -----------------------------------------------------------------------------

/// Gives a file the data it was loaded with.
void attach_data(const Loaded& loaded) {
    ggml_context* context = loaded.tensors.get();
    ggml_tensor* t = first_of_file(context);
    for (std::int64_t id = 0; t != nullptr; t = ggml_get_next_tensor(context, t), ++id) {
        gguf_set_tensor_data(loaded.file.get(), gguf_get_tensor_name(loaded.file.get(), id),
                             t->data);
    }
}

std::string rewrite(const Loaded& loaded) {
    const gguf_context* file = loaded.file.get();
    if (!is_small(file)) return {};
    attach_data(loaded);
    heddle_clear_error();
    std::vector<std::int8_t> written;
    gguf_write_to_buf(file, written, false);
    if (*heddle_last_error() != '\0') {
        return std::string("cannot be written: ") + heddle_last_error();
    }
    std::string wrong;
    const Loaded again = load(Tensors::loaded, wrong, [&](const gguf_init_params& params) {
        return gguf_init_from_buffer(written.data(), written.size(), params);
    });
    if (!wrong.empty()) return wrong;
    if (again.file == nullptr) {
        return std::string("a written file is refused: ") + heddle_last_error();
    }
    if (metadata_of(file) != metadata_of(again.file.get())) return "a written file differs";
    if (sum_of_data(loaded.tensors.get()) != sum_of_data(again.tensors.get())) {
        return "data differ after writing";
    }
    return {};
}

/// Keys, types and tensors are changed; what the C API lets a caller make can be read again.
std::string change(gguf_context* file, Choices& choices, Trace& trace) {
    for (std::uint32_t n = choices.below(4); n > 0; --n) {
        const std::int64_t pairs = gguf_get_n_kv(file), tensors = gguf_get_n_tensors(file);
        const char* key = pairs > 0 && choices.one_in(2)
                              ? gguf_get_key(file, choices.between(0, pairs - 1))
                              : choices.pick({"new", "", GGUF_KEY_GENERAL_ALIGNMENT});
        const std::string copy(key);
        switch (choices.below(6)) {
            case 0:
                gguf_set_val_str(file, copy.c_str(), "text");
                break;
            case 1:
                gguf_set_val_u32(file, copy.c_str(), choices.below(65));
                break;
            case 2:
                gguf_remove_key(file, copy.c_str());
                break;
            case 3: {
                const std::array<std::uint64_t, 4> data{1, 2, 3, 4};
                gguf_set_arr_data(file, copy.c_str(),
                                  static_cast<gguf_type>(choices.below(GGUF_TYPE_COUNT + 1)),
                                  data.data(), choices.below(5));
                break;
            }
            case 4:
                gguf_set_kv(file, file);
                break;
            default:
                if (tensors == 0) break;
                gguf_set_tensor_type(file,
                                     gguf_get_tensor_name(file, choices.between(0, tensors - 1)),
                                     static_cast<ggml_type>(choices.between(0, GGML_TYPE_COUNT)));
        }
        trace.line("changed key '", copy, "'");
    }
    if (!is_small(file)) return {};
    const std::vector<std::byte> once = metadata_of(file);
    const FilePtr again(gguf_init_from_buffer(once.data(), once.size(), {true, nullptr}));
    if (again == nullptr) return std::string("a changed file is refused: ") + heddle_last_error();
    if (metadata_of(again.get()) != once) return "a changed file differs when it is read";
    return {};
}

/// A copy that ends at an unreadable page: reading past the end is a crash, not luck.
std::span<const std::byte> in_guarded_memory(std::span<const std::byte> bytes) {
    GuardedMemory& memory = guarded_memory();
    memory.reset();
    std::byte* copy = memory.take(bytes.size(), 1, true);
    if (copy == nullptr) return bytes;
    std::ranges::copy(bytes, copy);
    return {copy, bytes.size()};
}

}  // namespace

std::string run_files(Choices& choices, Trace& trace) {
    prepare_for_misuse();
    GgufDraft draft = draw_gguf(choices);
    const bool is_sound = choices.below(8) == 0;
    if (!is_sound) damage(draft, choices, trace);
    const std::span<const std::byte> bytes = in_guarded_memory(draft.bytes);

    std::string wrong;
    const Loaded first = load(Tensors::loaded, wrong, [&](const gguf_init_params& params) {
        return gguf_init_from_buffer(bytes.data(), bytes.size(), params);
    });
    if (!wrong.empty()) return wrong;
    trace.line(bytes.size(), " bytes: ", first.file != nullptr ? "accepted" : heddle_last_error());
    if (is_sound && first.file == nullptr) {
        return std::string("a sound file is refused: ") + heddle_last_error();
    }
    if (is_sound && (gguf_get_n_kv(first.file.get()) != static_cast<int64_t>(draft.pairs) ||
                     gguf_get_n_tensors(first.file.get()) != static_cast<int64_t>(draft.tensors))) {
        return "a sound file has lost something";
    }
    wrong = compare_with_callback(bytes, first, choices);
    if (!wrong.empty() || bytes.empty()) return wrong;
    if (choices.one_in(4)) {
        const Loaded other = load_from_stream(bytes, choices, wrong);
        if (!wrong.empty()) return wrong;
        if ((other.file == nullptr) != (first.file == nullptr)) return "a stream disagrees";
    }
    if (first.file == nullptr) return {};
    look_at(first.file.get(), choices, wrong);
    if (wrong.empty()) wrong = rewrite(first);
    if (wrong.empty()) wrong = change(first.file.get(), choices, trace);
    return wrong;
}

}  // namespace heddle::campaign
