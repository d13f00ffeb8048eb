"""Reading compiled AMDGPU kernels: resources, occupancy, instruction counts."""
