// Settings, messages, the errors of a thread and their names, entry points by name.
#include "hip/hip_internal.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace gfxemu::hip {

static bool env_flag(const char* name) {
    const char* v = std::getenv(name);
    return v && *v && std::strcmp(v, "0") != 0;
}
static uint64_t env_number(const char* name, uint64_t fallback) {
    const char* v = std::getenv(name);
    return v && *v ? std::strtoull(v, nullptr, 0) : fallback;
}

const Settings& settings() {
    static const Settings* s = [] {
        auto* p = new Settings;
        p->sync = env_flag("GFXEMU_SYNC");
        p->lazy = !p->sync && env_flag("GFXEMU_LAZY");
        p->abort = env_flag("GFXEMU_ABORT");
        p->verbose = env_flag("GFXEMU_VERBOSE");
        p->delay_us = env_number("GFXEMU_DELAY_US", 0);
        p->poison_max = env_number("GFXEMU_POISON_MAX", uint64_t(64) << 20);
        if (const char* r = std::getenv("GFXEMU_REPORT")) p->report = r;
        if (p->verbose) std::atexit(print_summary);
        return p;
    }();
    return *s;
}

void message(const char* format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    std::fprintf(stderr, "gfxemu: %s\n", text);
    std::fflush(stderr);
}

// ---- last error of the thread ----
static thread_local hipError_t last_error = hipSuccess, last_call = hipSuccess;

hipError_t ret(hipError_t e) {
    last_call = e;
    if (e != hipSuccess && e != hipErrorNotReady) last_error = e;
    return e;
}

hipError_t current_exception_code() {
    try {
        throw;
    } catch (const Fault& f) {
        message("fault: %s", f.what());
        return f.kind == Fault::Kind::memory ? hipErrorIllegalAddress : hipErrorLaunchFailure;
    } catch (const std::bad_alloc&) {
        return hipErrorOutOfMemory;
    } catch (const std::exception& e) {
        message("error: %s", e.what());
        return hipErrorUnknown;
    }
}

} // namespace gfxemu::hip

using namespace gfxemu::hip;

// ---- errors ----
static hipError_t pending() { // a fault of the current device counts as the thread's last error
    hipError_t e = last_error;
    if (e == hipSuccess && !devices().empty()) e = sticky(current_device());
    return e;
}
HIP_API hipError_t hipGetLastError() {
    hipError_t e = pending();
    last_error = last_call = hipSuccess;
    return e;
}
HIP_API hipError_t hipPeekAtLastError() { return pending(); }
HIP_API hipError_t hipExtGetLastError() {
    hipError_t e = last_call;
    last_call = hipSuccess;
    return e;
}

namespace {
struct ErrorText {
    int code;
    const char *name, *text;
};
const ErrorText error_texts[] = {
#define E(code, text) {int(code), #code, text}
    E(hipSuccess, "no error"),
    E(hipErrorInvalidValue, "invalid argument"),
    E(hipErrorOutOfMemory, "out of memory"),
    E(hipErrorNotInitialized, "initialization error"),
    E(hipErrorDeinitialized, "driver shutting down"),
    E(hipErrorProfilerDisabled, "profiler disabled while using external profiling tool"),
    E(hipErrorProfilerNotInitialized, "profiler is not initialized"),
    E(hipErrorProfilerAlreadyStarted, "profiler already started"),
    E(hipErrorProfilerAlreadyStopped, "profiler already stopped"),
    E(hipErrorInvalidConfiguration, "invalid configuration argument"),
    E(hipErrorInvalidPitchValue, "invalid pitch argument"),
    E(hipErrorInvalidSymbol, "invalid device symbol"),
    E(hipErrorInvalidDevicePointer, "invalid device pointer"),
    E(hipErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    E(hipErrorInsufficientDriver, "driver version is insufficient for runtime version"),
    E(hipErrorMissingConfiguration, "__global__ function call is not configured"),
    E(hipErrorPriorLaunchFailure, "unspecified launch failure in prior launch"),
    E(hipErrorInvalidDeviceFunction, "invalid device function"),
    E(hipErrorNoDevice, "no ROCm-capable device is detected"),
    E(hipErrorInvalidDevice, "invalid device ordinal"),
    E(hipErrorInvalidImage, "device kernel image is invalid"),
    E(hipErrorInvalidContext, "invalid device context"),
    E(hipErrorContextAlreadyCurrent, "context is already current context"),
    E(hipErrorMapFailed, "mapping of buffer object failed"),
    E(hipErrorUnmapFailed, "unmapping of buffer object failed"),
    E(hipErrorArrayIsMapped, "array is mapped"),
    E(hipErrorAlreadyMapped, "resource already mapped"),
    E(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device"),
    E(hipErrorAlreadyAcquired, "resource already acquired"),
    E(hipErrorNotMapped, "resource not mapped"),
    E(hipErrorNotMappedAsArray, "resource not mapped as array"),
    E(hipErrorNotMappedAsPointer, "resource not mapped as pointer"),
    E(hipErrorECCNotCorrectable, "uncorrectable ECC error encountered"),
    E(hipErrorUnsupportedLimit, "limit is not supported on this architecture"),
    E(hipErrorContextAlreadyInUse, "exclusive-thread device already in use by a different thread"),
    E(hipErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    E(hipErrorInvalidKernelFile, "invalid kernel file"),
    E(hipErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"),
    E(hipErrorInvalidSource, "device kernel image is invalid"),
    E(hipErrorFileNotFound, "file not found"),
    E(hipErrorSharedObjectSymbolNotFound, "shared object symbol not found"),
    E(hipErrorSharedObjectInitFailed, "shared object initialization failed"),
    E(hipErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    E(hipErrorInvalidHandle, "invalid resource handle"),
    E(hipErrorIllegalState, "the operation cannot be performed in the present state"),
    E(hipErrorNotFound, "named symbol not found"),
    E(hipErrorNotReady, "device not ready"),
    E(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    E(hipErrorLaunchOutOfResources, "too many resources requested for launch"),
    E(hipErrorLaunchTimeOut, "the launch timed out and was terminated"),
    E(hipErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    E(hipErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    E(hipErrorSetOnActiveProcess, "cannot set while device is active in this process"),
    E(hipErrorContextIsDestroyed, "context is destroyed"),
    E(hipErrorAssert, "device-side assert triggered"),
    E(hipErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    E(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    E(hipErrorLaunchFailure, "unspecified launch failure"),
    E(hipErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    E(hipErrorNotSupported, "operation not supported"),
    E(hipErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    E(hipErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    E(hipErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    E(hipErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    E(hipErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    E(hipErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    E(hipErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"),
    E(hipErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    E(hipErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
    E(hipErrorGraphExecUpdateFailure, "the graph update was not performed because it included changes which violated "
                                      "constraints specific to instantiated graph update"),
    E(hipErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    E(hipErrorInvalidTexture, "invalid texture"),
    E(hipErrorUnknown, "unknown error"),
    E(hipErrorRuntimeMemory, "runtime memory call returned error"),
    E(hipErrorRuntimeOther, "runtime call other than memory returned error"),
#undef E
};
const ErrorText* error_text(int code) {
    for (auto& e : error_texts)
        if (e.code == code) return &e;
    return nullptr;
}
} // namespace
HIP_API const char* hipGetErrorName(hipError_t e) {
    auto* t = error_text(e);
    return t ? t->name : "hipErrorUnknown";
}
HIP_API const char* hipGetErrorString(hipError_t e) {
    auto* t = error_text(e);
    return t ? t->text : "unknown error";
}
HIP_API hipError_t hipDrvGetErrorName(hipError_t e, const char** s) {
    if (!s) return ret(hipErrorInvalidValue);
    auto* t = error_text(e);
    *s = t ? t->name : nullptr;
    return ret(t ? hipSuccess : hipErrorInvalidValue);
}
HIP_API hipError_t hipDrvGetErrorString(hipError_t e, const char** s) {
    if (!s) return ret(hipErrorInvalidValue);
    auto* t = error_text(e);
    *s = t ? t->text : nullptr;
    return ret(t ? hipSuccess : hipErrorInvalidValue);
}

// ---- entry points by name ----
static void* entry(const char* name) {
    Dl_info info;
    static void* self =
        dladdr(reinterpret_cast<void*>(&hipInit), &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    return dlsym(self ? self : RTLD_DEFAULT, name);
}
HIP_API hipError_t hipGetProcAddress(
    const char* name, void** fn, int version, uint64_t flags, hipDriverProcAddressQueryResult* status) {
    return api([&] {
        if (!name || !fn) return hipErrorInvalidValue;
        std::string s = name;
        if (version >= 600 && (s == "hipGetDeviceProperties" || s == "hipChooseDevice")) s += "R0600";
        *fn = nullptr;
        if (flags & 2) *fn = entry((s + "_spt").c_str());
        if (!*fn) *fn = entry(s.c_str());
        if (status) *status = *fn ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return *fn ? hipSuccess : hipErrorNotFound;
    });
}
HIP_API hipError_t hipGetDriverEntryPoint(
    const char* name, void** fn, unsigned long long flags, hipDriverEntryPointQueryResult* status) {
    hipDriverProcAddressQueryResult r;
    hipError_t e = hipGetProcAddress(name, fn, 700, flags, &r);
    if (status) *status = e == hipSuccess ? hipDriverEntryPointSuccess : hipDriverEntryPointSymbolNotFound;
    return e;
}
HIP_API const char* hipApiName(uint32_t) { return "unknown"; }
