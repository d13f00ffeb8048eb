// The facts as the real headers give them; none where there are no headers.
#ifdef WAVEATTN_REAL_HIP
#    define __HIP_PLATFORM_AMD__ 1
#    include <hip/hip_runtime_api.h>
#endif

#include "hip_abi_facts.h"

hip_abi::Facts hip_abi::real_facts() {
    Facts facts;
#ifdef WAVEATTN_REAL_HIP
    HIP_ABI_FACTS
#endif
    return facts;
}
