#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "attention.glsl"
#include "group.glsl"

// Joins the partial results of the splits of the keys, in their order: a workgroup for each row.
const int MOST_SPLITS = 1024;

shared float factors[MOST_SPLITS];

void main() {
    const uint row = group_number();
    if (row >= args.count) return;
    const int size = args.y.extent.x, splits = args.i[4];
    float top = -INFINITY;
    for (int s = int(lane()); s < splits; s += int(width())) {
        top = max(top, load_f32(partial_of(row, s, size) + uint64_t(size + 1) * 4));
    }
    const float largest = group_max(top);
    float part = 0;
    for (int s = int(lane()); s < splits; s += int(width())) {
        const uint64_t weight = partial_of(row, s, size) + uint64_t(size) * 4;
        const float total = load_f32(weight);
        factors[s] = total != 0 ? exp(load_f32(weight + 4) - largest) : 0.0;
        part += total * factors[s];
    }
    const float factor = finish_row(largest, group_sum(part), int(row % uint(args.src[0].extent.z)));
    for (int d = int(lane()); d < size; d += int(width())) {
        float sum = 0;
        for (int s = 0; s < splits; ++s) sum += load_f32(partial_of(row, s, size) + uint64_t(d) * 4) * factors[s];
        store_f32(args.y.data + (uint64_t(row) * uint64_t(size) + uint64_t(d)) * 4, sum * factor);
    }
}
