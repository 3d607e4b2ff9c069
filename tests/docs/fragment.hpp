/// What statements in the documentation may take for granted.
#pragma once

#include <cstdio>
#include <heddle/heddle.hpp>

using namespace heddle;

extern Context context;
extern Tensor a, b, w, x, y, mask;
extern Graph graph;
extern Scheduler scheduler;
extern Stream stream;
extern Device device, gpu;
extern std::vector<float> values;
