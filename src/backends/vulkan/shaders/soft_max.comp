#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "alibi.glsl"
#include "group.glsl"

// SOFT_MAX with mask, ALiBi slopes and sinks, its gradient, and CROSS_ENTROPY_LOSS with its own: a
// workgroup for each row.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_MASK = TYPE_F32;

const int SOFT_MAX = 0, SOFT_MAX_BACK = 1, LOSS_OF_ROWS = 2, LOSS = 3, LOSS_BACK = 4;

// Logits are computed three times rather than kept: rows may be longer than any shared memory.
float logit(Operand x, Operand mask, ivec4 at, float slope) {
    const float value = args.f[0] * get_f32(x, at);
    if (!is_there(mask)) return value;
    return value + slope * get(mask, ivec4(at.xy, at.z % mask.extent.z, at.w % mask.extent.w), TYPE_MASK);
}

void soft_max(uint r) {
    const Operand x = args.src[0], mask = args.src[1], sinks = args.src[2];
    const ivec4 row = unravel_row(r, x.extent);
    const float slope = slope_of(row.z);
    const float sink = is_there(sinks) ? get_f32(sinks, ivec4(row.z, 0, 0, 0)) : -INFINITY;
    float largest = sink;
    for (int i = int(lane()); i < x.extent.x; i += int(width())) {
        largest = max(largest, logit(x, mask, ivec4(i, row.yzw), slope));
    }
    largest = group_max(largest);
    float part = 0;
    for (int i = int(lane()); i < x.extent.x; i += int(width())) {
        part += exp(logit(x, mask, ivec4(i, row.yzw), slope) - largest);
    }
    float total = group_sum(part);
    if (is_there(sinks)) total += exp(sink - largest);
    const float share = 1 / total;
    for (int i = int(lane()); i < x.extent.x; i += int(width())) {
        const ivec4 at = ivec4(i, row.yzw);
        put_f32(args.y, at, exp(logit(x, mask, at, slope) - largest) * share);
    }
}

void soft_max_back(uint r) {
    const Operand dy = args.src[0], y = args.src[1];
    const ivec4 row = unravel_row(r, y.extent);
    float part = 0;
    for (int i = int(lane()); i < y.extent.x; i += int(width())) {
        part += get_f32(y, ivec4(i, row.yzw)) * get_f32(dy, ivec4(i, row.yzw));
    }
    const float dot = group_sum(part);
    for (int i = int(lane()); i < y.extent.x; i += int(width())) {
        const ivec4 at = ivec4(i, row.yzw);
        put_f32(args.y, at, args.f[0] * get_f32(y, at) * (get_f32(dy, at) - dot));
    }
}

// The number to take off a row's logits to get logarithms of shares.
float log_total(Operand logits, ivec4 row) {
    float largest = -INFINITY;
    for (int i = int(lane()); i < logits.extent.x; i += int(width())) {
        largest = max(largest, get_f32(logits, ivec4(i, row.yzw)));
    }
    largest = group_max(largest);
    float part = 0;
    for (int i = int(lane()); i < logits.extent.x; i += int(width())) {
        part += exp(get_f32(logits, ivec4(i, row.yzw)) - largest);
    }
    return largest + log(group_sum(part));
}

void loss_of_row(uint r) {
    const Operand logits = args.src[0], labels = args.src[1];
    const ivec4 row = unravel_row(r, logits.extent);
    const float total = log_total(logits, row);
    float part = 0;
    for (int i = int(lane()); i < logits.extent.x; i += int(width())) {
        const ivec4 at = ivec4(i, row.yzw);
        part += get_f32(labels, at) * (get_f32(logits, at) - total);
    }
    const float loss = group_sum(part);
    if (lane() == 0u) store_f32(args.scratch + uint64_t(r) * 4, loss);
}

void loss() {
    float part = 0;
    for (int r = int(lane()); r < args.i[0]; r += int(width())) part += load_f32(args.scratch + uint64_t(r) * 4);
    const float total = group_sum(part);
    if (lane() == 0u) store_f32(args.y.data, -total / float(args.i[0]));
}

void loss_back(uint r) {
    const Operand logits = args.src[1], labels = args.src[2];
    const ivec4 row = unravel_row(r, logits.extent);
    const float total = log_total(logits, row);
    const float factor = load_f32(args.src[0].data) / float(args.count);
    for (int i = int(lane()); i < logits.extent.x; i += int(width())) {
        const ivec4 at = ivec4(i, row.yzw);
        put_f32(args.y, at, (exp(get_f32(logits, at) - total) - get_f32(labels, at)) * factor);
    }
}

void main() {
    const uint r = group_number();
    if (r >= args.count) return;
    switch (FUNCTION) {
        case SOFT_MAX: soft_max(r); break;
        case SOFT_MAX_BACK: soft_max_back(r); break;
        case LOSS_OF_ROWS: loss_of_row(r); break;
        case LOSS: loss(); break;
        default: loss_back(r);
    }
}
