// The bundled HIP declarations against real headers, where those are at hand (CMake: WAVEATTN_REAL_HIP_INCLUDE).
#include <doctest/doctest.h>

#include "hip_abi_facts.h"

TEST_CASE("bundled declarations have the ABI of the real headers") {
    const auto bundled = hip_abi::bundled_facts(), real = hip_abi::real_facts();
    CHECK(bundled.size() >= 60);
    if (real.empty()) {
        MESSAGE("comparison skipped: no HIP headers found (set WAVEATTN_REAL_HIP_INCLUDE)");
        return;
    }
    for (const auto& [name, value] : bundled) {
        INFO(name);
        CHECK(real.at(name) == value);
    }
}
