// The facts of hip_abi_facts.inc against declarations of the HIP API: ours, or with GFXEMU_SYSTEM_HIP those of a ROCm.
#include "hip/hip_abi.h"

#include <cstddef>
#include <cstdio>

#define VALUE(name, value) static_assert(static_cast<long long>(name) == value, #name);
#define SIZE(type, bytes) static_assert(sizeof(type) == bytes, #type);
#define OFFSET(type, member, bytes) static_assert(offsetof(type, member) == bytes, #type "::" #member);
#include "hip_abi_facts.inc"
#undef VALUE
#undef SIZE
#undef OFFSET

static int count = 0;
#define VALUE(name, value) ++count;
#define SIZE(type, bytes) ++count;
#define OFFSET(type, member, bytes) ++count;

int main() {
#include "hip_abi_facts.inc"
    std::printf("%d facts of the ABI hold (HIP %d)\n", count, HIP_VERSION);
    return count > 500 ? 0 : 1;
}
