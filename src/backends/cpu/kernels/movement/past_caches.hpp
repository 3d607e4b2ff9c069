#pragma once

#include <cstddef>

/// Results that no cache can hold are written straight to memory: writing them the ordinary way
/// would first read what was there before, and drive out what others still need.
namespace heddle::cpu {

/// Copies bytes past the caches. Parts of lines at both ends go the ordinary way.
void copy_past_caches(const std::byte* from, std::byte* to, std::size_t size);

/// Every thread that wrote past the caches calls this before others may read.
void finish_past_caches();

}  // namespace heddle::cpu
