// dlopen and its relatives, to be included instead of <dlfcn.h>.
#pragma once

#include <dlfcn.h>

// The oldest versions of these symbols, so that a wheel built on a recent system also loads on an older one.
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");
__asm__(".symver dlclose,dlclose@GLIBC_2.2.5");
__asm__(".symver dlinfo,dlinfo@GLIBC_2.3.3");
#endif
