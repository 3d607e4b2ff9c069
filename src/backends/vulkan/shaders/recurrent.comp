#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "group.glsl"

// RWKV_WKV6, RWKV_WKV7, GATED_LINEAR_ATTN, GATED_DELTA_NET and SOLVE_TRI. States lie in the result,
// where they are wanted in the end; every element of them belongs to one invocation.
layout(constant_id = 1) const int FUNCTION = 0;

const int WKV6 = 0, WKV7 = 1, GLA = 2, DELTA = 3, SOLVE = 4;

// args.i: 0 size of a head, 1 heads, 2 tokens, 3 sequences, 4 tokens of a sequence.
int size() { return args.i[0]; }
int heads() { return args.i[1]; }

float load_at(uint64_t base, int index) { return load_f32(base + uint64_t(index) * 4); }
void store_at(uint64_t base, int index, float value) { store_f32(base + uint64_t(index) * 4, value); }
uint64_t states() { return args.y.data + uint64_t(size() * heads() * args.i[2]) * 4; }

// State (key, value): an invocation has the column of one value. A workgroup has a head.
void keys_first(uint head) {
    const Operand k = args.src[0], v = args.src[1], r = args.src[2], gate = args.src[FUNCTION == WKV6 ? 4 : 3];
    const uint64_t before = args.src[FUNCTION == WKV6 ? 5 : 4].data;
    const int n = size(), h = int(head) % heads(), s = int(head) / heads(), per = args.i[4];
    for (int j = int(lane()); j < n; j += int(width())) {
        const int column = int(head) * n * n + j;
        for (int i = 0; i < n; ++i) store_at(states(), column + i * n, load_at(before, column + i * n));
        for (int t = s * per; t < (s + 1) * per; ++t) {
            const float value = get_f32(v, ivec4(j, h, t, 0));
            float total = 0;
            for (int i = 0; i < n; ++i) {
                const ivec4 at = ivec4(i, h, t, 0);
                const float kept = load_at(states(), column + i * n), kv = get_f32(k, at) * value;
                if (FUNCTION == WKV6) {
                    total += get_f32(r, at) * (get_f32(args.src[3], ivec4(i, h, 0, 0)) * kv + kept);
                    store_at(states(), column + i * n, kept * get_f32(gate, at) + kv);
                } else {
                    const float changed = kept * get_f32(gate, at) + kv;
                    store_at(states(), column + i * n, changed);
                    total += get_f32(r, at) * args.f[0] * changed;
                }
            }
            store_at(args.y.data, (t * heads() + h) * n + j, total);
        }
    }
}

// State (value, key): a workgroup has the row of one value.
void wkv7(uint row) {
    const Operand r = args.src[0], w = args.src[1], k = args.src[2], v = args.src[3], a = args.src[4];
    const int n = size(), i = int(row) % n, h = int(row) / n % heads(), s = int(row) / n / heads(), per = args.i[4];
    const int begin = int(row) * n;
    for (int j = int(lane()); j < n; j += int(width())) store_at(states(), begin + j, load_at(args.src[6].data, begin + j));
    for (int t = s * per; t < (s + 1) * per; ++t) {
        float part = 0;
        for (int j = int(lane()); j < n; j += int(width())) {
            part += get_f32(a, ivec4(j, h, t, 0)) * load_at(states(), begin + j);
        }
        const float removed = group_sum(part), value = get_f32(v, ivec4(i, h, t, 0));
        part = 0;
        for (int j = int(lane()); j < n; j += int(width())) {
            const ivec4 at = ivec4(j, h, t, 0);
            const float kept = load_at(states(), begin + j) * get_f32(w, at) + value * get_f32(k, at) +
                               removed * get_f32(args.src[5], at);
            store_at(states(), begin + j, kept);
            part += kept * get_f32(r, at);
        }
        const float total = group_sum(part);
        if (lane() == 0u) store_at(args.y.data, (t * heads() + h) * n + i, total);
    }
}

// State (value, key): a workgroup has the row of one value. It is decayed, corrected by what it
// predicts wrongly, then read. args.i[5]: snapshots that are kept.
void delta(uint row) {
    const Operand q = args.src[0], k = args.src[1], v = args.src[2], gate = args.src[3], beta = args.src[4];
    const int n = size(), tokens = args.i[4], sequences = args.i[3], slots = args.i[5];
    const int j = int(row) % n, h = int(row) / n % heads(), s = int(row) / n / heads();
    const int sk = s / (sequences / k.extent.w), hk = h % k.extent.y, sq = s / (sequences / q.extent.w), hq = h % q.extent.y;
    const int snapshot = n * n * heads() * sequences, begin = int(row) * n;
    for (int i = int(lane()); i < n; i += int(width())) store_at(states(), begin + i, load_at(args.src[5].data, begin + i));
    for (int t = 0; t < tokens; ++t) {
        float part = 0;
        for (int i = int(lane()); i < n; i += int(width())) {
            const float decay = exp(get_f32(gate, ivec4(gate.extent.x == 1 ? 0 : i, h, t, s)));
            const float kept = load_at(states(), begin + i) * decay;
            store_at(states(), begin + i, kept);
            part += kept * get_f32(k, ivec4(i, hk, t, sk));
        }
        const float wrong = get_f32(v, ivec4(j, h, t, s)) - group_sum(part);
        const float correction = get_f32(beta, ivec4(0, h, t, s)) * wrong;
        const int slot = tokens - 1 - t;
        part = 0;
        for (int i = int(lane()); i < n; i += int(width())) {
            const float kept = load_at(states(), begin + i) + correction * get_f32(k, ivec4(i, hk, t, sk));
            store_at(states(), begin + i, kept);
            if (slot > 0 && slot < slots) store_at(states(), slot * snapshot + begin + i, kept);
            part += kept * get_f32(q, ivec4(i, hq, t, sq));
        }
        const float total = group_sum(part) / sqrt(float(n));
        if (lane() == 0u) store_at(args.y.data, ((s * tokens + t) * heads() + h) * n + j, total);
    }
}

// Forward substitution; an invocation has one right-hand side.
void solve(uint i) {
    const Operand a = args.src[0], b = args.src[1], x = args.y;
    const ivec4 at = unravel(i, ivec4(x.extent.x, 1, x.extent.zw));
    for (int r = 0; r < x.extent.y; ++r) {
        float value = get_f32(b, ivec4(at.x, r, at.zw));
        for (int t = 0; t < r; ++t) value -= get_f32(a, ivec4(t, r, at.zw)) * get_f32(x, ivec4(at.x, t, at.zw));
        put_f32(x, ivec4(at.x, r, at.zw), value / get_f32(a, ivec4(r, r, at.zw)));
    }
}

void main() {
    if (FUNCTION == SOLVE) {
        if (element_number() < args.count) solve(element_number());
        return;
    }
    const uint r = group_number();
    if (r >= args.count) return;
    if (FUNCTION == WKV7) {
        wkv7(r);
    } else if (FUNCTION == DELTA) {
        delta(r);
    } else {
        keys_first(r);
    }
}
