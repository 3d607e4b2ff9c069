#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "attention.glsl"

// Joins the partial results of the splits of the keys, in their order: a workgroup for each row.
void main() {
    const uint row = group_number();
    if (row >= args.count) return;
    const int size = args.y.extent.x, splits = args.i[4];
    float largest = -INFINITY, total = 0;
    for (int s = 0; s < splits; ++s) {
        largest = max(largest, load_f32(partial_of(row, s, size) + uint64_t(size + 1) * 4));
    }
    for (int s = 0; s < splits; ++s) {
        const uint64_t part = partial_of(row, s, size) + uint64_t(size) * 4;
        const float weight = load_f32(part);
        if (weight != 0) total += weight * exp(load_f32(part + 4) - largest);
    }
    const float factor = finish_row(largest, total, int(row % uint(args.src[0].extent.z)));
    for (int d = int(gl_LocalInvocationID.x); d < size; d += int(gl_WorkGroupSize.x)) {
        float sum = 0;
        for (int s = 0; s < splits; ++s) {
            const uint64_t part = partial_of(row, s, size);
            if (load_f32(part + uint64_t(size) * 4) == 0) continue;
            sum += load_f32(part + uint64_t(d) * 4) * exp(load_f32(part + uint64_t(size + 1) * 4) - largest);
        }
        store_f32(args.y.data + (uint64_t(row) * uint64_t(size) + uint64_t(d)) * 4, sum * factor);
    }
}
