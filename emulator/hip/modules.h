// Loaded code: modules, fat binaries, their functions and variables.
#pragma once
#include "hip/hip_internal.h"

#include <unordered_map>

namespace gfxemu::hip {

struct Module {
    int device = 0;
    std::shared_ptr<CodeObject> code;
    std::map<std::string, Function*> functions;
    std::map<std::string, void*> globals; // noted as copy targets
    ~Module();
};

// What the constructors of a program register; each device loads its image at first use.
struct FatBinary {
    struct Managed {
        void* memory;
        std::string name;
        size_t size;
    };
    const void* data = nullptr;
    std::map<int, std::unique_ptr<Module>> modules; // by device
    std::map<int, hipError_t> errors;
    std::vector<Managed> managed;
};
struct FatSymbol {
    FatBinary* binary = nullptr;
    std::string name;
    size_t size = 0;
};

// Guards everything below.
std::recursive_mutex& module_mutex();
std::unordered_map<const Module*, std::unique_ptr<Module>>& live_modules();
std::unordered_map<const void*, FatSymbol>& fat_functions(); // by host stub
std::unordered_map<const void*, FatSymbol>& fat_variables(); // by host variable
// Managed variables by their host pointer variable and by the address that it holds.
std::unordered_map<const void*, std::pair<void*, size_t>>& managed_variables();

// Loads the image of a code object or bundle that suits the device; `fat`: for the message where there is none.
hipError_t load_module(const void* data, int device, std::unique_ptr<Module>& out, bool fat);
Module* module_of(hipModule_t handle); // nullptr where it is not live
hipError_t module_global(Module& m, const std::string& name, void** p, size_t* n);

// ---- launches ----
struct Occupancy {
    int blocks = 0; // resident on one unit
    double waves_per_simd = 0;
    int register_limit = 0; // waves per SIMD that the registers allow
};
Occupancy occupancy(const Device& d, const KernelInfo& k, unsigned threads, size_t dynamic_lds);

struct LaunchRecord {
    const Function& function;
    const Device& device;
    const Launch& launch;
    const Counters& counters;
    double seconds = 0;
    const char* fault = nullptr;
    std::string timing; // JSON of the timing model
};
void report(const LaunchRecord& record); // appends a line to GFXEMU_REPORT
void count_launch(uint64_t instructions, double seconds, bool fault);

} // namespace gfxemu::hip
