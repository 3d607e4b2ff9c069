#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "faults.glsl"

// GET_ROWS, SET_ROWS and GET_ROWS_BACK of plain types. An index outside of the table reads zeros,
// writes nothing, and is reported.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_X = TYPE_F32;
layout(constant_id = 3) const int TYPE_Y = TYPE_F32;

const int GET = 0, SET = 1, BACK = 2;

void get_rows(uint i) {
    const Operand table = args.src[0], y = args.y;
    const ivec4 at = unravel(i, y.extent);
    const int row = get_index(args.src[1], ivec4(at.yzw, 0));
    const uint64_t to = address(y, at);
    if (!is_inside(row, table.extent.y)) {
        store_float(to, 0, TYPE_Y);
    } else if (TYPE_Y == TYPE_I32) {
        store32(to, load32(address(table, ivec4(at.x, row, at.zw))));
    } else {
        store_float(to, get(table, ivec4(at.x, row, at.zw), TYPE_X), TYPE_Y);
    }
}

void set_rows(uint i) {
    const Operand rows = args.src[0], indices = args.src[1];
    const ivec4 at = unravel(i, rows.extent);
    const int row = get_index(indices, ivec4(at.y, at.z % indices.extent.y, at.w % indices.extent.z, 0));
    if (!is_inside(row, args.y.extent.y)) return;
    put(args.y, ivec4(at.x, row, at.zw), get(rows, at, TYPE_X), TYPE_Y);
}

// Each element of the table goes through all indices in order: sums are the same in every run.
void get_rows_back(uint i) {
    const Operand given = args.src[0], indices = args.src[1];
    const ivec4 at = unravel(i, args.y.extent);
    float total = 0;
    for (int n = 0; n < args.i[0]; ++n) {
        if (get_index(indices, unravel(uint(n), indices.extent)) != at.y) continue;
        const ivec4 from = unravel_row(uint(n), given.extent);
        total += get(given, ivec4(at.x, from.yzw), TYPE_X);
    }
    put(args.y, at, total, TYPE_Y);
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    if (FUNCTION == GET) get_rows(i);
    if (FUNCTION == SET) set_rows(i);
    if (FUNCTION == BACK) get_rows_back(i);
}
