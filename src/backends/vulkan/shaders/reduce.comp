#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "group.glsl"

// SUM and COUNT_EQUAL in two steps, parts and their sum; SUM_ROWS, MEAN and ARGMAX with a workgroup
// for each row. Sums are added up in a fixed order.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_X = TYPE_F32;
layout(constant_id = 3) const int TYPE_Y = TYPE_F32;

const int SUM_PARTS = 0, SUM_ALL = 1, COUNT_PARTS = 2, COUNT_ALL = 3, SUM_ROWS = 4, ARGMAX = 5;
const int PARTS = 256;

shared int group_counts[256];
shared float best_values[256];
shared int best_indices[256];

// Numbers of a part: every PARTS-th run of a workgroup's width.
void sum_part(uint part) {
    const Operand x = args.src[0];
    float total = 0;
    int equal = 0;
    for (uint i = part * width() + lane(); i < uint(args.i[0]); i += uint(PARTS) * width()) {
        const ivec4 at = unravel(i, x.extent);
        if (FUNCTION == SUM_PARTS) {
            total += get(x, at, TYPE_X);
        } else {
            equal += load32(address(x, at)) == load32(address(args.src[1], at)) ? 1 : 0;
        }
    }
    const uint64_t to = args.scratch + uint64_t(part) * 4;
    if (FUNCTION == SUM_PARTS) {
        const float sum = group_sum(total);
        if (lane() == 0u) store_f32(to, sum);
    } else {
        group_counts[lane()] = equal;
        barrier();
        if (lane() != 0u) return;
        int sum = 0;
        for (uint i = 0u; i < width(); ++i) sum += group_counts[i];
        store32(to, uint(sum));
    }
}

void sum_of_parts() {
    if (FUNCTION == SUM_ALL) {
        float part = 0;
        for (uint i = lane(); i < uint(PARTS); i += width()) part += load_f32(args.scratch + uint64_t(i) * 4);
        const float total = group_sum(part);
        if (lane() == 0u) store_float(args.y.data, total, TYPE_Y);
    } else if (lane() == 0u) {
        uint64_t total = 0;
        for (uint i = 0u; i < uint(PARTS); ++i) total += uint64_t(load32(args.scratch + uint64_t(i) * 4));
        Longs(args.y.data).v = total;
    }
}

void sum_row(uint r) {
    const Operand x = args.src[0];
    const ivec4 row = unravel_row(r, x.extent);
    float part = 0;
    for (int i = int(lane()); i < x.extent.x; i += int(width())) part += get(x, ivec4(i, row.yzw), TYPE_X);
    const float total = group_sum(part);
    if (lane() == 0u) put(args.y, ivec4(0, row.yzw), total / args.f[0], TYPE_Y);
}

// Of equal values the first wins; a row of NaN has no largest element.
void argmax(uint r) {
    const Operand x = args.src[0];
    float best = -INFINITY;
    int index = 0x7fffffff;
    for (int i = int(lane()); i < x.extent.x; i += int(width())) {
        const float value = get(x, ivec4(i, int(r), 0, 0), TYPE_X);
        if (value > best || (value == best && i < index)) {
            best = value;
            index = i;
        }
    }
    best_values[lane()] = best;
    best_indices[lane()] = index;
    barrier();
    if (lane() != 0u) return;
    for (uint i = 1u; i < width(); ++i) {
        const float value = best_values[i];
        if (value > best || (value == best && best_indices[i] < index)) {
            best = value;
            index = best_indices[i];
        }
    }
    store32(address(args.y, ivec4(int(r), 0, 0, 0)), index == 0x7fffffff ? 0u : uint(index));
}

void main() {
    const uint r = group_number();
    if (r >= args.count) return;
    if (FUNCTION == SUM_PARTS || FUNCTION == COUNT_PARTS) {
        sum_part(r);
    } else if (FUNCTION == SUM_ALL || FUNCTION == COUNT_ALL) {
        sum_of_parts();
    } else if (FUNCTION == SUM_ROWS) {
        sum_row(r);
    } else {
        argmax(r);
    }
}
