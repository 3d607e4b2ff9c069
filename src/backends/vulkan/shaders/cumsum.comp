#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// CUMSUM: a workgroup goes along its row in pieces; what came before is carried on.
shared float sums[256];

void main() {
    const uint r = group_number();
    if (r >= args.count) return;
    const Operand x = args.src[0];
    const ivec4 row = unravel_row(r, x.extent);
    const int lane = int(gl_LocalInvocationID.x), width = int(gl_WorkGroupSize.x);
    float carried = 0;
    for (int begin = 0; begin < x.extent.x; begin += width) {
        const int i = begin + lane;
        const float value = i < x.extent.x ? get_f32(x, ivec4(i, row.yzw)) : 0.0;
        const float up_to = subgroupInclusiveAdd(value), all = subgroupAdd(value);
        barrier();  // sums of the piece before may still be read
        if (subgroupElect()) sums[gl_SubgroupID] = all;
        barrier();
        float before = carried;
        for (uint s = 0u; s < gl_NumSubgroups; ++s) {
            if (s < gl_SubgroupID) before += sums[s];
            carried += sums[s];
        }
        if (i < x.extent.x) put_f32(args.y, ivec4(i, row.yzw), before + up_to);
    }
}
