#pragma once

#include <cstddef>
#include <cstdint>

/// Loops that do nothing but what is to be measured, in the best instruction set of the machine.
namespace heddle::tool::bench {

/// Multiplies and adds in registers, so many rounds. Gives the operations that were done: two for
/// each multiplication with its addition.
double multiply_add_f32(std::size_t rounds);

/// The same for products of 8-bit integers, added up in 32 bits.
double multiply_add_i8(std::size_t rounds);

/// Reads all bytes; `size` is a multiple of 1024.
void read_all(const std::byte* data, std::size_t size);

/// The instruction set that is used, as Highway calls it.
const char* instruction_set();

}  // namespace heddle::tool::bench
