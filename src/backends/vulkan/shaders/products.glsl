// What products of matrices have in common: rows of weights of any type, rows of activations of a
// plain one.

// Bits of VECTORS: operands of plain types whose rows are dense, begin at a multiple of 16 bytes and have
// a multiple of 32 elements.
const int WEIGHT_VECTORS = 1, ACTIVATION_VECTORS = 2;

// Eight elements of a row of a plain type from k on, wherever they lie; zeros behind its end.
void load8_strided(int type, Operand x, uint64_t row, int k, out float v[8]) {
    [[unroll]] for (int j = 0; j < 8; ++j) {
        v[j] = k + j < x.extent.x ? load_float(row + uint64_t((k + j) * x.stride.x), type) : 0.0;
    }
}

// Eight elements of a row of weights from k on, a multiple of 8 below the end of the row.
void load_weights(int type, int vectors, Operand a, uint64_t row, int k, uint64_t books, out float w[8]) {
    if (block_elements(type) > 1) {
        decode8(type, row, k, books, w);
    } else if ((vectors & WEIGHT_VECTORS) != 0) {
        load8_aligned(type, row + uint64_t(k * block_bytes(type)), w);
    } else {
        load8_strided(type, a, row, k, w);
    }
}

void load_activations(int type, int vectors, Operand b, uint64_t row, int k, out float x[8]) {
    if ((vectors & ACTIVATION_VECTORS) != 0) {
        load8_aligned(type, row + uint64_t(k * block_bytes(type)), x);
    } else {
        load8_strided(type, b, row, k, x);
    }
}
