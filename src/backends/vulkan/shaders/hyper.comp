#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "formats.glsl"

// DSV4_HC_COMB, DSV4_HC_PRE, DSV4_HC_POST (hyper-connections) and LIGHTNING_INDEXER.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_K = TYPE_F32;
layout(constant_id = 3) const int TYPE_MASK = TYPE_F16;

const int COMB = 0, PRE = 1, POST = 2, INDEXER = 3;

// A soft-max whose columns and rows are then made to sum to one, alternating; shares by target and
// source. An invocation has a token.
void comb(int t) {
    const float eps = args.f[0];
    mat4 share;  // share[s][d]
    [[unroll]] for (int s = 0; s < 4; ++s) {
        vec4 logits;
        [[unroll]] for (int d = 0; d < 4; ++d) {
            const int at = 8 + d + 4 * s;
            logits[d] = get_f32(args.src[0], ivec4(at, t, 0, 0)) * get_f32(args.src[1], ivec4(2, 0, 0, 0)) +
                        get_f32(args.src[2], ivec4(at, 0, 0, 0));
        }
        const float largest = max(max(logits.x, logits.y), max(logits.z, logits.w));
        const vec4 weights = exp(logits - largest);
        share[s] = weights / dot(weights, vec4(1)) + eps;
    }
    for (int i = 0; i < max(args.i[0], 1); ++i) {
        if (i > 0) {
            [[unroll]] for (int s = 0; s < 4; ++s) share[s] /= eps + dot(share[s], vec4(1));
        }
        const vec4 totals = eps + share[0] + share[1] + share[2] + share[3];
        [[unroll]] for (int s = 0; s < 4; ++s) share[s] /= totals;
    }
    [[unroll]] for (int s = 0; s < 4; ++s) {
        [[unroll]] for (int d = 0; d < 4; ++d) put_f32(args.y, ivec4(d, s, t, 0), share[s][d]);
    }
}

float pre(ivec4 at) {
    const Operand x = args.src[0];
    float total = 0;
    for (int h = 0; h < x.extent.y; ++h) {
        total += get_f32(x, ivec4(at.x, h, at.y, 0)) * get_f32(args.src[1], ivec4(h, at.y, 0, 0));
    }
    return total;
}

float post(ivec4 at) {
    const Operand residual = args.src[1];
    float total = get_f32(args.src[0], ivec4(at.x, at.z, 0, 0)) * get_f32(args.src[2], ivec4(at.y, at.z, 0, 0));
    for (int s = 0; s < residual.extent.y; ++s) {
        total += get_f32(residual, ivec4(at.x, s, at.z, 0)) * get_f32(args.src[3], ivec4(at.y, s, at.z, 0));
    }
    return total;
}

// An invocation for each key and token.
float indexer(ivec4 at) {
    const Operand q = args.src[0], mask = args.src[3];
    const uint64_t key = address(args.src[1], ivec4(0, 0, at.x, at.w));
    float total = 0;
    for (int h = 0; h < q.extent.y; ++h) {
        float product = 0, values[8];
        for (int d = 0; d < q.extent.x; d += 8) {
            decode8(TYPE_K, key, d, args.codebooks, values);
            [[unroll]] for (int j = 0; j < 8; ++j) product += get_f32(q, ivec4(d + j, h, at.y, at.w)) * values[j];
        }
        total += get_f32(args.src[2], ivec4(h, at.y, 0, at.w)) * max(product, 0.0);
    }
    return total + get(mask, ivec4(at.x, at.y, 0, at.w % mask.extent.w), TYPE_MASK);
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    if (FUNCTION == COMB) {
        comb(int(i));
        return;
    }
    const ivec4 at = unravel(i, args.y.extent);
    put_f32(args.y, at, FUNCTION == PRE ? pre(at) : FUNCTION == POST ? post(at) : indexer(at));
}
