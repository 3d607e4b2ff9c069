// What every shader reads of its node; arguments.hpp declares the same. Tensors are read and written
// through addresses, so there are no descriptors and no limit to the size of a tensor.
//
// A shader may not loop more than 65,535 times in one invocation, all loops together (lavapipe goes on
// without the rest, and says nothing), or have workgroups that are not one-dimensional or no multiple of
// a subgroup. It may not rely on subgroups of more than 4 lanes, or have more than 32 KiB of shared
// memory, unless its kernel asks the device for them.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Constant 0 is the size of a workgroup; each shader says what the others are.
layout(local_size_x_id = 0) in;

struct Operand {
    i64vec4 stride;  // bytes
    ivec4 extent;
    uint64_t data;  // 0: there is no such operand
    uint type;
    uint padding;
};

layout(buffer_reference, std430, buffer_reference_align = 32) readonly buffer Arguments {
    Operand y;
    Operand src[7];
    int i[30];
    uint count;
    int op;
    float f[16];
    uint64_t scratch;
    uint64_t faults;
    uint64_t codebooks;
    uint64_t extra;
};

#ifndef HEDDLE_OWN_PUSH
layout(push_constant) uniform Push { Arguments args; };
#endif

layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes { uint8_t v; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { uint16_t v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float v; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Longs { uint64_t v; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Quads { uvec4 v; };

// Numbers of types, as ggml.h has them.
const int TYPE_F32 = 0, TYPE_F16 = 1, TYPE_I32 = 26, TYPE_I64 = 27, TYPE_BF16 = 30;

#define INFINITY uintBitsToFloat(0x7f800000u)

// ---- numbers -----------------------------------------------------------------------------------

uint load8(uint64_t p) { return uint(Bytes(p).v); }
uint load16(uint64_t p) { return uint(Halves(p).v); }
uint load32(uint64_t p) { return Words(p).v; }
float load_f32(uint64_t p) { return Floats(p).v; }
void store8(uint64_t p, uint value) { Bytes(p).v = uint8_t(value); }
void store16(uint64_t p, uint value) { Halves(p).v = uint16_t(value); }
void store32(uint64_t p, uint value) { Words(p).v = value; }
void store_f32(uint64_t p, float value) { Floats(p).v = value; }

float half_to_float(uint bits) { return unpackHalf2x16(bits).x; }

// To the nearest, ties to even: drivers may round conversions of their own as they like.
uint float_to_half(float value) {
    const uint bits = floatBitsToUint(value), sign = bits >> 16 & 0x8000u;
    const uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
    if (magnitude < 0x38800000u) {  // below the normal numbers: multiples of 2^-24
        const float scaled = uintBitsToFloat(magnitude) * 16777216.0;
        const float whole = floor(scaled), rest = scaled - whole;
        uint code = uint(whole);
        if (rest > 0.5 || (rest == 0.5 && (code & 1u) != 0u)) ++code;
        return sign | code;
    }
    const uint rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return sign | (rounded - 0x38000000u) >> 13;
}

float bfloat_to_float(uint bits) { return uintBitsToFloat(bits << 16); }

uint float_to_bfloat(float value) {
    const uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 64u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

// One number of a plain type.
float load_float(uint64_t p, int type) {
    if (type == TYPE_F32) return load_f32(p);
    if (type == TYPE_F16) return half_to_float(load16(p));
    if (type == TYPE_BF16) return bfloat_to_float(load16(p));
    return float(int(load32(p)));
}

// Rounds to a plain type; integers are cut toward zero.
void store_float(uint64_t p, float value, int type) {
    if (type == TYPE_F32) {
        store_f32(p, value);
    } else if (type == TYPE_F16) {
        store16(p, float_to_half(value));
    } else if (type == TYPE_BF16) {
        store16(p, float_to_bfloat(value));
    } else {
        store32(p, uint(int(value)));
    }
}

// ---- tensors -----------------------------------------------------------------------------------

bool is_there(Operand x) { return x.data != 0; }

uint64_t address(Operand x, ivec4 at) {
    return x.data + uint64_t(at.x * x.stride.x + at.y * x.stride.y + at.z * x.stride.z +
                             at.w * x.stride.w);
}

float get(Operand x, ivec4 at, int type) { return load_float(address(x, at), type); }
void put(Operand y, ivec4 at, float value, int type) { store_float(address(y, at), value, type); }
float get_f32(Operand x, ivec4 at) { return load_f32(address(x, at)); }
void put_f32(Operand y, ivec4 at, float value) { store_f32(address(y, at), value); }

// An index of type I32 or I64; what does not fit into 32 bits is out of every range.
int get_index(Operand x, ivec4 at) {
    const uint64_t p = address(x, at);
    if (x.type == TYPE_I32) return int(load32(p));
    const int64_t value = int64_t(Longs(p).v);
    return value < 0 || value > 0x7fffffff ? -1 : int(value);
}

// Coordinates of element number `index`, dimension 0 running fastest.
ivec4 unravel(uint index, ivec4 extent) {
    ivec4 at;
    at.x = int(index % uint(extent.x));
    index /= uint(extent.x);
    at.y = int(index % uint(extent.y));
    index /= uint(extent.y);
    at.z = int(index % uint(extent.z));
    at.w = int(index / uint(extent.z));
    return at;
}

// Coordinates of row number `row`.
ivec4 unravel_row(uint row, ivec4 extent) {
    return unravel(row, ivec4(1, extent.yzw));
}

uint group_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint element_number() { return group_number() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
