// How close matrix products come to the machine: shares of the peak of multiply-adds (P) for many
// columns, of the bandwidth of reading memory (B) for one. The best of several runs counts, with
// P and B measured between them.
//
// products_bench [threads[:instruction set]] [type ...]

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../bench/products_bench.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace heddle::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Multiply-adds that do not wait for each other; returns how many operations they were.
double multiply_adds(std::int64_t rounds, float* sink) {
    const hn::ScalableTag<float> d;
    const auto x = hn::Set(d, sink[0]), f = hn::Set(d, 1e-9f);
    auto s0 = x, s1 = hn::Add(s0, x), s2 = hn::Add(s1, x), s3 = hn::Add(s2, x), s4 = hn::Add(s3, x),
         s5 = hn::Add(s4, x), s6 = hn::Add(s5, x), s7 = hn::Add(s6, x), s8 = hn::Add(s7, x),
         s9 = hn::Add(s8, x);
    for (std::int64_t i = 0; i < rounds; ++i) {
        s0 = hn::MulAdd(s0, f, x), s1 = hn::MulAdd(s1, f, x), s2 = hn::MulAdd(s2, f, x);
        s3 = hn::MulAdd(s3, f, x), s4 = hn::MulAdd(s4, f, x), s5 = hn::MulAdd(s5, f, x);
        s6 = hn::MulAdd(s6, f, x), s7 = hn::MulAdd(s7, f, x), s8 = hn::MulAdd(s8, f, x);
        s9 = hn::MulAdd(s9, f, x);
    }
    const auto sum = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)),
                             hn::Add(hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)), hn::Add(s8, s9)));
    sink[1] = hn::GetLane(sum);
    return 20.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

std::int64_t read_all(const std::int64_t* from, std::size_t count) {
    const hn::ScalableTag<std::int64_t> d;
    const std::size_t step = hn::Lanes(d);
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (std::size_t i = 0; i + 4 * step <= count; i += 4 * step) {
        s0 = hn::Add(s0, hn::LoadU(d, from + i));
        s1 = hn::Add(s1, hn::LoadU(d, from + i + step));
        s2 = hn::Add(s2, hn::LoadU(d, from + i + 2 * step));
        s3 = hn::Add(s3, hn::LoadU(d, from + i + 3 * step));
    }
    return hn::GetLane(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

}  // namespace heddle::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <thread>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace heddle::bench {
HWY_EXPORT(multiply_adds);
HWY_EXPORT(read_all);
}  // namespace heddle::bench

namespace {

/// Seconds. With one thread those that it ran, so that other programs count less.
double now(int threads) {
    timespec time;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Body>
double time_in_threads(int threads, Body body) {
    std::atomic<int> ready{0};
    std::vector<std::thread> others;
    const auto meet = [&] {
        ++ready;
        while (ready.load() < threads) {
        }
    };
    for (int i = 1; i < threads; ++i) {
        others.emplace_back([&, i] {
            meet();
            body(i);
        });
    }
    meet();
    const double start = now(threads);
    body(0);
    for (std::thread& other : others) other.join();
    return now(threads) - start;
}

double multiply_adds(std::int64_t rounds, float* sink) {
    using namespace heddle::bench;
    return HWY_DYNAMIC_DISPATCH(multiply_adds)(rounds, sink);
}

std::int64_t read_all(const std::int64_t* from, std::size_t count) {
    using namespace heddle::bench;
    return HWY_DYNAMIC_DISPATCH(read_all)(from, count);
}

struct Ceilings {
    double flops = 0, bytes = 0;
    int threads;
    std::vector<std::int64_t> memory = std::vector<std::int64_t>((std::size_t{1} << 30) / 8, 1);
    std::atomic<std::int64_t> sink{0};

    void measure_flops() {
        const std::int64_t rounds = 100'000;
        for (int i = 0; i < 10; ++i) {
            double each = 0;
            const double time = time_in_threads(threads, [&](int thread) {
                float numbers[2] = {0.5f, 0};
                const double done = multiply_adds(rounds, numbers);
                if (thread == 0) each = done;
                sink += static_cast<std::int64_t>(numbers[1]);
            });
            flops = std::max(flops, each * threads / time);
        }
    }
    void measure_bytes() {
        constexpr std::size_t kPieces = 32;  // short enough to fit between other programs
        const std::size_t part =
            memory.size() / kPieces / static_cast<std::size_t>(threads) / 32 * 32;
        for (std::size_t piece = 0; piece < kPieces; ++piece) {
            const std::int64_t* from = memory.data() + piece * (memory.size() / kPieces);
            const double time = time_in_threads(threads, [&](int i) {
                sink += read_all(from + static_cast<std::size_t>(i) * part, part);
            });
            bytes = std::max(bytes, static_cast<double>(8 * part) * threads / time);
        }
    }
};

/// Products of matrices of `type` with `columns` columns; matrices enough that none is in a cache
/// when there is one column.
class Products {
public:
    Products(ggml_type type, std::int64_t columns, int matrices) {
        const ggml_init_params params{
            .mem_size = 64 * ggml_tensor_overhead() + 64 * 1024 + 64 * ggml_graph_overhead(),
            .mem_buffer = nullptr,
            .no_alloc = true};
        context_ = ggml_init(params);
        ggml_tensor* b = ggml_new_tensor_2d(context_, GGML_TYPE_F32, kSize, columns);
        std::vector<ggml_tensor*> as;
        for (int i = 0; i < matrices; ++i) {
            as.push_back(ggml_new_tensor_2d(context_, type, kSize, kSize));
            graphs_.push_back(ggml_new_graph_custom(context_, 8, false));
            ggml_build_forward_expand(graphs_.back(), ggml_mul_mat(context_, as.back(), b));
        }
        buffer_ =
            ggml_backend_alloc_ctx_tensors_from_buft(context_, ggml_backend_cpu_buffer_type());
        std::vector<float> values(static_cast<std::size_t>(kSize * std::max(columns, kSize)));
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>((i * 2654435761u >> 8 & 0xffff)) / 65536.0f - 0.5f;
        }
        ggml_backend_tensor_set(b, values.data(), 0, ggml_nbytes(b));
        const std::vector<float> even(static_cast<std::size_t>(kSize), 1.0f);
        std::vector<char> encoded(ggml_nbytes(as[0]));
        ggml_quantize_chunk(type, values.data(), encoded.data(), 0, 64, kSize, even.data());
        const std::size_t some = 64 * ggml_row_size(type, kSize);
        for (std::size_t at = some; at < encoded.size(); at += some) {
            std::memcpy(encoded.data() + at, encoded.data(), std::min(some, encoded.size() - at));
        }
        for (ggml_tensor* a : as) ggml_backend_tensor_set(a, encoded.data(), 0, encoded.size());
        bytes_ = static_cast<double>(encoded.size());
    }
    ~Products() {
        ggml_backend_buffer_free(buffer_);
        ggml_free(context_);
    }
    Products(const Products&) = delete;
    Products& operator=(const Products&) = delete;

    static constexpr std::int64_t kSize = 4096;
    double bytes() const { return bytes_; }

    double seconds(ggml_backend_t backend, int threads) {
        const double start = now(threads);
        ggml_backend_graph_compute(backend, graphs_[next_++ % graphs_.size()]);
        return now(threads) - start;
    }

private:
    ggml_context* context_;
    ggml_backend_buffer_t buffer_;
    std::vector<ggml_cgraph*> graphs_;
    std::size_t next_ = 0;
    double bytes_ = 0;
};

void measure(ggml_type type, ggml_backend_t backend, Ceilings& ceilings) {
    std::printf("%-8s", ggml_type_name(type));
    const std::size_t matrix = ggml_row_size(type, Products::kSize) * Products::kSize;
    for (const std::int64_t columns : {1, 2, 8, 32, 512}) {
        const int matrices = columns <= 2 ? static_cast<int>((std::size_t{3} << 28) / matrix) : 1;
        Products products(type, columns, std::min(matrices, 60));
        double best = 1e9;
        for (int i = 0; i < (columns <= 2 ? 120 : columns == 512 ? 6 : 20); ++i) {
            if (columns > 2) ceilings.measure_flops();
            if (columns == 1 && i % 40 == 0) ceilings.measure_bytes();
            best = std::min(best, products.seconds(backend, ceilings.threads));
        }
        const double flops = 2.0 * Products::kSize * Products::kSize * static_cast<double>(columns);
        if (columns <= 2) {
            std::printf("  n=%ld %.2f B", columns, products.bytes() / best / ceilings.bytes);
        } else {
            std::printf("  n=%ld %.2f P", columns, flops / best / ceilings.flops);
        }
        std::fflush(stdout);
    }
    std::printf("\n");
}

}  // namespace

int main(int count, char** arguments) {
    const int threads = count > 1 ? std::atoi(arguments[1]) : 2;
    Ceilings ceilings{.threads = threads};
    ceilings.measure_flops();
    ceilings.measure_bytes();
    std::printf("%d threads: P = %.0f GFLOP/s, B = %.1f GB/s\n", threads, ceilings.flops / 1e9,
                ceilings.bytes / 1e9);
    if (const char* isa = count > 1 ? std::strchr(arguments[1], ':') : nullptr; isa != nullptr) {
        using SetIsa = bool (*)(const char*);
        const auto set_isa = reinterpret_cast<SetIsa>(
            ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), "heddle_cpu_set_isa"));
        if (set_isa == nullptr || !set_isa(isa + 1)) return 1;
    }
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, threads);
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_get_type_traits_cpu(type)->vec_dot == nullptr) continue;
        const bool wanted =
            count <= 2 || std::any_of(arguments + 2, arguments + count, [&](auto a) {
                return std::string_view(a) == ggml_type_name(type);
            });
        if (wanted) measure(type, backend, ceilings);
    }
    std::printf("P = %.0f GFLOP/s, B = %.1f GB/s\n", ceilings.flops / 1e9, ceilings.bytes / 1e9);
    ggml_backend_free(backend);
}

#endif
