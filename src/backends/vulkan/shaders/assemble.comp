#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "units.glsl"

// CONCAT, REPEAT, REPEAT_BACK, PAD, PAD_REFLECT_1D, ROLL, SET, ACC, and the windows and relative
// positions of image models.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_X = TYPE_F32;
layout(constant_id = 3) const int TYPE_Y = TYPE_F32;
layout(constant_id = 4) const int UNIT = 4;  // bytes of what is moved as it is

const int CONCAT = 0, REPEAT = 1, REPEAT_BACK = 2, PAD = 3, REFLECT = 4, ROLL = 5, SET = 6, ACC = 7;
const int WIN_PART = 8, WIN_UNPART = 9, GET_REL_POS = 10, ADD_REL_POS = 11;

void concat(ivec4 at) {
    const Operand a = args.src[0];
    const int dim = args.i[0];
    ivec4 from = at;
    const bool is_first = at[dim] < a.extent[dim];
    if (!is_first) from[dim] -= a.extent[dim];
    const uint64_t source = is_first ? address(a, from) : address(args.src[1], from);
    copy_unit(address(args.y, at), source, UNIT);
}

// Every tile of the gradient is added up, in order.
float repeat_back(ivec4 at) {
    const Operand x = args.src[0];
    const ivec4 step = args.y.extent;
    float total = 0;
    for (int i3 = at.w; i3 < x.extent.w; i3 += step.w) {
        for (int i2 = at.z; i2 < x.extent.z; i2 += step.z) {
            for (int i1 = at.y; i1 < x.extent.y; i1 += step.y) {
                for (int i0 = at.x; i0 < x.extent.x; i0 += step.x) {
                    total += get(x, ivec4(i0, i1, i2, i3), TYPE_X);
                }
            }
        }
    }
    return total;
}

ivec4 wrapped(ivec4 i, ivec4 n) {
    ivec4 result;
    [[unroll]] for (int d = 0; d < 4; ++d) {
        int rest = i[d] - i[d] / n[d] * n[d];
        result[d] = rest < 0 ? rest + n[d] : rest;
    }
    return result;
}

float pad(ivec4 at) {
    const Operand x = args.src[0];
    at -= ivec4(args.i[0], args.i[1], args.i[2], args.i[3]);
    if (args.i[4] != 0) at = wrapped(at, x.extent);
    const bool is_in = all(greaterThanEqual(at, ivec4(0))) && all(lessThan(at, x.extent));
    return is_in ? get(x, at, TYPE_X) : 0.0;
}

// The edge itself is not repeated.
float reflected(ivec4 at) {
    const Operand x = args.src[0];
    int j = abs(at.x - args.i[0]);
    if (j >= x.extent.x) j = 2 * (x.extent.x - 1) - j;
    return get(x, ivec4(j, at.yzw), TYPE_X);
}

float rolled(ivec4 at) {
    const Operand x = args.src[0];
    const ivec4 shift = ivec4(args.i[0], args.i[1], args.i[2], args.i[3]);
    return get(x, wrapped(at - shift, x.extent), TYPE_X);
}

float win_part(ivec4 at) {
    const Operand x = args.src[0];
    const int across = args.i[0], width = args.i[1];
    const int i1 = at.w % across * width + at.y, i2 = at.w / across * width + at.z;
    return i1 < x.extent.y && i2 < x.extent.z ? get(x, ivec4(at.x, i1, i2, 0), TYPE_X) : 0.0;
}

float win_unpart(ivec4 at) {
    const int across = args.i[0], width = args.i[1];
    const int window = at.z / width * across + at.y / width;
    return get(args.src[0], ivec4(at.x, at.y % width, at.z % width, window), TYPE_X);
}

// Rows are queries; the two tables vary with the fast and the slow half of the key's index.
float add_rel_pos(uint i) {
    const uint n = uint(args.i[0]), query = i / (n * n), key = i % (n * n);
    return load_f32(args.src[0].data + uint64_t(i) * 4) +
           load_f32(args.src[1].data + uint64_t(query * n + key % n) * 4) +
           load_f32(args.src[2].data + uint64_t(query * n + key / n) * 4);
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand y = args.y;
    const bool follows_b = FUNCTION == SET || FUNCTION == ACC;
    const ivec4 at = unravel(i, follows_b ? args.src[1].extent : y.extent);
    switch (FUNCTION) {
        case CONCAT: concat(at); break;
        case REPEAT:
            copy_unit(address(y, at), address(args.src[0], at % args.src[0].extent), UNIT);
            break;
        case REPEAT_BACK: put(y, at, repeat_back(at), TYPE_Y); break;
        case PAD: put(y, at, pad(at), TYPE_Y); break;
        case REFLECT: put(y, at, reflected(at), TYPE_Y); break;
        case ROLL: put(y, at, rolled(at), TYPE_Y); break;
        case SET: copy_unit(address(y, at), address(args.src[1], at), 4); break;
        case ACC: put_f32(y, at, get_f32(y, at) + get_f32(args.src[1], at)); break;
        case WIN_PART: put(y, at, win_part(at), TYPE_Y); break;
        case WIN_UNPART: put(y, at, win_unpart(at), TYPE_Y); break;
        case GET_REL_POS:
            put(y, at, get(args.src[0], ivec4(at.x, y.extent.y - 1 - at.y + at.z, 0, 0), TYPE_X), TYPE_Y);
            break;
        default: store_f32(y.data + uint64_t(i) * 4, add_rel_pos(i));
    }
}
