// What a token takes: the launches of 32 layers of a 7B model, captured as one graph, with parts of
// them left out. Ratios are to reading the weights alone, measured in the same run.
//
//     cuda_layer_bench [TYPE...]      Q4_0 Q8_0 F16 Q4_K Q6_K IQ4_XS MXFP4

#include <cstring>

#include "backends/cuda/cuda_bench.cuh"
#include "backends/cuda/kernels/attention/attention.hpp"
#include "backends/cuda/kernels/products/gemv_column.hpp"
#include "backends/cuda/kernels/rows/rope_store.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/flash_attn.hpp"
#include "ops/glu.hpp"
#include "ops/norm.hpp"
#include "ops/rope.hpp"

namespace heddle::cuda {
namespace {

constexpr std::int64_t kWidth = 4096, kInner = 14336, kHeads = 32, kKeyHeads = 8, kHead = 128;
constexpr std::int64_t kKeyWidth = kKeyHeads * kHead;
constexpr int kLayers = 32;

template <class Params>
void set_params_of(Tensor& node, const Params& params) {
    std::memcpy(node.op_params, &params, sizeof params);
}

/// What of a layer is launched, and how.
struct Parts {
    const char* name;
    bool inputs = true, attention = true, outputs = true, gates = true, downs = true;
    bool is_chained = true, reads_ahead = true;
    bool is_attention_chained = true;  ///< to the kernels before and after it
    bool passes = true;                ///< results are coded by the launch that makes them
};

/// One layer's nodes over weights of its own.
struct Layer {
    Type type;
    Memory q_data, k_data, v_data, o_data, gate_data, up_data, down_data, keys_data, values_data;
    Tensor wq, wk, wv, wo, gate_w, up_w, down_w, norm_w;
    Tensor x, norm, scaled, q, k, v, attended, o, sum, norm2, scaled2, gate, up, glu, down, next;
    Tensor q3, k3, q_turned, k_turned, k_rows, v_rows, positions, rows, keys, values, store_k,
        store_v, seen_k, seen_v, q_view, mask, attention;

    static std::size_t bytes(Type type, std::int64_t rows, std::int64_t depth) {
        return row_size(type, depth) * static_cast<std::size_t>(rows);
    }
    std::size_t weight_bytes(const Parts& parts) const {
        return (parts.inputs ? bytes(type, kWidth + 2 * kKeyWidth, kWidth) : 0) +
               (parts.outputs ? bytes(type, kWidth, kWidth) : 0) +
               (parts.gates ? bytes(type, 2 * kInner, kWidth) : 0) +
               (parts.downs ? bytes(type, kWidth, kInner) : 0);
    }

    Layer(Type t, std::int64_t context, std::byte* scratch_room)
        : type(t),
          q_data(bytes(t, kWidth, kWidth), t == GGML_TYPE_F16),
          k_data(bytes(t, kKeyWidth, kWidth), t == GGML_TYPE_F16),
          v_data(bytes(t, kKeyWidth, kWidth), t == GGML_TYPE_F16),
          o_data(bytes(t, kWidth, kWidth), t == GGML_TYPE_F16),
          gate_data(bytes(t, kInner, kWidth), t == GGML_TYPE_F16),
          up_data(bytes(t, kInner, kWidth), t == GGML_TYPE_F16),
          down_data(bytes(t, kWidth, kInner), t == GGML_TYPE_F16),
          keys_data(static_cast<std::size_t>(context * kKeyWidth) * 2, true),
          values_data(static_cast<std::size_t>(context * kKeyWidth) * 2, true) {
        std::byte* at = scratch_room;
        const auto room = [&](std::int64_t floats) {
            std::byte* const here = at;
            at += (floats * 4 + 255) / 256 * 256;
            return here;
        };
        const auto vector = [&](std::int64_t n) {
            return tensor(GGML_TYPE_F32, {n, 1, 1, 1}, room(n));
        };
        const auto product = [&](const Tensor& w, const Tensor& of) {
            Tensor y = vector(w.ne[1]);
            y.op = GGML_OP_MUL_MAT;
            y.src[0] = const_cast<Tensor*>(&w);
            y.src[1] = const_cast<Tensor*>(&of);
            return y;
        };
        wq = tensor(t, {kWidth, kWidth, 1, 1}, q_data.data);
        wk = tensor(t, {kWidth, kKeyWidth, 1, 1}, k_data.data);
        wv = tensor(t, {kWidth, kKeyWidth, 1, 1}, v_data.data);
        wo = tensor(t, {kWidth, kWidth, 1, 1}, o_data.data);
        gate_w = tensor(t, {kWidth, kInner, 1, 1}, gate_data.data);
        up_w = tensor(t, {kWidth, kInner, 1, 1}, up_data.data);
        down_w = tensor(t, {kInner, kWidth, 1, 1}, down_data.data);
        norm_w = vector(kWidth);
        x = vector(kWidth);
        const auto normed = [&](Tensor& n, Tensor& s, const Tensor& of) {
            n = vector(kWidth);
            n.op = GGML_OP_RMS_NORM;
            n.src[0] = const_cast<Tensor*>(&of);
            set_params_of(n, ops::RmsNorm::Params{1e-5f});
            s = vector(kWidth);
            s.op = GGML_OP_MUL;
            s.src[0] = &n;
            s.src[1] = &norm_w;
        };
        normed(norm, scaled, x);
        q = product(wq, scaled), k = product(wk, scaled), v = product(wv, scaled);
        positions = tensor(GGML_TYPE_I32, {1, 1, 1, 1}, room(4));
        rows = tensor(GGML_TYPE_I64, {1, 1, 1, 1}, room(4));
        check(cudaMemset(positions.data, 0, 4), "positions");
        check(cudaMemset(rows.data, 0, 8), "rows");
        q3 = tensor(GGML_TYPE_F32, {kHead, kHeads, 1, 1}, q.data);
        k3 = tensor(GGML_TYPE_F32, {kHead, kKeyHeads, 1, 1}, k.data);
        const auto turned = [&](Tensor& of) {
            Tensor y = of;
            y.op = GGML_OP_ROPE;
            y.src[0] = &of;
            y.src[1] = &positions;
            ops::Rope::Params params{};
            params.n_dims = kHead;
            params.freq_base = 10000, params.freq_scale = 1, params.attn_factor = 1;
            set_params_of(y, params);
            return y;
        };
        q_turned = turned(q3), k_turned = turned(k3);
        keys = tensor(GGML_TYPE_F16, {kKeyWidth, context, 1, 1}, keys_data.data);
        values = tensor(GGML_TYPE_F16, {kKeyWidth, context, 1, 1}, values_data.data);
        k_rows = tensor(GGML_TYPE_F32, {kKeyWidth, 1, 1, 1}, k.data);
        v_rows = tensor(GGML_TYPE_F32, {kKeyWidth, 1, 1, 1}, v.data);
        store_k = keys, store_v = values;
        for (Tensor* store : {&store_k, &store_v}) {
            store->op = GGML_OP_SET_ROWS;
            store->src[0] = store == &store_k ? &k_rows : &v_rows;
            store->src[1] = &rows;
        }
        const auto seen = [&](const Tensor& cache) {
            Tensor y = tensor(GGML_TYPE_F16, {kHead, context, kKeyHeads, 1}, cache.data);
            y.nb[1] = cache.nb[1], y.nb[2] = kHead * 2,
            y.nb[3] = cache.nb[1] * std::size_t(context);
            return y;
        };
        seen_k = seen(keys), seen_v = seen(values);
        q_view = tensor(GGML_TYPE_F32, {kHead, 1, kHeads, 1}, q.data);
        mask = tensor(GGML_TYPE_F16, {context, 1, 1, 1}, room(context));
        check(cudaMemset(mask.data, 0, static_cast<std::size_t>(context) * 2), "mask");
        attention = tensor(GGML_TYPE_F32, {kHead, kHeads, 1, 1}, room(kWidth));
        attention.op = GGML_OP_FLASH_ATTN_EXT;
        attention.src[0] = &q_view, attention.src[1] = &seen_k, attention.src[2] = &seen_v;
        attention.src[3] = &mask;
        set_params_of(attention, ops::FlashAttnExt::Params{0.088F, 0, 0, GGML_PREC_DEFAULT});
        attended = tensor(GGML_TYPE_F32, {kWidth, 1, 1, 1}, attention.data);
        const auto added = [&](const Tensor& a, const Tensor& b) {
            Tensor y = vector(kWidth);
            y.op = GGML_OP_ADD;
            y.src[0] = const_cast<Tensor*>(&a), y.src[1] = const_cast<Tensor*>(&b);
            return y;
        };
        o = product(wo, attended);
        sum = added(o, x);
        normed(norm2, scaled2, sum);
        gate = product(gate_w, scaled2), up = product(up_w, scaled2);
        glu = vector(kInner);
        glu.op = GGML_OP_GLU;
        glu.src[0] = &gate, glu.src[1] = &up;
        set_params_of(glu, ops::Glu::Params{GGML_GLU_OP_SWIGLU});
        down = product(down_w, glu);
        next = added(down, sum);
        next.data = x.data;
    }
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;
};

void launch_layer(const Layer& l, const Parts& parts, std::byte* columns, Launch& launch) {
    const bool passes = parts.passes && is_passed_to(l.type);
    const auto done = [&] {
        launch.is_chained = parts.is_chained;
        launch.taken = launch.left, launch.left = {}, launch.left_weights = nullptr;
    };
    const auto leave = [&](int half, const Tensor* weights) {
        if (passes) launch.left = PassedColumn::in(columns, half), launch.left_weights = weights;
    };
    launch.reads_ahead = parts.reads_ahead;
    if (!parts.downs) launch.taken = {};
    if (parts.inputs) {
        launch_columns({.norm = &l.norm,
                        .scale = &l.scaled,
                        .products = {&l.q, &l.k, &l.v},
                        .count = 3,
                        .ends = {RopeStore{&l.q_turned, nullptr},
                                 {&l.k_turned, &l.store_k},
                                 {nullptr, &l.store_v}},
                        .has_early_inputs = parts.reads_ahead},
                       launch);
        done();
    }
    if (parts.attention) {
        launch.is_chained &= parts.is_attention_chained;
        leave(0, nullptr);
        kAttentionToken.launch(l.attention, launch), done();
        launch.is_chained &= parts.is_attention_chained;
    }
    if (parts.outputs) {
        leave(1, &l.norm_w);
        launch_columns(
            {.products = {&l.o}, .count = 1, .sum = &l.sum, .has_early_inputs = parts.reads_ahead},
            launch),
            done();
    }
    if (parts.gates) {
        leave(0, nullptr);
        launch_columns({.norm = &l.norm2,
                        .scale = &l.scaled2,
                        .products = {&l.gate, &l.up},
                        .count = 2,
                        .gate = &l.glu,
                        .has_early_inputs = parts.reads_ahead},
                       launch),
            done();
    }
    if (parts.downs) {
        leave(1, &l.norm_w);
        launch_columns({.products = {&l.down},
                        .count = 1,
                        .sum = &l.next,
                        .has_early_inputs = parts.reads_ahead},
                       launch),
            done();
    }
}

void measure(Bench& bench, Type type, std::int64_t context) {
    Memory room(8 << 20), scratch(64 << 20), columns(PassedColumn::kRoom),
        tickets(kTickets * sizeof(unsigned));
    check(cudaMemset(tickets.data, 0, kTickets * sizeof(unsigned)), "tickets");
    std::vector<std::unique_ptr<Layer>> layers;
    for (int i = 0; i < kLayers; ++i)
        layers.push_back(std::make_unique<Layer>(type, context, room.data));
    constexpr Parts kParts[] = {
        {.name = "all of a layer"},
        {.name = "all, each kernel after the one before", .is_chained = false},
        {.name = "all, weights after the kernel before", .reads_ahead = false},
        {.name = "all, activations coded by who reads them", .passes = false},
        {.name = "all but attention", .attention = false},
        {.name = "all, attention by itself", .is_attention_chained = false},
        {.name = "q, k, v", .attention = false, .outputs = false, .gates = false, .downs = false},
        {.name = "attention", .inputs = false, .outputs = false, .gates = false, .downs = false},
        {.name = "output of attention",
         .inputs = false,
         .attention = false,
         .gates = false,
         .downs = false},
        {.name = "gate and up",
         .inputs = false,
         .attention = false,
         .outputs = false,
         .downs = false},
        {.name = "down", .inputs = false, .attention = false, .outputs = false, .gates = false},
        {.name = "all of a layer, again"},
    };
    std::printf("%s, %d layers, %d keys\n", type_info(type).name, kLayers, int(context));
    for (const Parts& parts : kParts) {
        const double t = bench.seconds(1, [&](int) {
            Launch launch{.stream = bench.stream,
                          .scratch = scratch.data,
                          .device = bench.device,
                          .tickets = reinterpret_cast<unsigned*>(tickets.data)};
            for (const auto& layer : layers) launch_layer(*layer, parts, columns.data, launch);
        });
        const double bytes = double(layers[0]->weight_bytes(parts)) * kLayers;
        std::printf("    %-44s %8.1f us, %6.2f a layer", parts.name, t * 1e6, t * 1e6 / kLayers);
        if (bytes > 0) std::printf("  %3.0f %% of reading", 100 * bytes / bench.ceiling / t);
        std::printf("\n");
    }
}

/// One query over a long cache, as many times as there are layers of it that do not fit L2.
void measure_attention(Bench& bench, Type type, std::int64_t keys) {
    constexpr int kCaches = 8;
    const std::size_t row = row_size(type, kKeyWidth);
    const Memory cache(row * static_cast<std::size_t>(keys) * 2 * kCaches, type == GGML_TYPE_F16);
    const Memory room(1 << 20), scratch(64 << 20), tickets(kTickets * sizeof(unsigned));
    check(cudaMemset(tickets.data, 0, kTickets * sizeof(unsigned)), "tickets");
    std::vector<Tensor> tensors(2 * kCaches + 1), nodes(kCaches);
    tensors[2 * kCaches] = tensor(GGML_TYPE_F32, {kHead, 1, kHeads, 1}, room.data);
    for (int i = 0; i < 2 * kCaches; ++i) {
        Tensor& t = tensors[std::size_t(i)];
        t = tensor(type, {kHead, keys, kKeyHeads, 1},
                   cache.data + std::size_t(i) * row * static_cast<std::size_t>(keys));
        t.nb[1] = row, t.nb[2] = row / kKeyHeads;
        t.nb[3] = row * static_cast<std::size_t>(keys);
    }
    for (int i = 0; i < kCaches; ++i) {
        Tensor& node = nodes[std::size_t(i)];
        node = tensor(GGML_TYPE_F32, {kHead, kHeads, 1, 1}, room.data + 65536);
        node.op = GGML_OP_FLASH_ATTN_EXT;
        node.src[0] = &tensors[2 * kCaches];
        node.src[1] = &tensors[std::size_t(2 * i)], node.src[2] = &tensors[std::size_t(2 * i + 1)];
        set_params_of(node, ops::FlashAttnExt::Params{0.088F, 0, 0, GGML_PREC_DEFAULT});
    }
    for (const Kernel& kernel : attention_kernels()) {
        if (!kernel.objection(nodes[0]).empty()) continue;
        const double t = bench.seconds(kCaches, [&](int i) {
            kernel.launch(nodes[std::size_t(i)],
                          {.stream = bench.stream,
                           .scratch = scratch.data,
                           .device = bench.device,
                           .tickets = reinterpret_cast<unsigned*>(tickets.data)});
        });
        const double bytes = 2.0 * double(row) * double(keys);
        std::printf("%s, one query, %6d keys %s: %7.1f us, %3.0f %% of reading\n", kernel.name,
                    int(keys), type_info(type).name, t * 1e6, 100 * bytes / bench.ceiling / t);
        if (&kernel == &attention_kernels()[1]) break;
    }
}

}  // namespace
}  // namespace heddle::cuda

int main(int count, char** words) {
    using namespace heddle;
    using namespace heddle::cuda;
    Bench bench;
    measure_reading(bench);
    const std::pair<const char*, Type> types[] = {
        {"Q4_0", GGML_TYPE_Q4_0},  {"Q8_0", GGML_TYPE_Q8_0}, {"F16", GGML_TYPE_F16},
        {"Q4_K", GGML_TYPE_Q4_K},  {"Q6_K", GGML_TYPE_Q6_K}, {"IQ4_XS", GGML_TYPE_IQ4_XS},
        {"MXFP4", GGML_TYPE_MXFP4}};
    for (const auto& [name, type] : types) {
        bool is_wanted = count == 1;
        for (int i = 1; i < count; ++i) is_wanted |= std::strcmp(words[i], name) == 0;
        if (is_wanted) measure(bench, type, 512);
    }
    if (count > 1) return 0;
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        for (const std::int64_t keys : {512, 4096, 32768}) measure_attention(bench, type, keys);
    }
    return 0;
}
