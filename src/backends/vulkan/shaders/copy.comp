#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// CPY, DUP and CONT: element number e of the source becomes element number e of the result.
layout(constant_id = 1) const int UNIT = 0;  // bytes of an element or block that is moved as it is; 0: converted
layout(constant_id = 2) const int TYPE_X = TYPE_F32;
layout(constant_id = 3) const int TYPE_Y = TYPE_F32;
layout(constant_id = 4) const int SAME_SHAPE = 0;

#include "units.glsl"

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand x = args.src[0], y = args.y;
    const ivec4 to = unravel(i, y.extent);
    const ivec4 from = SAME_SHAPE != 0 ? to : unravel(i, x.extent);
    if (UNIT != 0) {
        copy_unit(address(y, to), address(x, from), UNIT);
    } else {
        put(y, to, get(x, from, TYPE_X), TYPE_Y);
    }
}
