// What the parts of gfxemu_matrix_test share.
#pragma once
#include "matrix/matrix.h"

#include <cstdio>

namespace gfxemu {

inline int failures = 0, checks_run = 0;
#define CHECK(cond)                                                                                                    \
    do {                                                                                                               \
        ++checks_run;                                                                                                  \
        if (!(cond)) {                                                                                                 \
            ++failures;                                                                                                \
            std::printf("FAIL %s:%d %s\n", __FILE__, __LINE__, #cond);                                                 \
        }                                                                                                              \
    } while (0)

void test_conversions(); // matrix_conversions_test.cpp

} // namespace gfxemu
