// Kernels compiled by clang and compared with the host: the harness of core_test.cpp and its cases.
#pragma once
#include "test_support.h"

#include <bit>
#include <cmath>
#include <functional>
#include <random>

namespace core_test {

using namespace gfxemu;

const std::string& target(); // the target under test
bool wave64();
uint32_t rng(); // random bits
inline float rf(float lo, float hi) { return lo + (hi - lo) * (float)(rng() >> 8) * 0x1p-24f; }

// Compiles a source for the target.
std::shared_ptr<CodeObject> build(const std::string& name, const std::string& source, const std::string& options = "");
// Runs a kernel; notes the instructions that it executed.
Counters run(CodeObject& code, const std::string& kernel, Dim3 grid, Dim3 block, const Args& args, uint32_t lds = 0);
// Runs one case, unless another one was asked for.
void test(const std::string& name, const std::function<void()>& body);
void expect_fault(Fault::Kind kind, const std::function<void()>& body);

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            char text_[256];                                                                                           \
            snprintf(text_, sizeof text_, __VA_ARGS__);                                                                \
            throw std::runtime_error(std::string("line ") + std::to_string(__LINE__) + ": " + text_);                  \
        }                                                                                                              \
    } while (0)

inline bool near(double a, double b, double relative, double absolute = 0) {
    if (std::isnan(a) && std::isnan(b)) return true;
    return a == b || std::fabs(a - b) <= std::max(absolute, relative * std::fabs(b));
}
inline uint16_t f32_bf(float f) { // to bfloat16, to nearest even
    uint32_t u = std::bit_cast<uint32_t>(f);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline float bf(uint16_t h) { return std::bit_cast<float>((uint32_t)h << 16); }

void arithmetic_cases();
void memory_cases();
void control_cases();
void checks_cases();

} // namespace core_test
