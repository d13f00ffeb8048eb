// Ends the process with a reason where the CPU lacks the instructions that the library is compiled for, instead of
// leaving it to an illegal instruction later. Compiled for the baseline of x86-64.
#include <cpuid.h>
#include <cstdio>
#include <cstdlib>

namespace {

bool has_f16c() {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

__attribute__((constructor(101))) void check_cpu() {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && has_f16c())
        return;
    std::fputs("gfxemu: this CPU lacks AVX2, FMA, BMI2 or F16C (x86-64-v3), which the emulator needs\n", stderr);
    std::_Exit(1);
}

} // namespace
