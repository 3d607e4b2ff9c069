#pragma once

// The public header has all of it: backend authors return the same values as the library does.
#include "heddle/result.hpp"
