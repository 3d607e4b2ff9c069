#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "client_model.hpp"
#include "heddle/heddle.h"

namespace heddle::bench {
namespace {

/// A device, and memory in which it may read a weight.
struct Memory {
    ggml_backend_dev_t device;
    ggml_backend_buffer_type_t type;
};

/// Where a weight may lie, best first: memory of the accelerator; what the CPU offers for weights,
/// then its own memory.
std::vector<Memory> memory_list(const ClientPlaces& places, bool is_accelerated, bool extras) {
    std::vector<Memory> list;
    if (is_accelerated) {
        list.push_back({places.accelerator, ggml_backend_dev_buffer_type(places.accelerator)});
    }
    const auto get_extras =
        reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(places.cpu), "ggml_backend_dev_get_extra_bufts"));
    if (extras && get_extras != nullptr) {
        const ggml_backend_buffer_type_t* type = get_extras(places.cpu);
        for (; type != nullptr && *type != nullptr; ++type) list.push_back({places.cpu, *type});
    }
    list.push_back({places.cpu, ggml_backend_dev_buffer_type(places.cpu)});
    return list;
}

/// The op that reads the weight, with as many tokens as a batch may have.
ggml_tensor* reader_of(ggml_context* context, ggml_tensor* weight, ggml_op op) {
    constexpr std::int64_t kTokens = 512;
    switch (op) {
        case GGML_OP_GET_ROWS:
            return ggml_get_rows(context, weight,
                                 ggml_new_tensor_1d(context, GGML_TYPE_I32, kTokens));
        case GGML_OP_MUL:
            return ggml_mul(context,
                            ggml_new_tensor_2d(context, GGML_TYPE_F32, weight->ne[0], kTokens),
                            weight);
        default:
            return ggml_mul_mat(context, weight,
                                ggml_new_tensor_2d(context, GGML_TYPE_F32, weight->ne[0], kTokens));
    }
}

/// Whether the device computes `op` with the weight in memory of `type`: a buffer of no size says
/// where the weight would be.
bool can_read(const Memory& memory, const ggml_tensor& described, ggml_op op) {
    const ggml_context_ptr context(ggml_init(
        {.mem_size = 8 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
    ggml_tensor* const weight = ggml_dup_tensor(context.get(), &described);
    ggml_tensor* const reader = reader_of(context.get(), weight, op);
    const ggml_backend_buffer_ptr nowhere(ggml_backend_buft_alloc_buffer(memory.type, 0));
    weight->buffer = nowhere.get();
    return ggml_backend_dev_supports_op(memory.device, reader);
}

/// The layer that a weight belongs to: -1 is before all, `layers` after all of them.
std::int64_t layer_of(const std::string& name, std::int64_t layers) {
    constexpr std::string_view kBlock = "blk.";
    if (name.starts_with(kBlock)) return std::atoll(name.c_str() + kBlock.size());
    return name.starts_with("output") ? layers : -1;
}

ggml_op op_of(const std::string& name) {
    if (name.starts_with("token_embd")) return GGML_OP_GET_ROWS;
    return name.ends_with("norm.weight") ? GGML_OP_MUL : GGML_OP_MUL_MAT;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY);
    struct stat about = {};
    if (file < 0 || fstat(file, &about) != 0) {
        if (file >= 0) close(file);
        return failure(Errc::io, path, ": cannot be opened: ", std::strerror(errno));
    }
    const auto size = static_cast<std::size_t>(about.st_size);
    void* const data = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    close(file);
    if (data == MAP_FAILED) {
        return failure(Errc::io, path, ": cannot be mapped: ", std::strerror(errno));
    }
    return MappedFile(static_cast<std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(other.data_),
      size_(other.size_),
      begin_(other.begin_),
      end_(std::exchange(other.end_, other.begin_)) {}

MappedFile::~MappedFile() {
    if (begin_ < end_) munmap(data_ + begin_, end_ - begin_);
}

void MappedFile::keep_only(std::size_t begin, std::size_t end) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    begin = begin / page * page;
    end = std::min((end + page - 1) / page * page, end_);
    if (begin > begin_) munmap(data_ + begin_, begin - begin_);
    if (end < end_) munmap(data_ + end, end_ - end);
    begin_ = begin;
    end_ = end;
}

ClientWeights::ClientWeights(MappedFile file, gguf_context_ptr description,
                             ggml_context_ptr tensors)
    : file_(std::move(file)), description_(std::move(description)), tensors_(std::move(tensors)) {}

Result<std::unique_ptr<ClientWeights>> ClientWeights::load(const std::string& path,
                                                           const ClientPlaces& places,
                                                           bool extras) {
    ggml_context* tensors = nullptr;
    gguf_context_ptr description(
        gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = &tensors}));
    if (description == nullptr) return failure(Errc::corrupt, path, ": ", heddle_last_error());
    ggml_context_ptr owner(tensors);
    HEDDLE_TRY_ASSIGN(MappedFile file, MappedFile::open(path));
    std::unique_ptr<ClientWeights> made(
        new ClientWeights(std::move(file), std::move(description), std::move(owner)));
    if (auto read = made->read_shape(); !read) return std::move(read).error().within(path);
    made->choose_memory(places, extras && places.accelerator == nullptr);
    HEDDLE_TRY(made->allocate(places.cpu));
    HEDDLE_TRY(made->fill());
    return made;
}

Result<> ClientWeights::read_shape() {
    for (const auto& [key, number] : {std::pair{"llama.block_count", &shape_.layers},
                                      {"llama.embedding_length", &shape_.width},
                                      {"llama.attention.head_count", &shape_.heads},
                                      {"llama.attention.head_count_kv", &shape_.kv_heads}}) {
        const std::int64_t id = gguf_find_key(description_.get(), key);
        if (id < 0) return failure(Errc::corrupt, "has no ", key);
        *number = gguf_get_val_u32(description_.get(), id);
    }
    const ggml_tensor* embedding = ggml_get_tensor(tensors_.get(), "token_embd.weight");
    if (embedding == nullptr) return failure(Errc::corrupt, "has no token_embd.weight");
    shape_.words = embedding->ne[1];
    return ok();
}

void ClientWeights::choose_memory(const ClientPlaces& places, bool extras) {
    for (ggml_tensor* t = ggml_get_first_tensor(tensors_.get()); t != nullptr;
         t = ggml_get_next_tensor(tensors_.get(), t)) {
        add(*t, t->name, places, extras);
    }
    if (weights_.contains("output.weight")) return;
    // The output is the embedding, but another op reads it.
    add(*ggml_get_tensor(tensors_.get(), "token_embd.weight"), "output.weight", places, extras);
}

void ClientWeights::add(const ggml_tensor& described, const std::string& name,
                        const ClientPlaces& places, bool extras) {
    const std::int64_t layers = shape_.layers;
    const auto list =
        memory_list(places, places.is_accelerated(layer_of(name, layers), layers), extras);
    const auto fits = std::ranges::find_if(
        list, [&](const Memory& memory) { return can_read(memory, described, op_of(name)); });
    const ggml_backend_buffer_type_t type = (fits != list.end() ? *fits : list.back()).type;
    ggml_context_ptr& context = contexts_[type];
    if (context == nullptr) {
        const auto count = static_cast<std::size_t>(gguf_get_n_tensors(description_.get())) + 1;
        context.reset(ggml_init(
            {.mem_size = count * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
    }
    // What is in this memory already need not be there twice.
    ggml_tensor* weight = ggml_get_tensor(context.get(), described.name);
    if (weight == nullptr) {
        weight = ggml_dup_tensor(context.get(), &described);
        ggml_set_name(weight, described.name);
    }
    weights_[name] = weight;
}

std::size_t ClientWeights::offset_of(const ggml_tensor& weight) const {
    const std::int64_t id = gguf_find_tensor(description_.get(), weight.name);
    return gguf_get_data_offset(description_.get()) +
           gguf_get_tensor_offset(description_.get(), id);
}

Result<> ClientWeights::allocate(ggml_backend_dev_t cpu) {
    for (const auto& [type, context] : contexts_) {
        ggml_backend_buffer_t buffer = nullptr;
        if (type == ggml_backend_dev_buffer_type(cpu)) {
            used_begin_ = file_.size();
            std::size_t largest = 0;
            for (ggml_tensor* t = ggml_get_first_tensor(context.get()); t != nullptr;
                 t = ggml_get_next_tensor(context.get(), t)) {
                used_begin_ = std::min(used_begin_, offset_of(*t));
                used_end_ = std::max(used_end_, offset_of(*t) + ggml_nbytes(t));
                largest = std::max(largest, ggml_nbytes(t));
            }
            buffer = mapped_ = ggml_backend_dev_buffer_from_host_ptr(
                cpu, file_.data() + used_begin_, used_end_ - used_begin_, largest);
        } else {
            buffer = ggml_backend_alloc_ctx_tensors_from_buft(context.get(), type);
        }
        if (buffer == nullptr) return failure(Errc::out_of_memory, heddle_last_error());
        ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        buffers_.emplace_back(buffer);
    }
    return ok();
}

Result<> ClientWeights::fill() {
    for (const auto& [type, context] : contexts_) {
        for (ggml_tensor* t = ggml_get_first_tensor(context.get()); t != nullptr;
             t = ggml_get_next_tensor(context.get(), t)) {
            std::byte* const data = file_.data() + offset_of(*t);
            if (t->data != nullptr) {
                ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
            } else if (ggml_backend_tensor_alloc(mapped_, t, data) != GGML_STATUS_SUCCESS) {
                return failure(Errc::device, heddle_last_error());
            }
        }
    }
    file_.keep_only(used_begin_, used_end_);
    return ok();
}

std::map<std::string, std::size_t> ClientWeights::allocated_bytes() const {
    std::map<std::string, std::size_t> bytes;
    for (const ggml_backend_buffer_ptr& buffer : buffers_) {
        if (buffer.get() == mapped_) continue;
        bytes[ggml_backend_buffer_name(buffer.get())] += ggml_backend_buffer_get_size(buffer.get());
    }
    return bytes;
}

ggml_tensor* ClientWeights::find(const std::string& name) const {
    const auto found = weights_.find(name);
    return found != weights_.end() ? found->second : nullptr;
}

}  // namespace heddle::bench
