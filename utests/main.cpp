// The entry point of every test executable: says which device the tests run on, then runs them.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "waveattn/arch/capability.h"

#include <cstdio>

int main(int argc, char** argv) {
    try {
        const auto& device = waveattn::arch::current_device();
        std::printf("device 0: %s (%s)\n", device.gcn_arch.c_str(), device.name.c_str());
    } catch (const std::exception& error) {
        std::printf("no HIP device: %s\n", error.what());
        return 1;
    }
    doctest::Context context(argc, argv);
    return context.run();
}
