#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#include "arguments.glsl"
#include "formats.glsl"

// MUL_MAT of a single column with Q4_0 or Q8_0 weights: the column is rounded to bytes, with a scale for
// every 32, once for each workgroup, into shared memory; then a subgroup has ROWS rows at a time, and
// a lane a block of each. The first blocks are on their way while the column is rounded, later ones
// while those before them are multiplied.
layout(constant_id = 1) const int TYPE_A = TYPE_Q4_0;
layout(constant_id = 2) const int DEPTH = 4096;  // of the column; a multiple of 64
layout(constant_id = 3) const int ROWS = 2;  // MOST_ROWS at most
layout(constant_id = 4) const int ROWS_PER_GROUP = 16;  // of all subgroups of a workgroup

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot_of_bytes(int a, int b, spirv_literal int packed);

const int BLOCKS = DEPTH / 32;
const int CODE_WORDS = TYPE_A == TYPE_Q4_0 ? 4 : 8;  // of a block, behind its scale
const int MOST_ROWS = 4, MOST_WORDS = 9;

// The bytes of block b: elements 0 .. 15 at b, elements 16 .. 31 at BLOCKS + b. Lanes that have blocks
// side by side read banks side by side.
shared ivec4 column[2 * BLOCKS];
shared vec2 scales[BLOCKS];  // of a block: its scale, and that times the sum of its bytes

// Eight invocations have a block, four elements each.
void round_column(uint64_t from) {
    for (int i = int(gl_LocalInvocationID.x); i < DEPTH / 4; i += int(gl_WorkGroupSize.x)) {
        const vec4 x = uintBitsToFloat(Quads(from + uint64_t(i) * 16).v);
        float largest = max(max(abs(x.x), abs(x.y)), max(abs(x.z), abs(x.w)));
        [[unroll]] for (uint step = 1u; step < 8u; step *= 2u) largest = max(largest, subgroupShuffleXor(largest, step));
        const float scale = largest / 127;
        const ivec4 codes = ivec4(round(x * (scale > 0 ? 1 / scale : 0.0)));
        int sum = codes.x + codes.y + codes.z + codes.w;
        [[unroll]] for (uint step = 1u; step < 8u; step *= 2u) sum += subgroupShuffleXor(sum, step);
        const int block = i / 8, word = i % 8;
        column[word / 4 * BLOCKS + block][word % 4] =
            (codes.x & 255) | (codes.y & 255) << 8 | (codes.z & 255) << 16 | codes.w << 24;
        if (word == 0) scales[block] = vec2(scale, scale * float(sum));
    }
}

// The words that a block of each of the rows lies in. A pair of blocks is a whole number of words: the
// second one begins in the middle of a word.
void load_blocks(uint64_t matrix, int64_t stride, int row, int last_row, int block, out uint words[MOST_ROWS * MOST_WORDS]) {
    const int offset = block * block_bytes(TYPE_A) - (block & 1) * 2;
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
        const uint64_t from = matrix + uint64_t(min(row + r, last_row) * stride) + uint64_t(offset);
        [[unroll]] for (int i = 0; i <= CODE_WORDS; ++i) words[r * MOST_WORDS + i] = load32(from + uint64_t(i * 4));
    }
}

// The product of row r's block with the bytes of the column, `low` and `high`.
float dot_block(uint words[MOST_ROWS * MOST_WORDS], int r, bool is_second, ivec4 low, ivec4 high, vec2 scale) {
    const uint first = words[r * MOST_WORDS];
    int sum = 0;
    [[unroll]] for (int i = 0; i < CODE_WORDS; ++i) {
        const uint before = words[r * MOST_WORDS + i], after = words[r * MOST_WORDS + i + 1];
        const uint codes = is_second ? after : before >> 16 | after << 16;
        if (TYPE_A == TYPE_Q4_0) {  // codes j and j + 16 share a byte
            sum += dot_of_bytes(int(codes & 0x0f0f0f0fu), low[i & 3], 0);
            sum += dot_of_bytes(int(codes >> 4 & 0x0f0f0f0fu), high[i & 3], 0);
        } else {
            sum += dot_of_bytes(int(codes), i < 4 ? low[i & 3] : high[i & 3], 0);
        }
    }
    const float d = half_to_float(is_second ? first >> 16 : first & 0xffffu);
    return TYPE_A == TYPE_Q4_0 ? d * (scale.x * float(sum) - 8 * scale.y) : d * scale.x * float(sum);
}

void main() {
    const Operand a = args.src[0];
    const int first = int(group_number()) * ROWS_PER_GROUP, end = min(first + ROWS_PER_GROUP, a.extent.y);
    const int lane = int(gl_SubgroupInvocationID), lanes = int(gl_SubgroupSize), step = int(gl_NumSubgroups) * ROWS;
    int row = first + int(gl_SubgroupID) * ROWS;
    uint words[MOST_ROWS * MOST_WORDS], next[MOST_ROWS * MOST_WORDS];
    load_blocks(a.data, a.stride.y, row, end - 1, min(lane, BLOCKS - 1), words);
    round_column(args.src[1].data);
    barrier();
    for (; row < end; row += step) {
        float sums[ROWS];
        [[unroll]] for (int r = 0; r < ROWS; ++r) sums[r] = 0;
        for (int block = lane; block < BLOCKS; block += lanes) {
            const bool is_last = block + lanes >= BLOCKS;  // of these rows; the next ones begin at the first blocks
            const int next_row = is_last ? row + step : row, next_block = is_last ? lane : block + lanes;
            if (next_row < end) load_blocks(a.data, a.stride.y, next_row, end - 1, next_block, next);
            const ivec4 low = column[block], high = column[BLOCKS + block];
            [[unroll]] for (int r = 0; r < ROWS; ++r) {
                sums[r] += dot_block(words, r, (block & 1) != 0, low, high, scales[block]);
            }
            words = next;
        }
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
            const float total = subgroupAdd(sums[r]);
            if (lane == 0 && row + r < end) store_f32(args.y.data + uint64_t(row + r) * 4, total);
        }
    }
}
