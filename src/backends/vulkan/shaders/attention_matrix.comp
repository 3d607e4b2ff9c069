#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#include "arguments.glsl"
#include "alibi.glsl"
#include "attention.glsl"
#include "formats.glsl"
#include "products.glsl"
#include "halves.glsl"
#include "matrices.glsl"

// FLASH_ATTN_EXT of many rows (queries of heads that share keys) on matrix units: a workgroup of 256 has
// 64 rows and goes through the keys twice, 64 at a time. First it looks for the largest score of each
// row; then it weights the values, and no sum has to be scaled again. Queries, keys, weights and values
// are half floats, scores and sums F32.
layout(constant_id = 1) const int TYPE_K = TYPE_F16;
layout(constant_id = 2) const int TYPE_V = TYPE_F16;
layout(constant_id = 3) const int KEY_SIZE = 128;  // a multiple of 16, 128 at most
layout(constant_id = 4) const int VALUE_SIZE = 128;  // a multiple of 32, 128 at most
layout(constant_id = 5) const int VECTORS = 0;  // plain keys (1) and values (2) that begin at multiples of 16 bytes

const int ROWS = 64, KEYS = 64;
// Lines in eights of halves, and of scores in fours of floats, that start in other banks.
const int KEY_PITCH = KEY_SIZE / 8 + 1, VALUE_PITCH = VALUE_SIZE / 8 + 1, WEIGHT_PITCH = KEYS / 8 + 1, SCORE_PITCH = KEYS / 4 + 1;
const int KEY_STEPS = KEY_SIZE / 16, VALUE_PARTS = VALUE_SIZE / 32;

shared uvec4 queries[ROWS * KEY_PITCH];
shared uvec4 tile[64 * 17];  // of keys, then of scores, then of values
shared uvec4 weights[ROWS * WEIGHT_PITCH];
shared uvec2 wanted_parts[2 * 8];
shared float factors[ROWS];

// Rows `first` and on of keys or values; zeros for those that are not wanted, which may be anything.
void bring(Operand x, int type, bool is_aligned, ivec4 first, int size, int pitch, uvec2 wanted) {
    for (int i = int(gl_LocalInvocationID.x); i < KEYS * size / 8; i += 256) {
        const int key = i / (size / 8), eight = i % (size / 8);
        uvec4 halves = uvec4(0);
        if ((wanted[key / 32] >> (key % 32) & 1u) != 0u) {
            const uint64_t row = address(x, first + ivec4(0, key, 0, 0));
            if (is_aligned && type == TYPE_F16) {
                halves = Quads(row + uint64_t(eight * 16)).v;
            } else {
                float values[8];
                decode8(type, row, eight * 8, args.codebooks, values);
                halves = pack_halves(values);
            }
        }
        tile[key * pitch + eight] = halves;
    }
}

void main() {
    const uint number = group_number();
    if (number >= args.count) return;
    const Operand q = args.src[0], k = args.src[1], v = args.src[2], mask = args.src[3];
    const int me = int(gl_LocalInvocationID.x), group_heads = args.i[0], rows = q.extent.y * group_heads;
    const int sequence = int(number) % q.extent.w, rest = int(number) / q.extent.w;
    const int group = rest % args.i[1], first_row = rest / args.i[1] * ROWS;
    const int first_head = group * group_heads, key_head = first_head / args.i[2], value_head = first_head / args.i[3];

    for (int i = me; i < ROWS * KEY_SIZE / 8; i += 256) {
        const int line = i / (KEY_SIZE / 8), eight = i % (KEY_SIZE / 8), r = min(first_row + line, rows - 1);
        const uint64_t from = address(q, ivec4(eight * 8, r / group_heads, first_head + r % group_heads, sequence));
        float values[8];
        [[unroll]] for (int j = 0; j < 8; ++j) values[j] = load_f32(from + uint64_t(j * 4)) * args.f[0];
        queries[line * KEY_PITCH + eight] = pack_halves(values);
    }

    // What this invocation looks at: sixteen keys of a row. What its subgroup multiplies: sixteen rows, with
    // half of the keys or of the values' elements.
    const int my_row = min(first_row + me / 4, rows - 1), my_keys = me % 4 * 16;
    const int my_head = first_head + my_row % group_heads, my_query = my_row / group_heads;
    const float slope = slope_of(my_head);
    const int subgroup = int(gl_SubgroupID), to_row = subgroup % 4 * 16, half_of = subgroup / 4;
    SumMatrix sums[4];
    [[unroll]] for (int i = 0; i < VALUE_PARTS; ++i) sums[i] = SumMatrix(0.0);
    float largest = -INFINITY, total = 0;
    int parity = 0;
    for (int pass = 0; pass < 2; ++pass) {
        for (int first = 0; first < k.extent.y; first += KEYS) {
            float bias[16];
            uint bits = 0u;
            [[unroll]] for (int j = 0; j < 16; ++j) {
                const int key = first + my_keys + j;
                bias[j] = key < k.extent.y ? 0.0 : -INFINITY;
                if (is_there(mask) && key < k.extent.y) {
                    bias[j] = get(mask, ivec4(key, my_query, my_head % mask.extent.z, sequence % mask.extent.w), TYPE_F16);
                    if (bias[j] != -INFINITY) bias[j] *= slope;
                }
                if (bias[j] != -INFINITY) bits |= 1u << j;
            }
            bits <<= my_keys % 32;
            const uvec2 mine = subgroupOr(my_keys < 32 ? uvec2(bits, 0u) : uvec2(0u, bits));
            if (subgroupElect()) wanted_parts[parity * 8 + subgroup] = mine;
            barrier();  // the tile before is no longer read, either
            uvec2 wanted = uvec2(0u);
            [[unroll]] for (int s = 0; s < 8; ++s) wanted |= wanted_parts[parity * 8 + s];
            parity ^= 1;
            if (wanted == uvec2(0u)) continue;
            bring(k, TYPE_K, (VECTORS & 1) != 0, ivec4(0, first, key_head, sequence), KEY_SIZE, KEY_PITCH, wanted);
            barrier();
            SumMatrix scores[2];
            [[unroll]] for (int c = 0; c < 2; ++c) scores[c] = SumMatrix(0.0);
            [[unroll]] for (int d = 0; d < KEY_STEPS; ++d) {
                LeftMatrix left;
                RightMatrix right;
                coopMatLoadNV(left, queries, uint(to_row * KEY_PITCH + 2 * d), uint(KEY_PITCH), false);
                [[unroll]] for (int c = 0; c < 2; ++c) {
                    coopMatLoadNV(right, tile, uint((half_of * 32 + 16 * c) * KEY_PITCH + 2 * d), uint(KEY_PITCH), true);
                    scores[c] = coopMatMulAddNV(left, right, scores[c]);
                }
            }
            barrier();
            [[unroll]] for (int c = 0; c < 2; ++c) {
                coopMatStoreNV(scores[c], tile, uint(to_row * SCORE_PITCH + half_of * 8 + 4 * c), uint(SCORE_PITCH), false);
            }
            barrier();
            float score[16];
            [[unroll]] for (int j = 0; j < 16; ++j) {
                const float cap = args.f[5], s = uintBitsToFloat(tile[me / 4 * SCORE_PITCH + my_keys / 4 + j / 4][j % 4]);
                score[j] = bias[j] == -INFINITY ? bias[j] : bias[j] + (cap != 0 ? cap * tanh(clamp(s / cap, -20.0, 20.0)) : s);
            }
            if (pass == 0) {
                [[unroll]] for (int j = 0; j < 16; ++j) largest = max(largest, score[j]);
                continue;
            }
            [[unroll]] for (int e = 0; e < 2; ++e) {
                float some[8];
                [[unroll]] for (int j = 0; j < 8; ++j) {
                    some[j] = score[8 * e + j] == -INFINITY ? 0.0 : exp(score[8 * e + j] - largest);
                    total += some[j];
                }
                weights[me / 4 * WEIGHT_PITCH + my_keys / 8 + e] = pack_halves(some);
            }
            barrier();
            bring(v, TYPE_V, (VECTORS & 2) != 0, ivec4(0, first, value_head, sequence), VALUE_SIZE, VALUE_PITCH, wanted);
            barrier();
            [[unroll]] for (int d = 0; d < KEYS / 16; ++d) {
                LeftMatrix left;
                RightMatrix right;
                coopMatLoadNV(left, weights, uint(to_row * WEIGHT_PITCH + 2 * d), uint(WEIGHT_PITCH), false);
                [[unroll]] for (int c = 0; c < VALUE_PARTS; ++c) {
                    coopMatLoadNV(right, tile, uint(16 * d * VALUE_PITCH + 2 * (half_of * VALUE_PARTS + c)), uint(VALUE_PITCH), false);
                    sums[c] = coopMatMulAddNV(left, right, sums[c]);
                }
            }
        }
        if (pass == 0) {  // four invocations have a row
            largest = max(largest, subgroupShuffleXor(largest, 1u));
            largest = max(largest, subgroupShuffleXor(largest, 2u));
        }
    }
    total += subgroupShuffleXor(total, 1u);
    total += subgroupShuffleXor(total, 2u);
    if (me % 4 == 0) factors[me / 4] = finish_row(largest, total, my_head);
    barrier();
    [[unroll]] for (int c = 0; c < VALUE_PARTS; ++c) {
        coopMatStoreNV(sums[c], tile, uint(subgroup * 64), 4u, false);  // rows of sixteen floats
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        [[unroll]] for (int e = 0; e < 8; ++e) {
            const int at = e * 32 + int(gl_SubgroupInvocationID), line = to_row + at / 16, r = first_row + line;
            if (r < rows) {
                const uint place = (uint(sequence) * uint(q.extent.y) + uint(r / group_heads)) * uint(q.extent.z) + uint(first_head + r % group_heads);
                const uint d = uint((half_of * VALUE_PARTS + c) * 16 + at % 16);
                const float value = uintBitsToFloat(tile[subgroup * 64 + at / 4][at % 4]);
                store_f32(args.y.data + uint64_t(place * uint(VALUE_SIZE) + d) * 4, value * factors[line]);
            }
        }
        subgroupBarrier();
    }
}
