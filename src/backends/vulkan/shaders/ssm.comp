#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "activations.glsl"
#include "faults.glsl"
#include "group.glsl"

// SSM_CONV, and SSM_SCAN with a workgroup for each dimension of each head. Its state lies where the
// newest snapshot goes, and every element of it belongs to one invocation.
layout(constant_id = 1) const int FUNCTION = 0;

const int CONV = 0, SCAN = 1;

float conv(ivec4 at) {
    const Operand signal = args.src[0], kernel = args.src[1];
    float total = 0;
    for (int k = 0; k < kernel.extent.x; ++k) {
        total += get_f32(signal, ivec4(at.y + k, at.x, at.z, 0)) * get_f32(kernel, ivec4(k, at.x, 0, 0));
    }
    return total;
}

// args.i: 0 snapshots that are kept.
void scan(uint r) {
    const Operand pool = args.src[0], x = args.src[1], dt = args.src[2], decay = args.src[3];
    const Operand b = args.src[4], c = args.src[5];
    const int size = pool.extent.x, dims = x.extent.x, heads = x.extent.y, tokens = x.extent.z;
    const int d = int(r) % dims, h = int(r) / dims % heads, s = int(r) / dims / heads;
    const int g = h / (heads / b.extent.y), snapshot = size * dims * heads * x.extent.w;
    const uint64_t state = args.y.data + uint64_t(dims * heads * tokens * x.extent.w + size * int(r)) * 4;
    const int origin = get_index(args.src[6], ivec4(s, 0, 0, 0));
    const bool is_known = is_inside(origin, pool.extent.w);
    for (int n = int(lane()); n < size; n += int(width())) {
        store_f32(state + uint64_t(n) * 4, is_known ? get_f32(pool, ivec4(n, d, h, origin)) : 0.0);
    }
    for (int t = 0; t < tokens; ++t) {
        const float step = softplus(get_f32(dt, ivec4(h, t, s, 0))), given = get_f32(x, ivec4(d, h, t, s)) * step;
        const int slot = tokens - 1 - t;
        float part = 0;
        for (int n = int(lane()); n < size; n += int(width())) {
            const float rate = get_f32(decay, ivec4(decay.extent.x == 1 ? 0 : n, h, 0, 0));
            const uint64_t at = state + uint64_t(n) * 4;
            const float value = load_f32(at) * exp(step * rate) + get_f32(b, ivec4(n, g, t, s)) * given;
            store_f32(at, value);
            if (slot > 0 && slot < args.i[0]) store_f32(at + uint64_t(slot) * uint64_t(snapshot) * 4, value);
            part += value * get_f32(c, ivec4(n, g, t, s));
        }
        const float total = group_sum(part);
        if (lane() == 0u) store_f32(args.y.data + uint64_t(d + dims * (h + heads * (t + tokens * s))) * 4, total);
    }
}

void main() {
    if (FUNCTION == SCAN) {
        if (group_number() < args.count) scan(group_number());
        return;
    }
    const uint i = element_number();
    if (i >= args.count) return;
    const ivec4 at = unravel(i, args.y.extent);
    put_f32(args.y, at, conv(at));
}
