// What the host knows of a device: its target, wave size and compute units.
//
// Looked up once per device ordinal (never once per process: machines with two different cards exist), thread-safe, and
// without a HIP call after the first lookup of an ordinal except hipGetDevice.
#pragma once

#include "waveattn/arch/arch.h"
#include "waveattn/core/status.h"

#include <map>
#include <mutex>
#include <string>

namespace waveattn::arch {

struct Device {
    int ordinal = 0;
    Target target = Target::unsupported;
    int wave_size = 0;
    int compute_units = 0; // as HIP reports them; on RDNA these are workgroup processors of two compute units each
    std::string name;      // marketing name
    std::string gcn_arch;  // gcnArchName, for example "gfx942:sramecc+:xnack-"
};

// The device of that ordinal. Throws HipFailure where the runtime does not know it.
inline const Device& device(int ordinal) {
    static std::mutex guard;
    static std::map<int, Device> known; // references into a std::map stay valid
    std::lock_guard lock(guard);
    if (auto found = known.find(ordinal); found != known.end()) return found->second;
    hipDeviceProp_t properties;
    check_hip(hipGetDeviceProperties(&properties, ordinal), "hipGetDeviceProperties");
    Device info;
    info.ordinal = ordinal;
    info.name = properties.name;
    info.gcn_arch = properties.gcnArchName;
    info.target = target_from_name(info.gcn_arch);
    info.wave_size = properties.warpSize;
    info.compute_units = properties.multiProcessorCount;
    return known.emplace(ordinal, std::move(info)).first->second;
}

// The calling thread's current device.
inline const Device& current_device() {
    int ordinal = 0;
    check_hip(hipGetDevice(&ordinal), "hipGetDevice");
    return device(ordinal);
}

// Throws UnsupportedDevice naming the device, its target and what `kernel` supports.
[[noreturn]] inline void refuse_device(const Device& device, const char* kernel, const char* supported) {
    throw UnsupportedDevice(concat(kernel, " needs ", supported, "; device ", device.ordinal, " (", device.name,
        ") is ", device.gcn_arch, device.target == Target::unsupported ? ", which no waveattn kernel supports" : ""));
}

// Throws UnsupportedDevice unless `device` runs kernels of the tag Arch.
template <class Arch> void require_target(const Device& device, const char* kernel) {
    if (device.target != target_of<Arch>) refuse_device(device, kernel, Arch::name);
}

} // namespace waveattn::arch
