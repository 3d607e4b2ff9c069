// Block formats: eight elements of a block at a time. `type` is a constant, so one case remains.
// Blocks lie at even addresses, those of a whole number of words at multiples of four, those of MXFP4
// anywhere.
const int TYPE_Q4_0 = 2, TYPE_Q4_1 = 3, TYPE_Q5_0 = 6, TYPE_Q5_1 = 7, TYPE_Q8_0 = 8, TYPE_Q8_1 = 9;
const int TYPE_Q2_K = 10, TYPE_Q3_K = 11, TYPE_Q4_K = 12, TYPE_Q5_K = 13, TYPE_Q6_K = 14, TYPE_Q8_K = 15;
const int TYPE_IQ2_XXS = 16, TYPE_IQ2_XS = 17, TYPE_IQ3_XXS = 18, TYPE_IQ1_S = 19, TYPE_IQ4_NL = 20;
const int TYPE_IQ3_S = 21, TYPE_IQ2_S = 22, TYPE_IQ4_XS = 23, TYPE_IQ1_M = 29, TYPE_TQ1_0 = 34;
const int TYPE_TQ2_0 = 35, TYPE_MXFP4 = 39, TYPE_NVFP4 = 40, TYPE_Q1_0 = 41, TYPE_Q2_0 = 42;

int block_elements(int type) {
    switch (type) {
        case TYPE_F32: case TYPE_F16: case TYPE_BF16: case TYPE_I32: return 1;
        case TYPE_Q1_0: return 128;
        case TYPE_Q2_0: case TYPE_NVFP4: return 64;
        case TYPE_Q4_0: case TYPE_Q4_1: case TYPE_Q5_0: case TYPE_Q5_1: case TYPE_Q8_0:
        case TYPE_Q8_1: case TYPE_IQ4_NL: case TYPE_MXFP4: return 32;
        default: return 256;
    }
}

int block_bytes(int type) {
    switch (type) {
        case TYPE_F32: case TYPE_I32: return 4;
        case TYPE_F16: case TYPE_BF16: return 2;
        case TYPE_Q1_0: case TYPE_Q2_0: case TYPE_Q4_0: case TYPE_IQ4_NL: return 18;
        case TYPE_Q4_1: return 20;
        case TYPE_Q5_0: return 22;
        case TYPE_Q5_1: return 24;
        case TYPE_Q8_0: return 34;
        case TYPE_Q8_1: case TYPE_NVFP4: return 36;
        case TYPE_Q8_K: return 292;
        case TYPE_Q2_K: return 84;
        case TYPE_Q3_K: case TYPE_IQ3_S: return 110;
        case TYPE_Q4_K: return 144;
        case TYPE_Q5_K: return 176;
        case TYPE_Q6_K: return 210;
        case TYPE_IQ2_XXS: case TYPE_TQ2_0: return 66;
        case TYPE_IQ2_XS: return 74;
        case TYPE_IQ2_S: return 82;
        case TYPE_IQ3_XXS: return 98;
        case TYPE_IQ1_S: return 50;
        case TYPE_IQ1_M: return 56;
        case TYPE_IQ4_XS: return 136;
        case TYPE_TQ1_0: return 54;
        default: return 17;
    }
}

// ---- fields ------------------------------------------------------------------------------------

uint load32_even(uint64_t p) { return load16(p) | load16(p + 2) << 16; }
uint load32_any(uint64_t p) { return load8(p) | load8(p + 1) << 8 | load8(p + 2) << 16 | load8(p + 3) << 24; }
uvec2 load64_even(uint64_t p) { return uvec2(load32_even(p), load32_even(p + 4)); }

// Eight bytes of codes; in blocks of whole words they lie at a multiple of four.
uvec2 load64_codes(int type, uint64_t p) {
    return block_bytes(type) % 4 == 0 ? uvec2(load32(p), load32(p + 4)) : load64_even(p);
}

float load_half(uint64_t p) { return half_to_float(load16(p)); }

// Byte j (0 .. 7) of a double word.
uint byte_of(uvec2 word, int j) { return (j < 4 ? word.x : word.y) >> (8 * (j & 3)) & 255u; }
int signed_byte_of(uvec2 word, int j) { return bitfieldExtract(int(j < 4 ? word.x : word.y), 8 * (j & 3), 8); }
float with_sign(float value, uint signs, int j) {
    return uintBitsToFloat(floatBitsToUint(value) ^ (signs >> j & 1u) << 31);
}

// Eight codes of four bits, of elements i .. i + 7; byte j of the codes has elements j and j + 16.
uvec2 nibbles(int type, uint64_t codes, int i) {
    return load64_codes(type, codes + (i & 15)) >> (i < 16 ? 0 : 4) & 0x0f0f0f0fu;
}

// ---- codebooks ---------------------------------------------------------------------------------

// Offsets in gpu::Codebooks.
const int GRID_IQ2_XXS = 0, GRID_IQ2_XS = 2048, GRID_IQ2_S = 6144, GRID_IQ1 = 14336;
const int GRID_IQ3_XXS = 30720, GRID_IQ3_S = 31744;

uvec2 grid_row8(uint64_t books, int grid, uint row) {
    const uint64_t p = books + uint64_t(grid + int(row) * 8);
    return uvec2(load32(p), load32(p + 4));
}
uint grid_row4(uint64_t books, int grid, uint row) { return load32(books + uint64_t(grid + int(row) * 4)); }

// Eight signs of which seven are stored: the number of negative elements is even.
uint even_signs(uint stored) { return stored | (uint(bitCount(stored)) & 1u) << 7; }

void scale_row(uvec2 row, uint signs, float step, out float y[8]) {
    [[unroll]] for (int j = 0; j < 8; ++j) y[j] = with_sign(step * float(byte_of(row, j)), signs, j);
}
float grid_step(float d, uint scale, float factor) { return d * (0.5 + float(scale)) * factor; }
void scale_shifted_row(uvec2 row, float shift, float step, out float y[8]) {
    [[unroll]] for (int j = 0; j < 8; ++j) y[j] = step * (float(signed_byte_of(row, j)) + shift);
}

// ---- levels ------------------------------------------------------------------------------------

// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113.
int nonlinear_level(int code) {
    const uvec2 levels = code < 8 ? uvec2(0xbfad9881u, 0xf6eaddcfu) : uvec2(0x26190d01u, 0x71594535u);
    return signed_byte_of(levels, code & 7);
}

// Twice the value of an E2M1 code: 0 1 2 3 4 6 8 12 and the same below zero.
float doubled_e2m1(uint code) {
    const int magnitude = int(0xc8643210u >> (4 * (code & 7u)) & 15u);
    return float((code & 8u) != 0u ? -magnitude : magnitude);
}

// 2^(code - 128).
float e8m0_to_float_half(uint code) { return uintBitsToFloat(code < 2u ? 0x00200000u << code : (code - 1u) << 23); }

// Half of the value of an unsigned E4M3 code; 0x7f, the standard's NaN, is 0.
float ue4m3_to_float_half(uint code) {
    if (code == 0u || code == 0x7fu) return 0;
    const uint exponent = code >> 3 & 15u;
    const float mantissa = float(code & 7u);
    if (exponent == 0u) return mantissa * 0.0009765625;
    return (1 + mantissa * 0.125) * uintBitsToFloat((exponent + 119u) << 23);
}

int trit(uint byte, int digit) {
    const uint power = digit == 0 ? 1u : digit == 1 ? 3u : digit == 2 ? 9u : digit == 3 ? 27u : 81u;
    return int((byte * power & 255u) * 3u >> 8);
}

// ---- K formats ---------------------------------------------------------------------------------

// Scale j, 0 .. 63, of the sixteen that Q3_K keeps in twelve bytes.
int q3_scale(uint64_t scales, int j) {
    const uint low = j < 8 ? load8(scales + j) & 15u : load8(scales + (j - 8)) >> 4;
    return int(low | (load8(scales + (8 + j % 4)) >> (2 * (j / 4)) & 3u) << 4);
}

// Scale and minimum j of the eight pairs that Q4_K and Q5_K keep in twelve bytes.
uvec2 scale_and_minimum(uint64_t packed, int j) {
    if (j < 4) return uvec2(load8(packed + j), load8(packed + (j + 4))) & 63u;
    const uint both = load8(packed + (j + 4));
    return uvec2((both & 15u) | load8(packed + (j - 4)) >> 6 << 4, both >> 4 | load8(packed + j) >> 6 << 4);
}

void decode8_k(int type, uint64_t block, int i, out float y[8]) {
    if (type == TYPE_Q2_K) {
        const uint scales = load8(block + i / 16);
        const float step = load_half(block + 80) * float(scales & 15u), low = load_half(block + 82) * float(scales >> 4);
        const uvec2 bytes = load64_codes(type, block + (16 + i / 128 * 32 + i % 32));
        const int shift = i % 128 / 32 * 2;
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = step * float(byte_of(bytes, j) >> shift & 3u) - low;
    } else if (type == TYPE_Q3_K) {
        const int group = i / 32;  // also the bit of the mask
        const float step = load_half(block + 108) * float(q3_scale(block + 96, i / 16) - 32);
        const uvec2 bytes = load64_codes(type, block + (32 + i / 128 * 32 + i % 32)), high = load64_codes(type, block + i % 32);
        [[unroll]] for (int j = 0; j < 8; ++j) {
            const int low = int(byte_of(bytes, j) >> (2 * (group & 3)) & 3u);
            y[j] = step * float(low - ((byte_of(high, j) >> group & 1u) != 0u ? 0 : 4));
        }
    } else if (type == TYPE_Q6_K) {
        const int part = i / 128, group = i % 128 / 32, l = i % 32;
        const float step = load_half(block + 208) * float(bitfieldExtract(int(load8(block + (192 + i / 16))), 0, 8));
        const uvec2 bytes = load64_codes(type, block + (64 * part + l + 32 * (group & 1)));
        const uvec2 high = load64_codes(type, block + (128 + 32 * part + l));
        const int shift = group < 2 ? 0 : 4;
        [[unroll]] for (int j = 0; j < 8; ++j) {
            const uint code = (byte_of(bytes, j) >> shift & 15u) | (byte_of(high, j) >> (2 * group) & 3u) << 4;
            y[j] = step * float(int(code) - 32);
        }
    } else {
        const bool is_q5 = type == TYPE_Q5_K;
        const uvec2 part = scale_and_minimum(block + 4, i / 32);
        const float step = load_half(block) * float(part.x), low = load_half(block + 2) * float(part.y);
        const uvec2 bytes = load64_codes(type, block + ((is_q5 ? 48 : 16) + i / 64 * 32 + i % 32));
        const uvec2 high = is_q5 ? load64_codes(type, block + (16 + i % 32)) : uvec2(0);
        const int shift = i % 64 < 32 ? 0 : 4;
        [[unroll]] for (int j = 0; j < 8; ++j) {
            const uint code = (byte_of(bytes, j) >> shift & 15u) | (byte_of(high, j) >> (i / 32) & 1u) << 4;
            y[j] = step * float(code) - low;
        }
    }
}

// ---- formats with codebooks --------------------------------------------------------------------

void decode8_grid(int type, uint64_t block, int i, uint64_t books, out float y[8]) {
    const int part = i / 32;
    if (type == TYPE_IQ2_XXS) {
        const uint64_t record = block + (2 + part * 8);
        const int group = i % 32 / 8;
        const uint word = load32_even(record + 4);
        scale_row(grid_row8(books, GRID_IQ2_XXS, load8(record + group)), even_signs(word >> (7 * group) & 127u),
                  grid_step(load_half(block), word >> 28, 0.25), y);
    } else if (type == TYPE_IQ2_XS) {
        const uint code = load16(block + (2 + i / 8 * 2));
        const uint scale = load8(block + (66 + part)) >> (i % 32 < 16 ? 0 : 4) & 15u;
        scale_row(grid_row8(books, GRID_IQ2_XS, code & 511u), even_signs(code >> 9),
                  grid_step(load_half(block), scale, 0.25), y);
    } else if (type == TYPE_IQ2_S) {
        const int group = i / 8;
        const uint high = load8(block + (66 + part)) >> (2 * (group % 4)) & 3u;
        const uint scale = load8(block + (74 + part)) >> (i % 32 < 16 ? 0 : 4) & 15u;
        scale_row(grid_row8(books, GRID_IQ2_S, load8(block + (2 + group)) | high << 8), load8(block + (34 + group)),
                  grid_step(load_half(block), scale, 0.25), y);
    } else if (type == TYPE_IQ3_XXS) {
        const uint word = load32_even(block + (66 + part * 4)), codes = load16(block + (2 + i / 4));
        const uvec2 row = uvec2(grid_row4(books, GRID_IQ3_XXS, codes & 255u), grid_row4(books, GRID_IQ3_XXS, codes >> 8));
        scale_row(row, even_signs(word >> (7 * (i % 32 / 8)) & 127u), grid_step(load_half(block), word >> 28, 0.5), y);
    } else if (type == TYPE_IQ3_S) {
        const uint codes = load16(block + (2 + i / 4)), high = load8(block + (66 + part)) >> (i / 4 % 8);
        const uvec2 row = uvec2(grid_row4(books, GRID_IQ3_S, (codes & 255u) | (high & 1u) << 8),
                                grid_row4(books, GRID_IQ3_S, codes >> 8 | (high >> 1 & 1u) << 8));
        const uint scale = load8(block + (106 + i / 64)) >> (4 * (part & 1)) & 15u;
        scale_row(row, load8(block + (74 + i / 8)), load_half(block) * float(1u + 2u * scale), y);
    } else if (type == TYPE_IQ1_S) {
        const uint high = load16(block + (34 + part * 2));
        const uint index = load8(block + (2 + i / 8)) | (high >> (3 * (i % 32 / 8)) & 7u) << 8;
        scale_shifted_row(grid_row8(books, GRID_IQ1, index), (high & 0x8000u) != 0u ? -0.125 : 0.125,
                          load_half(block) * float(2u * (high >> 12 & 7u) + 1u), y);
    } else {
        uint d = 0u;  // a half float in the top nibbles of the scales
        [[unroll]] for (int t = 0; t < 4; ++t) d |= load16(block + (48 + 2 * t)) >> 12 << (4 * t);
        const uint scale = load16(block + (48 + part / 2 * 2)) >> (6 * (part & 1) + 3 * (i % 32 / 16)) & 7u;
        const uint high = load8(block + (32 + i / 16)) >> (4 * (i / 8 % 2)) & 15u;
        scale_shifted_row(grid_row8(books, GRID_IQ1, load8(block + i / 8) | (high & 7u) << 8),
                          (high & 8u) != 0u ? -0.125 : 0.125, half_to_float(d) * float(2u * scale + 1u), y);
    }
}

// ---- formats with one scale, and those of floats with four bits --------------------------------

void decode8_simple(int type, uint64_t block, int i, out float y[8]) {
    if (type == TYPE_Q8_0 || type == TYPE_Q8_1 || type == TYPE_Q8_K) {
        const float d = type == TYPE_Q8_K ? uintBitsToFloat(load32_even(block)) : load_half(block);
        const uvec2 codes = load64_codes(type, block + ((type == TYPE_Q8_0 ? 2 : 4) + i));
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = float(signed_byte_of(codes, j)) * d;
        return;
    }
    if (type == TYPE_MXFP4) {
        const float d = e8m0_to_float_half(load8(block));
        const uint64_t p = block + (1 + (i & 15));
        const uvec2 codes = uvec2(load32_any(p), load32_any(p + 4)) >> (i < 16 ? 0 : 4);
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = doubled_e2m1(byte_of(codes, j) & 15u) * d;
        return;
    }
    if (type == TYPE_NVFP4) {
        const float d = ue4m3_to_float_half(load8(block + i / 16));
        const uvec2 codes = load64_codes(type, block + (4 + i / 16 * 8)) >> (i % 16 < 8 ? 0 : 4);
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = doubled_e2m1(byte_of(codes, j) & 15u) * d;
        return;
    }
    const float d = load_half(block);
    if (type == TYPE_Q1_0) {
        const uint bits = load8(block + (2 + i / 8));
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = (bits >> j & 1u) != 0u ? d : -d;
    } else if (type == TYPE_Q2_0) {
        const uint codes = load16(block + (2 + i / 4));
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = float(int(codes >> (2 * j) & 3u) - 1) * d;
    } else if (type == TYPE_Q4_0) {
        const uvec2 codes = nibbles(type, block + 2, i);
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = float(int(byte_of(codes, j)) - 8) * d;
    } else if (type == TYPE_IQ4_NL) {
        const uvec2 codes = nibbles(type, block + 2, i);
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = d * float(nonlinear_level(int(byte_of(codes, j))));
    } else if (type == TYPE_Q4_1) {
        const float m = load_half(block + 2);
        const uvec2 codes = nibbles(type, block + 4, i);
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = float(byte_of(codes, j)) * d + m;
    } else {
        const bool has_minimum = type == TYPE_Q5_1;
        const float m = has_minimum ? load_half(block + 2) : -16 * d;
        const uint high = load8(block + ((has_minimum ? 4 : 2) + i / 8));
        const uvec2 codes = nibbles(type, block + (has_minimum ? 8 : 6), i);
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = float(byte_of(codes, j) | (high >> j & 1u) << 4) * d + m;
    }
}

void decode8_large(int type, uint64_t block, int i, out float y[8]) {
    if (type == TYPE_IQ4_XS) {
        const int part = i / 32;
        const uint low = load8(block + (4 + part / 2)) >> (4 * (part & 1)) & 15u;
        const uint high = load16(block + 2) >> (2 * part) & 3u;
        const float step = load_half(block) * float(int(low | high << 4) - 32);
        const uvec2 codes = nibbles(type, block + (8 + 16 * part), i % 32);
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = step * float(nonlinear_level(int(byte_of(codes, j))));
    } else if (type == TYPE_TQ2_0) {
        const float d = load_half(block + 64);
        const uvec2 bytes = load64_codes(type, block + (i / 128 * 32 + i % 32));
        const int shift = i % 128 / 32 * 2;
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = float(int(byte_of(bytes, j) >> shift & 3u) - 1) * d;
    } else {
        const float d = load_half(block + 52);
        [[unroll]] for (int j = 0; j < 8; ++j) {
            const int e = i + j;
            const int t = i < 160   ? trit(load8(block + e % 32), e / 32)
                          : i < 240 ? trit(load8(block + (32 + (e - 160) % 16)), (e - 160) / 16)
                                    : trit(load8(block + (48 + (e - 240) % 4)), (e - 240) / 4);
            y[j] = float(t - 1) * d;
        }
    }
}

// Elements i .. i + 7 of a block, i a multiple of 8.
void decode8_of_block(int type, uint64_t block, int i, uint64_t books, out float y[8]) {
    switch (type) {
        case TYPE_Q2_K: case TYPE_Q3_K: case TYPE_Q4_K: case TYPE_Q5_K: case TYPE_Q6_K:
            decode8_k(type, block, i, y);
            break;
        case TYPE_IQ2_XXS: case TYPE_IQ2_XS: case TYPE_IQ2_S: case TYPE_IQ3_XXS: case TYPE_IQ3_S:
        case TYPE_IQ1_S: case TYPE_IQ1_M:
            decode8_grid(type, block, i, books, y);
            break;
        case TYPE_IQ4_XS: case TYPE_TQ1_0: case TYPE_TQ2_0:
            decode8_large(type, block, i, y);
            break;
        default:
            decode8_simple(type, block, i, y);
    }
}

// Eight elements of a plain type at a multiple of 16 bytes.
void load8_aligned(int type, uint64_t p, out float v[8]) {
    const uvec4 first = Quads(p).v;
    if (type == TYPE_F32) {
        const uvec4 second = Quads(p + 16).v;
        [[unroll]] for (int j = 0; j < 4; ++j) {
            v[j] = uintBitsToFloat(first[j]);
            v[4 + j] = uintBitsToFloat(second[j]);
        }
        return;
    }
    [[unroll]] for (int j = 0; j < 4; ++j) {
        v[2 * j] = type == TYPE_F16 ? half_to_float(first[j] & 0xffffu) : bfloat_to_float(first[j] & 0xffffu);
        v[2 * j + 1] = type == TYPE_F16 ? half_to_float(first[j] >> 16) : bfloat_to_float(first[j] >> 16);
    }
}

// Elements i .. i + 7 of a row of any type, i a multiple of 8.
void decode8(int type, uint64_t row, int i, uint64_t books, out float y[8]) {
    const int elements = block_elements(type), bytes = block_bytes(type);
    if (elements == 1) {
        [[unroll]] for (int j = 0; j < 8; ++j) y[j] = load_float(row + uint64_t(i + j) * bytes, type);
    } else {
        decode8_of_block(type, row + uint64_t(i / elements) * bytes, i % elements, books, y);
    }
}
