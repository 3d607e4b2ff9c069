#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "alibi.glsl"
#include "attention.glsl"
#include "formats.glsl"
#include "group.glsl"

// FLASH_ATTN_EXT: a workgroup of 128 has ROWS rows (queries of heads that share keys) and goes
// through a share of the keys, one key for each invocation at a time. Then eight values of a key
// belong to an invocation, and keys are dealt out over the invocations that are left.
layout(constant_id = 1) const int TYPE_K = TYPE_F16;
layout(constant_id = 2) const int TYPE_V = TYPE_F16;
layout(constant_id = 3) const int ROWS = 1;
layout(constant_id = 4) const int KEY_SIZE = 128;
layout(constant_id = 5) const int VALUE_SIZE = 128;
layout(constant_id = 6) const int VECTORS = 0;  // plain keys (1) and values (2) that begin at multiples of 16 bytes

const int WIDTH = 128, UNITS = VALUE_SIZE / 8, DEALS = WIDTH / UNITS;

shared float queries[ROWS * KEY_SIZE];
shared float weights[ROWS * WIDTH];
shared float parts[WIDTH * 8];

// Elements i .. i + 7 of a row of keys or values.
void load8(int type, bool is_aligned, uint64_t row, int i, out float values[8]) {
    if (is_aligned) {
        load8_aligned(type, row + uint64_t(i * block_bytes(type)), values);
    } else {
        decode8(type, row, i, args.codebooks, values);
    }
}

void main() {
    const uint number = group_number();
    if (number >= args.count) return;
    const Operand q = args.src[0], k = args.src[1], v = args.src[2], mask = args.src[3];
    const int me = int(lane()), group_heads = args.i[0], rows = q.extent.y * group_heads;
    const int splits = args.i[4], split = int(number) % splits;
    int rest = int(number) / splits;
    const int sequence = rest % q.extent.w;
    rest /= q.extent.w;
    const int group = rest % args.i[1], first_row = rest / args.i[1] * ROWS;
    const int first_head = group * group_heads;
    const int first_key = split * args.i[5], last_key = min(first_key + args.i[5], k.extent.y);
    const int key_head = first_head / args.i[2], value_head = first_head / args.i[3];

    int head[ROWS], query[ROWS];
    float slope[ROWS], largest[ROWS], total[ROWS], sums[ROWS * 8];
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
        const int row = min(first_row + r, rows - 1);
        head[r] = first_head + row % group_heads;
        query[r] = row / group_heads;
        slope[r] = slope_of(head[r]);
        largest[r] = -INFINITY;
        total[r] = 0;
        [[unroll]] for (int j = 0; j < 8; ++j) sums[r * 8 + j] = 0;
        for (int d = me; d < KEY_SIZE; d += WIDTH) {
            queries[r * KEY_SIZE + d] = get_f32(q, ivec4(d, query[r], head[r], sequence)) * args.f[0];
        }
    }
    barrier();
    for (int first = first_key; first < last_key; first += WIDTH) {
        const int key = first + me;
        float score[ROWS];
        bool is_wanted = false;
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
            score[r] = key < last_key ? 0.0 : -INFINITY;
            if (is_there(mask) && key < last_key) {
                const ivec4 at = ivec4(key, query[r], head[r] % mask.extent.z, sequence % mask.extent.w);
                const float bias = get(mask, at, TYPE_F16);
                score[r] = bias == -INFINITY ? bias : bias * slope[r];
            }
            is_wanted = is_wanted || score[r] != -INFINITY;
        }
        if (is_wanted) {
            const uint64_t row = address(k, ivec4(0, key, key_head, sequence));
            float products[ROWS];
            [[unroll]] for (int r = 0; r < ROWS; ++r) products[r] = 0;
            for (int d = 0; d < KEY_SIZE; d += 8) {
                float values[8];
                load8(TYPE_K, (VECTORS & 1) != 0, row, d, values);
                [[unroll]] for (int r = 0; r < ROWS; ++r) {
                    [[unroll]] for (int j = 0; j < 8; ++j) products[r] += queries[r * KEY_SIZE + d + j] * values[j];
                }
            }
            [[unroll]] for (int r = 0; r < ROWS; ++r) {
                if (score[r] == -INFINITY) continue;
                const float cap = args.f[5];
                score[r] += cap != 0 ? cap * tanh(clamp(products[r] / cap, -20.0, 20.0)) : products[r];
            }
        }
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
            const float top = max(largest[r], group_max(score[r]));
            const float weight = score[r] == -INFINITY ? 0.0 : exp(score[r] - top);
            const float shrink = largest[r] == -INFINITY ? 0.0 : exp(largest[r] - top);
            largest[r] = top;
            total[r] = total[r] * shrink + weight;
            weights[r * WIDTH + me] = weight;
            [[unroll]] for (int j = 0; j < 8; ++j) sums[r * 8 + j] *= shrink;
        }
        barrier();
        const int count = min(WIDTH, last_key - first);
        for (int j = me / UNITS; j < count && me / UNITS < DEALS; j += DEALS) {
            float weight = 0;
            [[unroll]] for (int r = 0; r < ROWS; ++r) weight = max(weight, weights[r * WIDTH + j]);
            if (weight == 0) continue;  // what is masked may be anything, even NaN
            float values[8];
            load8(TYPE_V, (VECTORS & 2) != 0, address(v, ivec4(0, first + j, value_head, sequence)), me % UNITS * 8, values);
            [[unroll]] for (int r = 0; r < ROWS; ++r) {
                const float w = weights[r * WIDTH + j];
                if (w == 0) continue;
                [[unroll]] for (int e = 0; e < 8; ++e) sums[r * 8 + e] += w * values[e];
            }
        }
        barrier();
    }
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
        const float all = group_sum(total[r]);
        [[unroll]] for (int e = 0; e < 8; ++e) parts[me * 8 + e] = sums[r * 8 + e];
        barrier();
        if (first_row + r < rows) {
            const uint place = (uint(sequence) * uint(q.extent.y) + uint(query[r])) * uint(q.extent.z) + uint(head[r]);
            uint64_t to = args.y.data + uint64_t(place) * uint64_t(VALUE_SIZE) * 4;
            float factor = 1;
            if (splits > 1) {
                to = partial_of(place, split, VALUE_SIZE);
                if (me == 0) {
                    store_f32(to + uint64_t(VALUE_SIZE) * 4, all);
                    store_f32(to + uint64_t(VALUE_SIZE + 1) * 4, largest[r]);
                }
            } else {
                factor = finish_row(largest[r], all, head[r]);
            }
            for (int d = me; d < VALUE_SIZE; d += WIDTH) {
                float sum = 0;
                for (int deal = 0; deal < DEALS; ++deal) sum += parts[(deal * UNITS + d / 8) * 8 + d % 8];
                store_f32(to + uint64_t(d) * 4, sum * factor);
            }
        }
        barrier();
    }
}
