// What allocations, copies and fills share.
#pragma once
#include "hip/hip_internal.h"

namespace gfxemu::hip {

// One end of a copy or fill: the whole range inside one allocation, or ordinary host memory.
struct End {
    std::optional<Alloc> alloc;
    hipError_t error = hipSuccess;
};
End end_of(const void* p, size_t span, bool must_be_known);
// Throws where the allocation was freed before the operation ran.
void still_live(const std::optional<Alloc>& a, const char* what);

// Submits a copy; see hip_copy.cpp for what is awaited.
hipError_t submit_copy(Stream& s, const hipMemcpy3DParms& p, bool sync);

// Ends an allocation; the caller has made sure that nothing uses it any more, or wants later uses to fault.
hipError_t release(void* p);

} // namespace gfxemu::hip
