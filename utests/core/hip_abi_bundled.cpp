// The facts as waveattn's own declarations give them.
#undef WAVEATTN_BUNDLED_HIP
#define WAVEATTN_BUNDLED_HIP
#include "waveattn/core/hip_api.h"

#include "hip_abi_facts.h"

hip_abi::Facts hip_abi::bundled_facts() {
    Facts facts;
    HIP_ABI_FACTS
    return facts;
}
