#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// ARGSORT and TOP_K: bitonic sorting. Rows that fit into shared memory are sorted there; longer ones
// in pieces, with steps between them in scratch memory. Equal elements stay in order.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_X = TYPE_F32;
layout(constant_id = 3) const int DESCENDING = 0;

const int SORT_PIECES = 0, STEP_BETWEEN = 1, MERGE_PIECES = 2;
const int PADDING = 0x7fffffff;  // an index behind all others: comes last
const int PIECE = 2048;

shared float keys[PIECE];
shared int indices[PIECE];

// args.i: 0 padded length of rows, 1 length of a piece, 2 block of this step, 3 its distance.

bool comes_before(float key_a, int a, float key_b, int b) {
    if (a == PADDING || b == PADDING) return a < b;
    if (key_a != key_b) return DESCENDING != 0 ? key_a > key_b : key_a < key_b;
    return a < b;
}

uint64_t entry(uint row, int i) { return args.scratch + (uint64_t(row) * uint64_t(args.i[0]) + uint64_t(i)) * 8; }

// Number i of the pairs that are `distance` (a power of two) apart: its first entry.
int first_of_pair(int i, int distance) { return i / distance * 2 * distance + i % distance; }

// Steps of distance `distance`, half of it and so on to 1, within a piece in shared memory.
void merge_piece(int length, int begin, int block, int distance) {
    for (; distance > 0; distance /= 2) {
        for (int i = int(gl_LocalInvocationID.x); i < length / 2; i += int(gl_WorkGroupSize.x)) {
            const int low = first_of_pair(i, distance), high = low + distance;
            const bool is_upward = ((begin + low) & block) == 0;
            if (comes_before(keys[high], indices[high], keys[low], indices[low]) == is_upward) {
                const float key = keys[low];
                const int index = indices[low];
                keys[low] = keys[high];
                indices[low] = indices[high];
                keys[high] = key;
                indices[high] = index;
            }
        }
        barrier();
    }
}

void store_index(uint row, int i, int index) {
    if (i >= args.y.extent.x) return;
    const ivec4 at = unravel_row(row, args.y.extent);
    store32(address(args.y, ivec4(i, at.yzw)), uint(index));
}

void load_piece(uint row, int begin, int length) {
    const Operand x = args.src[0];
    const ivec4 at = unravel_row(row, x.extent);
    for (int i = int(gl_LocalInvocationID.x); i < length; i += int(gl_WorkGroupSize.x)) {
        if (FUNCTION == MERGE_PIECES) {
            keys[i] = load_f32(entry(row, begin + i));
            indices[i] = int(load32(entry(row, begin + i) + 4));
        } else {
            const bool is_in = begin + i < x.extent.x;
            keys[i] = is_in ? get(x, ivec4(begin + i, at.yzw), TYPE_X) : 0.0;
            indices[i] = is_in ? begin + i : PADDING;
        }
    }
    barrier();
}

void store_piece(uint row, int begin, int length, bool is_done) {
    for (int i = int(gl_LocalInvocationID.x); i < length; i += int(gl_WorkGroupSize.x)) {
        if (is_done) {
            store_index(row, begin + i, indices[i]);
        } else {
            store_f32(entry(row, begin + i), keys[i]);
            store32(entry(row, begin + i) + 4, uint(indices[i]));
        }
    }
}

// One step between entries that may lie in different pieces.
void step_between() {
    const uint i = element_number(), pairs = uint(args.i[0] / 2);
    if (i >= args.count) return;
    const uint row = i / pairs;
    const int low = first_of_pair(int(i % pairs), args.i[3]);
    const uint64_t a = entry(row, low), b = entry(row, low + args.i[3]);
    const float key_a = load_f32(a), key_b = load_f32(b);
    const int index_a = int(load32(a + 4)), index_b = int(load32(b + 4));
    if (comes_before(key_b, index_b, key_a, index_a) != ((low & args.i[2]) == 0)) return;
    store_f32(a, key_b);
    store32(a + 4, uint(index_b));
    store_f32(b, key_a);
    store32(b + 4, uint(index_a));
}

void main() {
    if (FUNCTION == STEP_BETWEEN) {
        step_between();
        return;
    }
    const uint number = group_number();
    if (number >= args.count) return;
    const int length = args.i[1], pieces = args.i[0] / length, block = args.i[2];
    const uint row = number / uint(pieces);
    const int begin = int(number % uint(pieces)) * length;
    load_piece(row, begin, length);
    if (FUNCTION == SORT_PIECES) {
        for (int size = 2; size <= length; size *= 2) merge_piece(length, begin, size, size / 2);
        store_piece(row, begin, length, pieces == 1);
    } else {
        merge_piece(length, begin, block, length / 2);
        store_piece(row, begin, length, block == args.i[0]);
    }
}
