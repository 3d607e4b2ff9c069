#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#include "arguments.glsl"
#include "activations.glsl"
#include "formats.glsl"
#include "group.glsl"

// MUL_MAT of a single column with Q4_0 or Q8_0 weights: the column is rounded to bytes, with a scale for
// every 32, once for each workgroup, into shared memory; then a subgroup has ROWS rows at a time, and
// a lane a block of each. The first blocks are on their way while the column is rounded, later ones
// while those before them are multiplied.
//
// Up to three products of the column are computed at once: weights are src[0], src[3] and src[5], their
// results y, src[4] and src[6]; args.i[0] and args.i[1] are the numbers of the workgroups at which the
// second and the third begin. With NORMED the column is the RMS_NORM of src[1] times src[2]: as each
// block has a scale of its own, sums are divided by the length afterwards.
layout(constant_id = 1) const int TYPE_A = TYPE_Q4_0;
layout(constant_id = 2) const int DEPTH = 4096;  // of the column; a multiple of 64
layout(constant_id = 3) const int ROWS = 2;  // of each matrix that a lane reads; MOST_READS at most with CHUNK
layout(constant_id = 4) const int ROWS_PER_GROUP = 16;  // of all subgroups of a workgroup
layout(constant_id = 5) const int NORMED = 0;
layout(constant_id = 6) const int END = -1;  // what becomes of sums
layout(constant_id = 7) const int CHUNK = 1;  // blocks of a row that a lane reads at a time

// The other operand, src[3], is added; from 0 on: the GLU of that number of the products with src[0] and
// src[3], both of which a workgroup takes.
const int NOTHING = -1, ADDITION = -2;

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot_of_bytes(int a, int b, spirv_literal int packed);

const int BLOCKS = DEPTH / 32;
const int CODE_WORDS = TYPE_A == TYPE_Q4_0 ? 4 : 8;  // of a block, behind its scale
const int LINES = END >= 0 ? 2 * ROWS : ROWS;  // rows that a lane reads at a time: those of one matrix, then the other's
const int READS = LINES * CHUNK, MOST_READS = 4, MOST_WORDS = 9;  // blocks

// The bytes of block b: elements 0 .. 15 at b, elements 16 .. 31 at BLOCKS + b. Lanes that have blocks
// side by side read banks side by side.
shared ivec4 column[2 * BLOCKS];
shared vec2 scales[BLOCKS];  // of a block: its scale, and that times the sum of its bytes

// Four elements of the column, of which eight invocations have a block.
void round_quad(int i, vec4 x) {
    float largest = max(max(abs(x.x), abs(x.y)), max(abs(x.z), abs(x.w)));
    [[unroll]] for (uint step = 1u; step < 8u; step *= 2u) largest = max(largest, subgroupShuffleXor(largest, step));
    const float scale = largest / 127;
    const ivec4 codes = ivec4(round(x * (scale > 0 ? 1 / scale : 0.0)));
    int sum = codes.x + codes.y + codes.z + codes.w;
    [[unroll]] for (uint step = 1u; step < 8u; step *= 2u) sum += subgroupShuffleXor(sum, step);
    if (i >= DEPTH / 4) return;
    const int block = i / 8, word = i % 8;
    column[word / 4 * BLOCKS + block][word % 4] =
        (codes.x & 255) | (codes.y & 255) << 8 | (codes.z & 255) << 16 | codes.w << 24;
    if (word == 0) scales[block] = vec2(scale, scale * float(sum));
}

// Returns this invocation's share of the sum of squares. Several loads are under way at once.
float round_column(uint64_t from, uint64_t factors) {
    const int width = int(gl_WorkGroupSize.x), batch = 4;
    float squares = 0;
    for (int first = int(gl_LocalInvocationID.x); first / width * width < DEPTH / 4; first += batch * width) {
        vec4 x[batch], factor[batch];
        [[unroll]] for (int n = 0; n < batch; ++n) {
            const uint64_t offset = uint64_t(min(first + n * width, DEPTH / 4 - 1)) * 16;
            x[n] = uintBitsToFloat(Quads(from + offset).v);
            if (NORMED != 0) factor[n] = uintBitsToFloat(Quads(factors + offset).v);
        }
        [[unroll]] for (int n = 0; n < batch; ++n) {
            const int i = first + n * width;
            if (NORMED != 0) {
                if (i < DEPTH / 4) squares += dot(x[n], x[n]);
                x[n] *= factor[n];
            }
            round_quad(i, x[n]);
        }
    }
    return squares;
}

// The matrices that this workgroup reads, of the same shape.
struct Matrices {
    uint64_t data[2];
    int64_t stride;
    int end;  // of the rows
};

// The words that CHUNK blocks of each of the lines lie in: block `block` and those a subgroup further. A
// pair of blocks is a whole number of words: the second one begins in the middle of a word.
void load_blocks(Matrices m, int row, int block, out uint words[MOST_READS * MOST_WORDS]) {
    [[unroll]] for (int l = 0; l < LINES; ++l) {
        const uint64_t line = m.data[l / ROWS] + uint64_t(min(row + l % ROWS, m.end - 1) * m.stride);
        [[unroll]] for (int c = 0; c < CHUNK; ++c) {
            const int b = min(block + c * int(gl_SubgroupSize), BLOCKS - 1);
            const uint64_t from = line + uint64_t(b * block_bytes(TYPE_A) - (b & 1) * 2);
            const int at = (l * CHUNK + c) * MOST_WORDS;
            [[unroll]] for (int i = 0; i <= CODE_WORDS; ++i) words[at + i] = load32(from + uint64_t(i * 4));
        }
    }
}

// The product of the block that was read as number `r` with the bytes of the column, `low` and `high`.
float dot_block(uint words[MOST_READS * MOST_WORDS], int r, bool is_second, ivec4 low, ivec4 high, vec2 scale) {
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
    int number = int(group_number());
    if (number >= int(args.count)) return;  // as for all invocations of the workgroup
    Matrices m;
    m.data = uint64_t[2](args.src[0].data, args.src[3].data);
    m.stride = args.src[0].stride.y;
    m.end = args.src[0].extent.y;
    uint64_t y = args.y.data;
    if (END == NOTHING && number >= args.i[0]) {
        const int which = number >= args.i[1] ? 5 : 3;
        number -= args.i[which / 2 - 1];
        m.data[0] = args.src[which].data;
        m.stride = args.src[which].stride.y;
        m.end = args.src[which].extent.y;
        y = args.src[which + 1].data;
    }
    const int first = number * ROWS_PER_GROUP;
    m.end = min(first + ROWS_PER_GROUP, m.end);
    const int lane = int(gl_SubgroupInvocationID), lanes = int(gl_SubgroupSize), step = int(gl_NumSubgroups) * ROWS;
    int row = first + int(gl_SubgroupID) * ROWS;
    uint words[MOST_READS * MOST_WORDS], next[MOST_READS * MOST_WORDS];
    load_blocks(m, row, lane, words);
    const float squares = round_column(args.src[1].data, args.src[2].data);
    float factor = 1;
    if (NORMED != 0) {
        factor = 1 / sqrt(group_sum(squares) / float(DEPTH) + args.f[0]);
    } else {
        barrier();
    }
    for (; row < m.end; row += step) {
        float sums[LINES];
        [[unroll]] for (int l = 0; l < LINES; ++l) sums[l] = 0;
        for (int begin = 0; begin < BLOCKS; begin += CHUNK * lanes) {
            const bool is_last = begin + CHUNK * lanes >= BLOCKS;  // of these rows; the next ones begin at the first blocks
            const int next_row = is_last ? row + step : row, next_begin = is_last ? 0 : begin + CHUNK * lanes;
            if (next_row < m.end) load_blocks(m, next_row, next_begin + lane, next);
            [[unroll]] for (int c = 0; c < CHUNK; ++c) {
                const int block = begin + c * lanes + lane;
                if (block >= BLOCKS) continue;
                const ivec4 low = column[block], high = column[BLOCKS + block];
                [[unroll]] for (int l = 0; l < LINES; ++l) {
                    sums[l] += dot_block(words, l * CHUNK + c, (block & 1) != 0, low, high, scales[block]);
                }
            }
            words = next;
        }
        [[unroll]] for (int l = 0; l < LINES; ++l) sums[l] = subgroupAdd(sums[l]) * factor;
        if (lane != 0) continue;
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
            if (row + r >= m.end) continue;
            float value = sums[r];
            if (END == ADDITION) value += load_f32(args.src[3].data + uint64_t(row + r) * 4);
            if (END >= 0) value = glu_of(END, value, sums[LINES - ROWS + r], args.f[1], args.f[2]);
            store_f32(y + uint64_t(row + r) * 4, value);
        }
    }
}
