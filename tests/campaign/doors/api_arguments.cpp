#include "tests/campaign/doors/api_arguments.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstring>

#include "ggml/op_list.h"
#include "tests/campaign/settings.hpp"

namespace heddle::campaign {
namespace {

/// Calls that belong to work under way; before all others it is waited for, as a caller must who
/// changes what streams still read.
bool goes_on_streams(std::string_view function) {
    const auto parts = {"async", "event", "synchronize", "graph_compute"};
    return std::ranges::any_of(
        parts, [&](const char* part) { return function.find(part) != std::string_view::npos; });
}

/// Calls whose lengths are checked against an object, although memory of the caller is involved.
bool checks_lengths(std::string_view function) {
    return function.starts_with("ggml_backend_tensor_") || function == "gguf_set_tensor_data" ||
           function == "ggml_opt_dataset_get_batch_host";
}

/// Objects are given back by the world, which knows when; here only without one.
bool gives_back(std::string_view function) {
    return function.ends_with("_free") || function == "ggml_reset" ||
           function == "ggml_backend_unload" || function == "ggml_backend_register" ||
           function == "ggml_backend_device_register" || function == "ggml_hash_set_reset";
}

/// A number of things in a list that the caller has made.
bool is_count(std::string_view name) {
    for (const char* each : {"n_backends", "n_bufs", "n_tensors", "n_args", "num_test_nodes",
                             "n_buffers", "n_devs", "n_copies", "n"}) {
        if (name == each) return true;
    }
    return false;
}

constexpr std::uint32_t kListLength = 4;

/// A list that calls may be handed; as long as the largest graph, for lists with an entry a node.
template <class T>
T* list() {
    static std::array<T, 8192> entries{};
    return entries.data();
}

}  // namespace

ApiArguments::ApiArguments(ApiWorld& world, Choices& choices, Trace& trace, Misuse misuse)
    : world_(world),
      choices_(choices),
      trace_(trace),
      misuse_(misuse),
      file_(settings().scratch + "/file") {
    unlink(file_.c_str());
}

void ApiArguments::begin(std::string_view function, std::initializer_list<std::string_view> names,
                         bool has_memory) {
    function_ = function;
    names_ = names;
    has_memory_ = has_memory && !checks_lengths(function);
    only_null_ = gives_back(function);
    argument_ = 0;
    wrong_at_ =
        misuse_ == Misuse::one ? choices_.below(static_cast<std::uint32_t>(names.size()) + 1) : 0;
    together_.clear();
    maker_ = ApiWorld::kNone;
    last_buffer_ = nullptr;
    line_.clear();
    if (!goes_on_streams(function)) world_.synchronize();
}

std::string_view ApiArguments::next_argument() {
    ++argument_;
    wrong_now_ = misuse_ == Misuse::one ? argument_ == wrong_at_ : choices_.one_in(24);
    if (only_null_) wrong_now_ = true;
    return argument_ <= names_.size() ? names_[argument_ - 1] : std::string_view{};
}

void ApiArguments::ready() {
    if (trace_.is_wanted()) trace_.line(function_, "(", line_, ")");
    std::ranges::sort(together_);
    const auto last = std::unique(together_.begin(), together_.end());
    together_.erase(last, together_.end());
    // What tensors and graphs are made in comes first: the context asked for, not the operands'.
    const auto is_context = [&](int i) {
        return world_.objects()[static_cast<std::size_t>(i)].kind == Kind::context;
    };
    const auto is_maker = [&](int i) { return i == maker_; };
    std::stable_partition(together_.begin(), together_.end(), is_context);
    std::stable_partition(together_.begin(), together_.end(), is_maker);
    world_.link(together_);
}

void ApiArguments::end() {
    if (loaded_ != nullptr) {
        const int context = world_.add(Kind::context, loaded_, together_);
        const std::array<int, 1> owner{context};
        ggml_tensor* t = ggml_get_first_tensor(loaded_);
        for (int i = 0; i < 8 && t != nullptr; ++i, t = ggml_get_next_tensor(loaded_, t)) {
            world_.add_tensor(t, owner);
        }
    }
    loaded_ = nullptr;
    close_stream();
}

void ApiArguments::close_stream() {
    if (stream_ != nullptr) std::fclose(stream_);
    stream_ = nullptr;
}

// ---- for the trace -----------------------------------------------------------------------------

void ApiArguments::note_text(std::string_view text) {
    if (!line_.empty()) line_ += ", ";
    line_ += text;
}

void ApiArguments::note_pointer(const void* value) {
    static constexpr std::array kNames{"training", "result", "sched",   "gallocr",
                                       "dataset",  "event",  "backend", "threadpool",
                                       "gguf",     "buffer", "context"};
    if (value == nullptr) return note_text("NULL");
    for (std::size_t i = 0; i < world_.objects().size(); ++i) {
        if (world_.objects()[i].handle != value) continue;
        return note_text(kNames[static_cast<std::size_t>(world_.objects()[i].kind)] +
                         std::to_string(i));
    }
    for (std::size_t i = 0; i < world_.graphs().size(); ++i) {
        if (world_.graphs()[i].handle == value) return note_text("graph" + std::to_string(i));
    }
    for (const Part& part : world_.tensors()) {
        if (part.handle != value) continue;
        const auto& t = *static_cast<const ggml_tensor*>(value);
        std::string text = std::string("tensor{") + ggml_type_name(t.type);
        for (const std::int64_t extent : t.ne) text += "," + std::to_string(extent);
        return note_text(text +
                         (t.op != GGML_OP_NONE ? std::string(",") + ggml_op_name(t.op) : "") +
                         " in context" + std::to_string(part.owner) + "}");
    }
    note_text("...");
}

// ---- numbers -----------------------------------------------------------------------------------

int ApiArguments::enumerator() {
    if (is_wrong()) return hostile({-1, INT_MAX, 1000, INT_MIN, 43});
    return static_cast<int>(choices_.one_in(2) ? choices_.below(44) : choices_.below(3));
}

void ApiArguments::set(bool& value, std::string_view) { value = choices_.below(2) == 1; }

void ApiArguments::set(int& value, std::string_view name) {
    if (is_count(name)) {
        value = is_wrong() ? hostile({0, -1, INT_MIN}) : static_cast<int>(choices_.between(1, 4));
    } else if (is_wrong()) {
        value = hostile({-1, INT_MAX, 0, INT_MIN, 1 << 30, INT_MAX - 1});
    } else {
        value = choices_.pick({1, 0, 2, 3, 4, 8});
    }
}

void ApiArguments::set(std::int64_t& value, std::string_view name) {
    if (name == "nepoch") {
        value = choices_.pick<std::int64_t>({1, 0, -1});
    } else if (has_memory_) {
        value = is_wrong() ? hostile<std::int64_t>({0, -1, 1, 255, INT64_MIN})
                           : choices_.pick<std::int64_t>({256, 512, 0});
    } else if (is_wrong()) {
        value = hostile<std::int64_t>({-1, INT64_MAX, 0, INT64_MIN, INT_MAX, std::int64_t{1} << 62,
                                       (std::int64_t{1} << 61) + 1, std::int64_t{1} << 32});
    } else {
        value = choices_.pick<std::int64_t>({4, 32, 1, 2, 8, 256});
    }
}

void ApiArguments::set(std::size_t& value, std::string_view name) {
    if (is_count(name) || name == "stride_data") {
        value = choices_.pick<std::size_t>({1, 0, 2, 4});
    } else if (has_memory_) {
        value = is_wrong() ? hostile<std::size_t>({0, 1, 7})
                           : choices_.pick<std::size_t>({4096, 64, 65536});
    } else if (is_wrong()) {
        value = hostile<std::size_t>({SIZE_MAX, 0, std::size_t{1} << 63, SIZE_MAX - 31, 1,
                                      std::size_t{1} << 40, std::size_t{1} << 62, 3});
    } else if (name.starts_with("nb") || name == "offset" || name == "stride_tensor") {
        value = choices_.pick<std::size_t>({0, 16, 128, 512, 4, 32});
    } else {
        value = choices_.pick<std::size_t>({64, 16, 0, 4096, 1 << 16});
    }
}

void ApiArguments::set(float& value, std::string_view) {
    value = is_wrong() ? hostile({NAN, INFINITY, -1.0F, 1e30F, -INFINITY, 0.0F})
                       : choices_.pick({1.0F, 0.0F, 0.5F, 2.0F, 1e-6F});
}

void ApiArguments::set(double& value, std::string_view) {
    value = is_wrong() ? hostile<double>({NAN, INFINITY}) : 1;
}

void ApiArguments::set(ggml_bf16_t& value, std::string_view) {
    value.bits = static_cast<std::uint16_t>(choices_.below(1 << 16));
}

// ---- memory and lists --------------------------------------------------------------------------

void ApiArguments::set(char*& value, std::string_view name) {
    static const std::string long_text(300, 'n');
    const char* text = nullptr;
    if (name == "mode") {
        text = is_wrong() ? nullptr : "rb";
    } else if (name == "fname" || name == "path" || name == "filename" || name == "dir_path") {
        text = is_wrong() ? hostile<const char*>({nullptr, "", "/nonexistent/file", "/"})
                          : file_.c_str();
    } else if (name == "fmt" || name == "format") {
        text = is_wrong() ? nullptr : "text";
    } else {
        text = is_wrong()
                   ? hostile<const char*>({nullptr, "", long_text.c_str(), "\xff\x1b[2J"})
                   : choices_.pick<const char*>(
                         {"a", "b", "CPU", "SIM0", GGUF_KEY_GENERAL_ALIGNMENT, "general.name"});
    }
    value = const_cast<char*>(text);
}

void ApiArguments::set(const char**& value, std::string_view) {
    value = is_wrong() ? nullptr : list<const char*>();
    for (std::uint32_t i = 0; i < kListLength && value != nullptr; ++i) {
        value[i] = choices_.one_in(16) ? nullptr : "text";
    }
}

void ApiArguments::set(void*& value, std::string_view name) {
    if (is_wrong() || name.find("user") != std::string_view::npos || name.ends_with("_ud")) {
        value = nullptr;
    } else if (name == "addr" && last_buffer_ != nullptr) {
        auto* base = static_cast<char*>(ggml_backend_buffer_get_base(last_buffer_));
        const auto at = choices_.pick<std::size_t>({0, 32, 256, 1, ~std::size_t{0}, SIZE_MAX / 2});
        value = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(base) + at);
    } else {
        value = world_.scratch();
    }
}

void ApiArguments::set(ggml_tensor**& value, std::string_view name) {
    if (is_wrong() || (name == "grad_accs" && !choices_.one_in(4))) return;
    value = list<ggml_tensor*>();
    for (std::uint32_t i = 0; i < kListLength; ++i) {
        value[i] = choices_.one_in(8) ? nullptr : some_tensor();
    }
}

void ApiArguments::set(const ggml_tensor**& value, std::string_view name) {
    ggml_tensor** changeable = nullptr;
    set(changeable, name);
    value = const_cast<const ggml_tensor**>(changeable);
}

void ApiArguments::set(ggml_backend_t*& value, std::string_view) {
    if (is_wrong()) return;
    value = list<ggml_backend_t>();
    for (std::uint32_t i = 0; i < kListLength; ++i) {
        value[i] =
            choices_.one_in(24) ? nullptr : static_cast<ggml_backend_t>(object(Kind::stream));
    }
}

void ApiArguments::set(ggml_backend_buffer_type_t*& value, std::string_view) {
    if (is_wrong()) return;
    value = list<ggml_backend_buffer_type_t>();
    for (std::uint32_t i = 0; i < kListLength; ++i) {
        value[i] = choices_.one_in(24) ? nullptr : some_buffer_type();
    }
}

/// A multi-buffer owns its parts: new ones, which the world never hears of. What is not taken is
/// freed with the next list.
void ApiArguments::set(ggml_backend_buffer_t*& value, std::string_view) { value = nullptr; }

void ApiArguments::set(ggml_backend_dev_t*& value, std::string_view name) {
    if (is_wrong()) return;
    value = list<ggml_backend_dev_t>();
    for (std::uint32_t i = 0; i < kListLength; ++i) set(value[i], name);
}

void ApiArguments::set(int*& value, std::string_view) {
    if (is_wrong()) return;
    value = list<int>();
    std::fill_n(value, 8192, choices_.one_in(8) ? choices_.pick({1, -1, 7, INT_MAX}) : 0);
}

void ApiArguments::set(std::int64_t*& value, std::string_view) {
    if (is_wrong()) return;
    value = list<std::int64_t>();
    for (std::uint32_t i = 0; i < kListLength; ++i) {
        value[i] = choices_.one_in(16) ? choices_.pick<std::int64_t>({-1, 0, INT64_MAX})
                                       : choices_.pick<std::int64_t>({4, 1, 32, 8});
    }
}

void ApiArguments::set(ggml_opt_get_optimizer_params& value, std::string_view) {
    value = is_wrong() ? nullptr : ggml_opt_get_default_optimizer_params;
}

// ---- structs -----------------------------------------------------------------------------------

void ApiArguments::set(ggml_init_params& value, std::string_view) {
    value.mem_size = is_wrong() ? hostile<std::size_t>({SIZE_MAX, 1, SIZE_MAX / 2, 0})
                                : choices_.pick<std::size_t>({1 << 16, 1 << 12, 1 << 18});
    value.no_alloc = choices_.below(2) == 1;
}

void ApiArguments::set(gguf_init_params& value, std::string_view) {
    value.no_alloc = choices_.below(2) == 1;
    value.ctx = is_wrong() ? nullptr : &loaded_;
}

void ApiArguments::set(ggml_opt_params& value, std::string_view name) {
    const bool wrong = is_wrong();
    value =
        ggml_opt_default_params(wrong && choices_.below(2) == 0
                                    ? nullptr
                                    : static_cast<ggml_backend_sched_t>(object(Kind::scheduler)),
                                static_cast<ggml_opt_loss_type>(choices_.below(wrong ? 9 : 4)));
    value.build_type = static_cast<ggml_opt_build_type>(choices_.below(wrong ? 5 : 3) * 10);
    value.opt_period = wrong ? hostile({0, -1, INT_MAX}) : 1;
    if (choices_.one_in(2)) {
        set(value.ctx_compute, name);
        set(value.inputs, name);
        set(value.outputs, name);
    }
}

void ApiArguments::set(struct ggml_backend_graph_copy& value, std::string_view) { value = {}; }

void ApiArguments::set(ggml_object*& value, std::string_view) { value = nullptr; }
void ApiArguments::set(ggml_hash_set*& value, std::string_view) { value = nullptr; }

void ApiArguments::set(ggml_cplan*& value, std::string_view) {
    plan_ = {};
    plan_.n_threads = is_wrong() ? hostile({-1, 0, INT_MAX}) : 1;
    value = is_wrong() && choices_.one_in(2) ? nullptr : &plan_;
}

void ApiArguments::set(ggml_tallocr*& value, std::string_view name) {
    if (is_wrong()) return;
    set(tallocr_.buffer, name);
    if (tallocr_.buffer == nullptr) return;
    tallocr_ = ggml_tallocr_new(tallocr_.buffer);
    value = &tallocr_;
}

void ApiArguments::set(ggml_threadpool_params*& value, std::string_view) {
    pool_ = ggml_threadpool_params_default(static_cast<int>(choices_.between(1, 3)));
    value = &pool_;
    if (!is_wrong()) return;
    switch (choices_.below(4)) {
        case 0:
            value = nullptr;
            break;
        case 1:
            pool_.n_threads = hostile({0, -1, INT_MAX, INT_MIN, 100000});
            break;
        case 2:
            pool_.prio = static_cast<ggml_sched_priority>(99);
            break;
        default:
            pool_.poll = UINT32_MAX;
            break;
    }
}

void ApiArguments::set(FILE*& value, std::string_view) {
    close_stream();
    stream_ = is_wrong() ? nullptr : std::tmpfile();
    value = stream_;
}

void ApiArguments::keep(FILE* value) {
    if (value != nullptr) std::fclose(value);
}

void ApiArguments::keep(const char* value) {
    // Every letter is read: a text without an end is noticed.
    if (value != nullptr && std::strlen(value) > ApiWorld::kScratchSize) trace_.line("a long text");
}

}  // namespace heddle::campaign
