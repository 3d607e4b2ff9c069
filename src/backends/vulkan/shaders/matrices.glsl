// Matrices of 16 x 16 for subgroups of 32: the factors of a product, and the sum. matrices.cpp makes
// those of VK_KHR_cooperative_matrix of them, whose types say which is which: that is why their sizes are
// constants of different numbers.
layout(constant_id = 20) const uint MATRIX_ROWS = 16;
layout(constant_id = 21) const uint MATRIX_COLUMNS = 16;
layout(constant_id = 22) const uint MATRIX_DEPTH = 16;

#define LeftMatrix fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_ROWS, MATRIX_DEPTH>
#define RightMatrix fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_DEPTH, MATRIX_COLUMNS>
#define SumMatrix fcoopmatNV<32, gl_ScopeSubgroup, MATRIX_ROWS, MATRIX_COLUMNS>
