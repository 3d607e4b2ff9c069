// Sums and maxima over a workgroup, in a fixed order. All invocations take part and get the result.
shared float group_parts[256];

uint lane() { return gl_LocalInvocationID.x; }
uint width() { return gl_WorkGroupSize.x; }

float group_sum(float value) {
    value = subgroupAdd(value);
    barrier();  // parts of a sum before this one may still be read
    if (subgroupElect()) group_parts[gl_SubgroupID] = value;
    barrier();
    float total = 0;
    for (uint s = 0; s < gl_NumSubgroups; ++s) total += group_parts[s];
    return total;
}

float group_max(float value) {
    value = subgroupMax(value);
    barrier();
    if (subgroupElect()) group_parts[gl_SubgroupID] = value;
    barrier();
    float largest = group_parts[0];
    for (uint s = 1; s < gl_NumSubgroups; ++s) largest = max(largest, group_parts[s]);
    return largest;
}
