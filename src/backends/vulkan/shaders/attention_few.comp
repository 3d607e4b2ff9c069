#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "alibi.glsl"
#include "attention.glsl"
#include "formats.glsl"

// FLASH_ATTN_EXT of few rows (queries of heads that share keys): a workgroup of 128 has ROWS of them and
// goes through a share of the keys. SIZE / 8 lanes have a key and its value, eight elements each, and
// its weights; each keeps sums of its own, which come together at the end.
layout(constant_id = 1) const int TYPE_K = TYPE_F16;
layout(constant_id = 2) const int TYPE_V = TYPE_F16;
layout(constant_id = 3) const int ROWS = 1;
layout(constant_id = 4) const int SIZE = 128;  // of keys and values: 8 times a power of two
layout(constant_id = 5) const int VECTORS = 0;  // plain keys (1) and values (2) that begin at multiples of 16 bytes

const int WIDTH = 128, LANES = SIZE / 8, KEYS = WIDTH / LANES;  // KEYS: at a time

// Of each key's lanes, after they have gone through their keys.
shared float parts[ROWS * WIDTH * 8];
shared float tops[ROWS * KEYS], totals[ROWS * KEYS];

void load8(Operand x, int type, bool is_aligned, ivec4 at, int i, out float values[8]) {
    const uint64_t row = address(x, at);
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
    const int me = int(gl_LocalInvocationID.x), group_heads = args.i[0], rows = q.extent.y * group_heads;
    const int splits = args.i[4], split = int(number) % splits;
    int rest = int(number) / splits;
    const int sequence = rest % q.extent.w;
    rest /= q.extent.w;
    const int group = rest % args.i[1], first_row = rest / args.i[1] * ROWS;
    const int first_head = group * group_heads, key_head = first_head / args.i[2], value_head = first_head / args.i[3];
    const int first_key = split * args.i[5], last_key = min(first_key + args.i[5], k.extent.y);
    const int place = me / LANES, element = me % LANES * 8;

    int head[ROWS], query[ROWS];
    float slope[ROWS], wanted[ROWS * 8], largest[ROWS], total[ROWS], sums[ROWS * 8];
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
        const int row = min(first_row + r, rows - 1);
        head[r] = first_head + row % group_heads;
        query[r] = row / group_heads;
        slope[r] = slope_of(head[r]);
        largest[r] = -INFINITY;
        total[r] = 0;
        [[unroll]] for (int j = 0; j < 8; ++j) {
            wanted[r * 8 + j] = get_f32(q, ivec4(element + j, query[r], head[r], sequence)) * args.f[0];
            sums[r * 8 + j] = 0;
        }
    }
    float keys[8], values[8], next_keys[8], next_values[8];
    if (first_key < last_key) {
        const int key = min(first_key + place, last_key - 1);
        load8(k, TYPE_K, (VECTORS & 1) != 0, ivec4(0, key, key_head, sequence), element, keys);
        load8(v, TYPE_V, (VECTORS & 2) != 0, ivec4(0, key, value_head, sequence), element, values);
    }
    for (int first = first_key; first < last_key; first += KEYS) {
        const int key = first + place;
        if (first + KEYS < last_key) {
            const int next = min(key + KEYS, last_key - 1);
            load8(k, TYPE_K, (VECTORS & 1) != 0, ivec4(0, next, key_head, sequence), element, next_keys);
            load8(v, TYPE_V, (VECTORS & 2) != 0, ivec4(0, next, value_head, sequence), element, next_values);
        }
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
            float bias = key < last_key ? 0.0 : -INFINITY;
            if (is_there(mask) && key < last_key) {
                bias = get(mask, ivec4(key, query[r], head[r] % mask.extent.z, sequence % mask.extent.w), TYPE_F16);
                if (bias != -INFINITY) bias *= slope[r];
            }
            float product = 0;
            [[unroll]] for (int j = 0; j < 8; ++j) product += wanted[r * 8 + j] * keys[j];
            [[unroll]] for (uint step = 1u; step < uint(LANES); step *= 2u) product += subgroupShuffleXor(product, step);
            if (bias == -INFINITY) continue;  // what is masked may be anything, even NaN
            const float cap = args.f[5];
            const float score = bias + (cap != 0 ? cap * tanh(clamp(product / cap, -20.0, 20.0)) : product);
            const float top = max(largest[r], score);
            const float shrink = exp(largest[r] - top), weight = exp(score - top);
            largest[r] = top;
            total[r] = total[r] * shrink + weight;
            [[unroll]] for (int j = 0; j < 8; ++j) {
                sums[r * 8 + j] *= shrink;
                if (weight != 0) sums[r * 8 + j] += weight * values[j];
            }
        }
        keys = next_keys;
        values = next_values;
    }
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
        [[unroll]] for (int j = 0; j < 8; ++j) parts[(r * KEYS + place) * SIZE + element + j] = sums[r * 8 + j];
        if (element == 0) {
            tops[r * KEYS + place] = largest[r];
            totals[r * KEYS + place] = total[r];
        }
    }
    barrier();
    for (int i = me; i < ROWS * SIZE; i += WIDTH) {
        const int r = i / SIZE, d = i % SIZE, row = first_row + r;
        if (row >= rows) continue;
        float top = -INFINITY, all = 0, sum = 0;
        [[unroll]] for (int n = 0; n < KEYS; ++n) top = max(top, tops[r * KEYS + n]);
        [[unroll]] for (int n = 0; n < KEYS; ++n) {
            if (totals[r * KEYS + n] == 0) continue;
            const float factor = exp(tops[r * KEYS + n] - top);
            all += totals[r * KEYS + n] * factor;
            sum += parts[(r * KEYS + n) * SIZE + d] * factor;
        }
        const int own_head = first_head + row % group_heads;
        const uint number_of_row = (uint(sequence) * uint(q.extent.y) + uint(row / group_heads)) * uint(q.extent.z) + uint(own_head);
        if (splits == 1) {
            store_f32(args.y.data + (uint64_t(number_of_row) * uint64_t(SIZE) + uint64_t(d)) * 4, sum * finish_row(top, all, own_head));
            continue;
        }
        const uint64_t to = partial_of(number_of_row, split, SIZE);
        store_f32(to + uint64_t(d) * 4, sum);
        if (d == 0) {
            store_f32(to + uint64_t(SIZE) * 4, all);
            store_f32(to + uint64_t(SIZE + 1) * 4, top);
        }
    }
}
