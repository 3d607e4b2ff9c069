/// Arguments for functions of the C API: an object that is there, a number that makes sense, or one
/// that does not.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ggml-impl.h"
#include "heddle/sched.h"
#include "tests/campaign/door.hpp"
#include "tests/campaign/doors/api_world.hpp"

namespace heddle::campaign {

/// A call in the making: draws its arguments, and remembers which objects they belong to.
class ApiArguments {
public:
    /// How many arguments of a call are wrong on purpose.
    enum class Misuse {
        now_and_then,  ///< each, one time in 24
        one,           ///< one of them
    };

    ApiArguments(ApiWorld& world, Choices& choices, Trace& trace, Misuse misuse);
    ~ApiArguments() { close_stream(); }
    ApiArguments(const ApiArguments&) = delete;
    ApiArguments& operator=(const ApiArguments&) = delete;

    /// A call of `function` begins. Its parameters have these names, or "": they tell what a number
    /// stands for. Where memory is handed over whose length only the caller knows (`has_memory`),
    /// lengths are never too large.
    void begin(std::string_view function, std::initializer_list<std::string_view> names,
               bool has_memory);

    /// The next argument.
    template <class T>
    T draw() {
        const std::string_view name = next_argument();
        T value{};
        if constexpr (std::is_pointer_v<T> && std::is_const_v<std::remove_pointer_t<T>>) {
            std::remove_const_t<std::remove_pointer_t<T>>* changeable = nullptr;
            set(changeable, name);
            value = changeable;
        } else if constexpr (std::is_enum_v<T>) {
            value = static_cast<T>(enumerator());
        } else {
            set(value, name);
        }
        note(value);
        return value;
    }

    /// All arguments are drawn: the call follows.
    void ready();
    /// What came back.
    template <class T>
    void returned(const T& value) {
        keep(value);
        end();
    }
    void end();

private:
    std::string_view next_argument();
    bool is_wrong() const { return wrong_now_; }
    int enumerator();

    // Objects; the simplest is that which was made last.
    void* object(Kind kind);
    int make(Kind kind);
    int make_context();
    int make_stream();
    int make_scheduler();
    int make_graph();
    ggml_tensor* make_tensor();
    ggml_tensor* some_tensor();
    ggml_backend_buffer_type_t some_buffer_type();

    void set(ggml_context*& value, std::string_view);
    void set(ggml_tensor*& value, std::string_view name);
    void set(ggml_cgraph*& value, std::string_view);
    void set(ggml_backend_t& value, std::string_view);
    void set(ggml_backend_buffer_t& value, std::string_view);
    void set(ggml_backend_buffer_type_t& value, std::string_view);
    void set(ggml_backend_dev_t& value, std::string_view);
    void set(ggml_backend_reg_t& value, std::string_view);
    void set(ggml_backend_event_t& value, std::string_view);
    void set(ggml_backend_sched_t& value, std::string_view);
    void set(ggml_gallocr_t& value, std::string_view);
    void set(ggml_threadpool*& value, std::string_view);
    void set(ggml_opt_context_t& value, std::string_view);
    void set(ggml_opt_dataset_t& value, std::string_view);
    void set(ggml_opt_result_t& value, std::string_view);
    void set(gguf_context*& value, std::string_view);
    void set(ggml_object*& value, std::string_view);
    void set(ggml_cplan*& value, std::string_view);
    void set(ggml_tallocr*& value, std::string_view);
    void set(ggml_threadpool_params*& value, std::string_view);
    void set(FILE*& value, std::string_view);
    void set(ggml_hash_set*& value, std::string_view);

    void set(ggml_init_params& value, std::string_view);
    void set(gguf_init_params& value, std::string_view);
    void set(ggml_opt_params& value, std::string_view);
    void set(struct ggml_backend_graph_copy& value, std::string_view);

    void set(bool& value, std::string_view);
    void set(int& value, std::string_view name);
    void set(std::int64_t& value, std::string_view name);
    void set(std::size_t& value, std::string_view name);
    void set(float& value, std::string_view);
    void set(double& value, std::string_view);
    void set(ggml_bf16_t& value, std::string_view);
    template <class T>
    requires(std::is_integral_v<T> && sizeof(T) <= 4 &&
             !std::is_same_v<T, int>) void set(T& value, std::string_view) {
        value = static_cast<T>(is_wrong() ? ~std::uint32_t{0} : choices_.below(4));
    }

    void set(char*& value, std::string_view name);
    void set(const char**& value, std::string_view);
    void set(void*& value, std::string_view name);
    void set(ggml_tensor**& value, std::string_view);
    void set(const ggml_tensor**& value, std::string_view);
    void set(ggml_backend_t*& value, std::string_view);
    void set(ggml_backend_buffer_type_t*& value, std::string_view);
    void set(ggml_backend_buffer_t*& value, std::string_view);
    void set(ggml_backend_dev_t*& value, std::string_view);
    void set(int*& value, std::string_view);
    void set(std::int64_t*& value, std::string_view);
    /// Other memory: the scratch.
    template <class T>
    requires(!std::is_function_v<T>) void set(T*& value, std::string_view) {
        value = is_wrong() ? nullptr : reinterpret_cast<T*>(world_.scratch());
    }
    /// A function to be called back.
    template <class R, class... P>
    void set(R (*&value)(P...), std::string_view) {
        if (is_wrong()) return;
        value = [](P...) -> R {
            if constexpr (std::is_same_v<R, bool>) {
                return true;
            } else if constexpr (!std::is_void_v<R>) {
                return R{};
            }
        };
    }
    void set(ggml_opt_get_optimizer_params& value, std::string_view);

    void keep(ggml_context* value) { world_.add(Kind::context, value, together_); }
    void keep(ggml_tensor* value) { world_.add_tensor(value, together_); }
    void keep(ggml_cgraph* value) { world_.add_graph(value, together_); }
    void keep(ggml_backend_t value) { world_.add(Kind::stream, value, together_); }
    void keep(ggml_backend_buffer_t value) { world_.add(Kind::buffer, value, together_); }
    void keep(ggml_backend_event_t value) { world_.add(Kind::event, value, together_); }
    void keep(ggml_backend_sched_t value) { world_.add(Kind::scheduler, value, together_); }
    void keep(ggml_gallocr_t value) { world_.add(Kind::allocator, value, together_); }
    void keep(ggml_threadpool* value) { world_.add(Kind::threadpool, value, together_); }
    void keep(ggml_opt_context_t value) { world_.add(Kind::training, value, together_); }
    void keep(ggml_opt_dataset_t value) { world_.add(Kind::dataset, value, together_); }
    void keep(ggml_opt_result_t value) { world_.add(Kind::result, value, together_); }
    void keep(gguf_context* value) { world_.add(Kind::file, value, together_); }
    void keep(FILE* value);
    void keep(const char* value);
    template <class T>
    void keep(const T&) {}

    template <class T>
    void note(const T& value) {
        if (!trace_.is_wanted()) return;
        if constexpr (std::is_pointer_v<T>) {
            note_pointer(reinterpret_cast<const void*>(value));
        } else if constexpr (std::is_arithmetic_v<T>) {
            note_text(std::to_string(value));
        } else if constexpr (std::is_enum_v<T>) {
            note_text(std::to_string(static_cast<long long>(value)));
        } else {
            note_text("{...}");
        }
    }
    void note_pointer(const void* value);
    void note_text(std::string_view text);
    void close_stream();

    template <class T>
    T hostile(std::initializer_list<T> values) {
        return choices_.pick(values);
    }

    ApiWorld& world_;
    Choices& choices_;
    Trace& trace_;
    Misuse misuse_;
    std::string file_;  ///< the path that calls get; nothing is there when a case begins

    std::string_view function_;
    bool has_memory_ = false, only_null_ = false, wrong_now_ = false;
    std::vector<std::string_view> names_;
    std::size_t argument_ = 0, wrong_at_ = 0;
    std::vector<int> together_;
    int maker_ = ApiWorld::kNone;  ///< the context among the arguments
    std::string line_;

    // What arguments point to while the call lasts.
    ggml_backend_buffer_t last_buffer_ = nullptr;
    ggml_context* loaded_ = nullptr;
    FILE* stream_ = nullptr;
    ggml_cplan plan_{};
    ggml_tallocr tallocr_{};
    ggml_threadpool_params pool_{};
};

/// A function of the C API, ready to be called with drawn arguments.
struct ApiFunction {
    std::string_view name;
    void (*call)(ApiArguments& arguments);
};

/// Every function of the tables in tests/abi that can be called here.
std::span<const ApiFunction> api_functions();

}  // namespace heddle::campaign
