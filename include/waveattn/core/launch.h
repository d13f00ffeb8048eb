// Launching a kernel: typed arguments, one error check, no allocation.
#pragma once

#include "waveattn/core/status.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

namespace waveattn {

namespace detail {
template <class Tuple, std::size_t... I>
hipError_t launch_packed(const void* kernel, dim3 grid, dim3 block, std::size_t dynamic_lds, hipStream_t stream,
    Tuple& values, std::index_sequence<I...>) {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&std::get<I>(values)))..., nullptr};
    return hipLaunchKernel(kernel, grid, block, pointers, dynamic_lds, stream);
}

// Throws HipFailure, which names the device where the program was not compiled for it, unless a launch succeeded.
inline void check_launch(hipError_t code, const char* name) {
    if (code == hipErrorNoBinaryForGpu || code == hipErrorInvalidDeviceFunction) {
        int ordinal = 0;
        hipDeviceProp_t properties;
        if (hipGetDevice(&ordinal) == hipSuccess && hipGetDeviceProperties(&properties, ordinal) == hipSuccess)
            throw HipFailure(code, concat(name, ": this program has no code for ", properties.gcnArchName, " (device ",
                                       ordinal, "); compile it for that target, too (CMAKE_HIP_ARCHITECTURES)"));
    }
    check_hip(code, name);
}
} // namespace detail

// Launches `kernel` on `stream` of the current device; `dynamic_lds` in bytes. The arguments convert to the kernel's
// parameter types. Throws HipFailure naming `name`. A grid of up to three dimensions, whose sizes the caller checks:
template <class... Parameter, class... Argument>
void launch(const char* name, void (*kernel)(Parameter...), dim3 grid, int threads, std::size_t dynamic_lds,
    hipStream_t stream, Argument&&... arguments) {
    static_assert(sizeof...(Parameter) == sizeof...(Argument));
    std::tuple<Parameter...> values(std::forward<Argument>(arguments)...);
    detail::check_launch(
        detail::launch_packed(reinterpret_cast<const void*>(kernel), grid, dim3(std::uint32_t(threads)), dynamic_lds,
            stream, values, std::index_sequence_for<Parameter...>{}),
        name);
}

// The same for `blocks` workgroups. Throws Unsupported where they exceed what HIP can launch.
template <class... Parameter, class... Argument>
void launch(const char* name, void (*kernel)(Parameter...), std::int64_t blocks, int threads, std::size_t dynamic_lds,
    hipStream_t stream, Argument&&... arguments) {
    // HIP limits a grid to 2^32 - 1 work-items along x.
    require<Unsupported>(blocks > 0 && blocks <= std::numeric_limits<std::uint32_t>::max() / threads, name, ": ",
        blocks, " workgroups of ", threads, " threads exceed the 2^32 - 1 work-items of a HIP launch");
    launch(
        name, kernel, dim3(std::uint32_t(blocks)), threads, dynamic_lds, stream, std::forward<Argument>(arguments)...);
}

} // namespace waveattn
