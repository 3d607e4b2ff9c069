#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "faults.glsl"

// Puts the (slot, token) pairs of a MUL_MAT_ID in the order of their experts. One workgroup for each
// expert: it counts the pairs of those before it and lists its own in order. The scratch memory gets
// the pairs, then where each expert begins. Pairs of experts that are not there get zeros.
shared int counts[256];

int expert_of(int pair) {
    const int slots = args.src[2].extent.x;
    return get_index(args.src[2], ivec4(pair % slots, pair / slots, 0, 0));
}

void main() {
    const int expert = int(group_number());
    if (expert >= int(args.count)) return;
    const int pairs = args.y.extent.y * args.y.extent.z, experts = int(args.count);
    const int lane = int(gl_LocalInvocationID.x), width = int(gl_WorkGroupSize.x);
    // Pairs of experts before this one, and own pairs in this invocation's run.
    const int run = (pairs + width - 1) / width, begin = min(lane * run, pairs), end = min(begin + run, pairs);
    int before = 0, own = 0;
    for (int pair = begin; pair < end; ++pair) {
        const int chosen = expert_of(pair);
        before += chosen >= 0 && chosen < expert ? 1 : 0;
        own += chosen == expert ? 1 : 0;
        if (expert == 0 && !is_inside(chosen, experts)) {
            const ivec4 at = ivec4(0, pair % args.y.extent.y, pair / args.y.extent.y, 0);
            for (int r = 0; r < args.y.extent.x; ++r) put_f32(args.y, at + ivec4(r, 0, 0, 0), 0);
        }
    }
    counts[lane] = before;
    barrier();
    int start = 0;
    for (int i = 0; i < width; ++i) start += counts[i];
    barrier();
    counts[lane] = own;
    barrier();
    int at = start, all = 0;
    for (int i = 0; i < width; ++i) {
        at += i < lane ? counts[i] : 0;
        all += counts[i];
    }
    for (int pair = begin; pair < end; ++pair) {
        if (expert_of(pair) == expert) store32(args.scratch + uint64_t(at++) * 4, uint(pair));
    }
    if (lane != 0) return;
    const uint64_t starts = args.scratch + uint64_t(pairs) * 4;
    store32(starts + uint64_t(expert) * 4, uint(start));
    if (expert == experts - 1) store32(starts + uint64_t(experts) * 4, uint(start + all));
}
