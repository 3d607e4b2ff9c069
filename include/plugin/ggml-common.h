/// Storage blocks of the quantized types.
///
/// These layouts are what model files hold: packed, little endian, no padding. Multi-byte fields
/// are at most 2-byte aligned in a tensor (4-byte for block_q8_K), whatever the struct asks for.
#pragma once

#include <stdint.h>

typedef uint16_t ggml_half;   ///< Bits of a half float.
typedef uint32_t ggml_half2;  ///< Two of them, the first in the lower half.

#ifdef __GNUC__
#define GGML_COMMON_ANONYMOUS __extension__  ///< Unnamed structs inside a struct, quietly.
#else
#define GGML_COMMON_ANONYMOUS
#endif

// ------------------------------------------------------------------------------------------------
// Elements per block

#define QK1_0 128        ///< Elements in a block_q1_0.
#define QK2_0 64         ///< Elements in a block_q2_0.
#define QK4_0 32         ///< Elements in a block_q4_0.
#define QK4_1 32         ///< Elements in a block_q4_1.
#define QK5_0 32         ///< Elements in a block_q5_0.
#define QK5_1 32         ///< Elements in a block_q5_1.
#define QK8_0 32         ///< Elements in a block_q8_0.
#define QK8_1 32         ///< Elements in a block_q8_1.
#define QK4_NL 32        ///< Elements in a block_iq4_nl.
#define QK_MXFP4 32      ///< Elements in a block_mxfp4.
#define QK_NVFP4 64      ///< Elements in a block_nvfp4.
#define QK_NVFP4_SUB 16  ///< Elements that share a scale in a block_nvfp4.
#define QK_K 256  ///< Elements in a super-block: all K and TQ types, all IQ types but IQ4_NL.

#define K_SCALE_SIZE 12           ///< Bytes of packed 6-bit scales in Q4_K and Q5_K.
#define IQ3S_N_SCALE (QK_K / 64)  ///< Bytes of scales in IQ3_S.
#define NGRID_IQ1S 2048           ///< Rows in the codebook of IQ1_S and IQ1_M.
#define IQ1S_DELTA 0.125f         ///< Shift of the levels of IQ1_S.
#define IQ1M_DELTA 0.125f         ///< Shift of the levels of IQ1_M.

// ------------------------------------------------------------------------------------------------
// Blocks with one scale

/// 1 bit: value is d or -d.
typedef struct {
    ggml_half d;            ///< Scale.
    uint8_t qs[QK1_0 / 8];  ///< Element i is bit i % 8 of byte i / 8; 1 means +d.
} block_q1_0;

/// 2 bits: value is (q - 1) * d.
typedef struct {
    ggml_half d;            ///< Scale.
    uint8_t qs[QK2_0 / 4];  ///< Four codes per byte, lowest bits first.
} block_q2_0;

/// 4 bits: value is (q - 8) * d.
typedef struct {
    ggml_half d;            ///< Scale.
    uint8_t qs[QK4_0 / 2];  ///< Byte j holds elements j (low nibble) and j + 16 (high nibble).
} block_q4_0;

/// 4 bits with a minimum: value is q * d + m.
typedef struct {
    GGML_COMMON_ANONYMOUS union {
        GGML_COMMON_ANONYMOUS struct {
            ggml_half d;  ///< Scale.
            ggml_half m;  ///< Minimum.
        };
        ggml_half2 dm;  ///< Both.
    };
    uint8_t qs[QK4_1 / 2];  ///< Nibbles as in block_q4_0.
} block_q4_1;

/// 5 bits: value is (q - 16) * d.
typedef struct {
    ggml_half d;            ///< Scale.
    uint8_t qh[4];          ///< Bit 4 of element i is bit i of this 32-bit number.
    uint8_t qs[QK5_0 / 2];  ///< Low nibbles as in block_q4_0.
} block_q5_0;

/// 5 bits with a minimum: value is q * d + m.
typedef struct {
    GGML_COMMON_ANONYMOUS union {
        GGML_COMMON_ANONYMOUS struct {
            ggml_half d;  ///< Scale.
            ggml_half m;  ///< Minimum.
        };
        ggml_half2 dm;  ///< Both.
    };
    uint8_t qh[4];          ///< Bit 4 of element i is bit i of this 32-bit number.
    uint8_t qs[QK5_1 / 2];  ///< Low nibbles as in block_q4_0.
} block_q5_1;

/// 8 bits: value is q * d.
typedef struct {
    ggml_half d;       ///< Scale.
    int8_t qs[QK8_0];  ///< Codes.
} block_q8_0;

/// 8 bits with the sum, an operand of dot products: value is q * d.
typedef struct {
    GGML_COMMON_ANONYMOUS union {
        GGML_COMMON_ANONYMOUS struct {
            ggml_half d;  ///< Scale.
            ggml_half s;  ///< d * sum of the codes.
        };
        ggml_half2 ds;  ///< Both.
    };
    int8_t qs[QK8_1];  ///< Codes.
} block_q8_1;

/// 4-bit floats with a power of two as scale (OCP MX): value is fp4(q) * 2^(e - 127).
typedef struct {
    uint8_t e;                 ///< Exponent of the scale.
    uint8_t qs[QK_MXFP4 / 2];  ///< E2M1 codes, nibbles as in block_q4_0.
} block_mxfp4;

/// 4-bit floats with an unsigned E4M3 scale for every 16 elements.
typedef struct {
    uint8_t d[QK_NVFP4 / QK_NVFP4_SUB];  ///< Scales.
    uint8_t qs[QK_NVFP4 / 2];            ///< 8 bytes per scale; byte j holds elements j and j + 8.
} block_nvfp4;

// ------------------------------------------------------------------------------------------------
// Ternary super-blocks: value is (t - 1) * d

/// Five trits per byte, 1.6875 bits per element.
typedef struct {
    uint8_t qs[(QK_K - 4 * QK_K / 64) / 5];  ///< Elements 0 to 239, five per byte.
    uint8_t qh[QK_K / 64];                   ///< Elements 240 to 255, four per byte.
    ggml_half d;                             ///< Scale.
} block_tq1_0;

/// Two bits per trit.
typedef struct {
    uint8_t
        qs[QK_K / 4];  ///< Codes; in each half of the block byte j holds j, j + 32, j + 64, j + 96.
    ggml_half d;       ///< Scale.
} block_tq2_0;

// ------------------------------------------------------------------------------------------------
// K super-blocks: scales of sub-blocks are themselves quantized

/// 2 bits; 16 sub-blocks of 16 with scale and minimum of 4 bits each.
typedef struct {
    uint8_t scales[QK_K / 16];  ///< Low nibble: scale, high nibble: minimum.
    uint8_t qs[QK_K / 4];       ///< Codes.
    GGML_COMMON_ANONYMOUS union {
        GGML_COMMON_ANONYMOUS struct {
            ggml_half d;     ///< Unit of the scales.
            ggml_half dmin;  ///< Unit of the minima.
        };
        ggml_half2 dm;  ///< Both.
    };
} block_q2_K;

/// 3 bits; 16 sub-blocks of 16 with 6-bit scales.
typedef struct {
    uint8_t hmask[QK_K / 8];  ///< Bit 2 of the codes.
    uint8_t qs[QK_K / 4];     ///< Bits 0 and 1 of the codes.
    uint8_t scales[12];       ///< 16 packed scales of 6 bits.
    ggml_half d;              ///< Unit of the scales.
} block_q3_K;

/// 4 bits; 8 sub-blocks of 32 with scale and minimum of 6 bits each.
typedef struct {
    GGML_COMMON_ANONYMOUS union {
        GGML_COMMON_ANONYMOUS struct {
            ggml_half d;     ///< Unit of the scales.
            ggml_half dmin;  ///< Unit of the minima.
        };
        ggml_half2 dm;  ///< Both.
    };
    uint8_t scales[K_SCALE_SIZE];  ///< Packed scales and minima.
    uint8_t qs[QK_K / 2];          ///< Codes.
} block_q4_K;

/// 5 bits; 8 sub-blocks of 32 with scale and minimum of 6 bits each.
typedef struct {
    GGML_COMMON_ANONYMOUS union {
        GGML_COMMON_ANONYMOUS struct {
            ggml_half d;     ///< Unit of the scales.
            ggml_half dmin;  ///< Unit of the minima.
        };
        ggml_half2 dm;  ///< Both.
    };
    uint8_t scales[K_SCALE_SIZE];  ///< Packed scales and minima.
    uint8_t qh[QK_K / 8];          ///< Bit 4 of the codes.
    uint8_t qs[QK_K / 2];          ///< Bits 0 to 3 of the codes.
} block_q5_K;

/// 6 bits; 16 sub-blocks of 16 with 8-bit scales.
typedef struct {
    uint8_t ql[QK_K / 2];      ///< Bits 0 to 3 of the codes.
    uint8_t qh[QK_K / 4];      ///< Bits 4 and 5 of the codes.
    int8_t scales[QK_K / 16];  ///< Scales.
    ggml_half d;               ///< Unit of the scales.
} block_q6_K;

/// 8 bits with sums, an operand of dot products: value is q * d.
typedef struct {
    float d;                   ///< Scale.
    int8_t qs[QK_K];           ///< Codes.
    int16_t bsums[QK_K / 16];  ///< Sums of 16 codes each.
} block_q8_K;

// ------------------------------------------------------------------------------------------------
// IQ blocks: groups of elements are rows of a codebook

/// 2.06 bits; groups of 8, codebook of 256 rows.
typedef struct {
    ggml_half d;            ///< Scale.
    uint16_t qs[QK_K / 8];  ///< Per 32 elements: four row numbers, then signs and a 4-bit scale.
} block_iq2_xxs;

/// 2.31 bits; groups of 8, codebook of 512 rows.
typedef struct {
    ggml_half d;                ///< Unit of the scales.
    uint16_t qs[QK_K / 8];      ///< 9 bits of row number, 7 bits of signs.
    uint8_t scales[QK_K / 32];  ///< 4-bit scales of 16 elements each.
} block_iq2_xs;

/// 2.56 bits; groups of 8, codebook of 1024 rows.
typedef struct {
    ggml_half d;                ///< Unit of the scales.
    uint8_t qs[QK_K / 4];       ///< First half: low row numbers; second half: signs.
    uint8_t qh[QK_K / 32];      ///< Upper two bits of the row numbers.
    uint8_t scales[QK_K / 32];  ///< 4-bit scales of 16 elements each.
} block_iq2_s;

/// 3.06 bits; groups of 4, codebook of 256 rows.
typedef struct {
    ggml_half d;               ///< Scale.
    uint8_t qs[3 * QK_K / 8];  ///< 64 row numbers, then 32 bits of signs and scale per 32 elements.
} block_iq3_xxs;

/// 3.44 bits; groups of 4, codebook of 512 rows.
typedef struct {
    ggml_half d;                   ///< Unit of the scales.
    uint8_t qs[QK_K / 4];          ///< Low 8 bits of the row numbers.
    uint8_t qh[QK_K / 32];         ///< Bit 8 of the row numbers.
    uint8_t signs[QK_K / 8];       ///< One bit per element.
    uint8_t scales[IQ3S_N_SCALE];  ///< 4-bit scales of 32 elements each.
} block_iq3_s;

/// 1.56 bits; groups of 8, codebook of 2048 rows of -1, 0, 1.
typedef struct {
    ggml_half d;             ///< Unit of the scales.
    uint8_t qs[QK_K / 8];    ///< Low 8 bits of the row numbers.
    uint16_t qh[QK_K / 32];  ///< Upper bits of four row numbers, 3-bit scale, sign of the shift.
} block_iq1_s;

/// 1.75 bits; groups of 8, codebook of 2048 rows of -1, 0, 1.
typedef struct {
    uint8_t qs[QK_K / 8];       ///< Low 8 bits of the row numbers.
    uint8_t qh[QK_K / 16];      ///< Per group: 3 upper bits and the sign of the shift.
    uint8_t scales[QK_K / 32];  ///< 3-bit scales of 16 elements; a half float in the top nibbles.
} block_iq1_m;

/// Puts the half float of a block_iq1_m together.
typedef union {
    ggml_half f16;  ///< As the scale.
    uint16_t u16;   ///< As bits.
} iq1m_scale_t;

/// 4 bits, not evenly spaced levels: value is d * level(q).
typedef struct {
    ggml_half d;             ///< Scale.
    uint8_t qs[QK4_NL / 2];  ///< Nibbles as in block_q4_0.
} block_iq4_nl;

/// The same levels with 6-bit scales for every 32 elements.
typedef struct {
    ggml_half d;                  ///< Unit of the scales.
    uint16_t scales_h;            ///< Bits 4 and 5 of the scales.
    uint8_t scales_l[QK_K / 64];  ///< Bits 0 to 3 of the scales.
    uint8_t qs[QK_K / 2];         ///< Per 32 elements nibbles as in block_q4_0.
} block_iq4_xs;
