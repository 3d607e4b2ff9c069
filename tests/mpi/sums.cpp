// Sums over workers, as a joined device asks for them.
//
//     mpi_sums WORKERS [until-lost]
//
// with HEDDLE_MPI_HOSTS=localhost:WORKERS in the environment. Sums over all workers, and over the
// first two, are the same on all of them, and right but for rounding. With `until-lost` it says
// "ready", adds up until that fails, and tells what each worker's stream says.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml.h"
#include "heddle/heddle.h"

namespace {

using Values = std::vector<float>;

[[noreturn]] void die(const std::string& what) {
    std::fprintf(stderr, "mpi_sums: %s: %s\n", what.c_str(), heddle_last_error());
    std::exit(1);
}

/// A tensor on each of some workers.
class Workers {
public:
    Workers(int count, std::int64_t length)
        : context_(ggml_init({std::size_t{1} << 16, nullptr, true})) {
        std::mt19937 random(static_cast<unsigned>(length));
        std::normal_distribution<float> normal;
        for (int i = 0; i < count; ++i) {
            const std::string name = "MPI" + std::to_string(i + 1) + ":CPU";
            const ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
            if (device == nullptr) die("there is no " + name);
            registration_ = ggml_backend_dev_backend_reg(device);
            owned_.emplace_back(ggml_backend_dev_init(device, nullptr));
            streams_.push_back(owned_.back().get());
            tensors_.push_back(ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, length));
            tensors_.back()->flags |= GGML_TENSOR_FLAG_COMPUTE;
            buffers_.emplace_back(
                ggml_backend_alloc_buffer(streams_.back(), ggml_nbytes(tensors_.back())));
            if (buffers_.back() == nullptr) die(name + " has no memory");
            ggml_backend_tensor_alloc(buffers_.back().get(), tensors_.back(),
                                      ggml_backend_buffer_get_base(buffers_.back().get()));
            Values& own = values_.emplace_back(static_cast<std::size_t>(length));
            for (float& value : own) value = normal(random);
        }
        sums_ = function<ggml_backend_comm_init_t>("ggml_backend_comm_init")(streams_.data(),
                                                                             streams_.size());
        if (sums_ == nullptr) die("workers do not add up");
    }
    ~Workers() { function<ggml_backend_comm_free_t>("ggml_backend_comm_free")(sums_); }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    void write() {
        for (std::size_t i = 0; i < tensors_.size(); ++i) {
            ggml_backend_tensor_set_async(streams_[i], tensors_[i], values_[i].data(), 0,
                                          ggml_nbytes(tensors_[i]));
        }
    }
    void add_up() {
        const auto add =
            function<ggml_backend_comm_allreduce_tensor_t>("ggml_backend_comm_allreduce_tensor");
        if (!add(sums_, tensors_.data())) die("a sum is refused");
    }
    /// What went wrong in a worker's stream; empty if nothing did.
    std::string failure(std::size_t i) {
        heddle_clear_error();
        ggml_backend_synchronize(streams_[i]);
        return heddle_last_error();
    }
    std::size_t size() const { return streams_.size(); }

    void check() {
        Values first;
        for (std::size_t i = 0; i < size(); ++i) {
            Values found(values_[0].size());
            ggml_backend_tensor_get_async(streams_[i], tensors_[i], found.data(), 0,
                                          ggml_nbytes(tensors_[i]));
            if (const std::string wrong = failure(i); !wrong.empty()) die("worker: " + wrong);
            if (i == 0) first = found;
            if (std::memcmp(found.data(), first.data(), ggml_nbytes(tensors_[i])) != 0) {
                die("workers have different sums");
            }
        }
        for (std::size_t at = 0; at < first.size(); ++at) {
            double sum = 0, size = 0;
            for (const Values& own : values_) {
                sum += own[at];
                size += std::abs(own[at]);
            }
            // A rounding for each addend.
            const double allowed =
                static_cast<double>(values_.size()) * size * std::numeric_limits<float>::epsilon();
            if (std::abs(first[at] - sum) > allowed)
                die("value " + std::to_string(at) + " is wrong");
        }
    }

private:
    template <class Function>
    Function function(const char* name) const {
        return reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(registration_, name));
    }

    ggml_context_ptr context_;
    ggml_backend_reg_t registration_ = nullptr;
    std::vector<ggml_backend_ptr> owned_;
    std::vector<ggml_backend_t> streams_;
    std::vector<ggml_tensor*> tensors_;
    std::vector<ggml_backend_buffer_ptr> buffers_;
    std::vector<Values> values_;
    void* sums_ = nullptr;
};

void compare(int count) {
    for (const std::int64_t length : {1, 8192, 700'001}) {
        Workers all(count, length), again(count, length + 1), two(2, length + 2);
        for (int round = 0; round < 10; ++round) {
            for (Workers* each : {&all, &again, &two}) each->write();
            for (Workers* each : {&two, &all, &again}) each->add_up();
            for (Workers* each : {&all, &again, &two}) each->check();
        }
        std::printf("%d workers, %lld values: the same on all\n", count,
                    static_cast<long long>(length));
    }
}

void add_until_lost(int count) {
    Workers all(count, 100'000);
    all.write();
    std::vector<std::string> failures(all.size());
    const auto is_going_on = [](const std::string& failure) { return failure.empty(); };
    for (int round = 0; std::ranges::any_of(failures, is_going_on); ++round) {
        heddle_clear_error();
        all.add_up();
        const std::string refused = heddle_last_error();  // where a worker is known to be lost
        for (std::string& failure : failures) {
            if (failure.empty() && !refused.empty()) failure = "not begun: " + refused;
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (failures[i].empty()) failures[i] = all.failure(i);  // told once
        }
        if (round == 0) std::printf("ready\n");
        std::fflush(stdout);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::printf("worker %zu: %s\n", i + 1, failures[i].c_str());
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 0;
    if (count < 2) return 2;
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_backend_load_all();
    if (argc > 2) {
        add_until_lost(count);
    } else {
        compare(count);
    }
    return 0;
}
