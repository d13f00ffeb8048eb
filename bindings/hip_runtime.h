// The HIP runtimes of the extension. It links none: hip_entry_points.cpp defines the HIP functions that the host code
// of kernels calls, and each of them forwards to a runtime that was found when it was first needed. So the module
// imports on a machine without ROCm, works with whatever release is there, and uses the very copy of the runtime that
// another package (torch) has loaded: two copies in a process do not know one another's streams.
//
// Two runtimes can be live side by side: ROCm's for GPU tensors and the bundled emulator for CPU tensors. Device
// ordinals tell them apart: the emulator's begin at first_emulated. hipSetDevice with such an ordinal makes the
// emulator the calling thread's runtime until another call selects a device of the other one.
#pragma once

#include "waveattn/core/hip_api.h"

#include <cstdint>
#include <string>
#include <vector>

namespace waveattn::python {

inline constexpr int first_emulated = 1024;

// A place where a runtime may be: the path for dlopen, and a few words on where the path comes from.
struct Candidate {
    std::string path, origin;
};

struct RuntimeStatus {
    bool loaded = false;
    std::string path, origin;       // of the loaded one
    std::vector<std::string> tried; // why each earlier candidate was not taken
    int version = 0;                // as hipRuntimeGetVersion reports it
};

// Loads ROCm's runtime unless one is loaded: WAVEATTN_HIP_RUNTIME if set (and nothing else then); a libamdhip64 that is
// already mapped; `packages`; the loader's search path; ROCM_PATH, HIP_PATH and /opt/rocm. Looks once: a failure is
// remembered.
const RuntimeStatus& load_rocm(const std::vector<Candidate>& packages);
// Loads the emulator from that path with the devices of that list (GFXEMU_DEVICES of the environment has precedence).
const RuntimeStatus& load_emulator(const std::string& path, const std::string& devices);

// Devices of each runtime, 0 where it is not loaded.
int rocm_device_count();
int emulated_device_count();

// Wave-instructions that the emulator has executed in this process; 0 where it is not loaded.
std::uint64_t emulated_instructions();
// Clears the fault of an emulated device, so that later calls run.
void reset_emulated_device(int ordinal);

// Makes a device current on this thread and restores, at the end of its life, what was current before.
class DeviceScope {
public:
    explicit DeviceScope(int ordinal);
    ~DeviceScope();
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;

private:
    bool was_emulated_ = false;
    int previous_ = 0, ordinal_ = 0;
};

// ---- what hip_entry_points.cpp forwards to ----

// The address of a HIP function in the calling thread's runtime; null where no runtime is loaded or it lacks the
// function. `slot` numbers the entry points.
void* entry_point(int slot);
bool thread_is_emulated();
void select_runtime(bool emulated);
// The names of the entry points by slot, ended by null.
extern const char* const entry_point_names[];

// What clang's module constructors register, kept to be replayed to each runtime.
struct RegisteredFunction {
    const void* host;
    char* device;
    const char* name;
    unsigned thread_limit;
};
struct RegisteredVariable {
    void* host;
    char* device;
    const char* name;
    int external;
    std::size_t bytes;
    int constant, global;
};
struct FatBinary {
    const void* wrapper;
    std::vector<RegisteredFunction> functions;
    std::vector<RegisteredVariable> variables;
};
// A record that lives as long as the process.
FatBinary* record_fat_binary(const void* wrapper);

} // namespace waveattn::python
