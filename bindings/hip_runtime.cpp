#include "hip_runtime.h"
#include "dynamic_loading.h"

#include "waveattn/core/status.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <link.h>
#include <mutex>
#include <pthread.h>

namespace waveattn::python {
namespace {

constexpr int max_entry_points = 48;

struct Runtime {
    void* handle = nullptr;
    void* entries[max_entry_points] = {};
    RuntimeStatus status;
};

std::mutex load_mutex;
Runtime rocm_storage, emulator_storage;
std::atomic<Runtime*> rocm_runtime{nullptr}, emulator_runtime{nullptr};
std::atomic<bool> forked{false};
thread_local bool emulated_thread = false;

std::deque<FatBinary>& fat_binaries() {
    static auto* all = new std::deque<FatBinary>; // module constructors run before this file's would
    return *all;
}

// Gives the runtime every fat binary of the extension. The symbols of the registration interface are always there in a
// HIP runtime; a library without them is none.
bool replay_registrations(void* handle) {
    auto register_binary = reinterpret_cast<void** (*)(const void*)>(dlsym(handle, "__hipRegisterFatBinary"));
    auto register_function =
        reinterpret_cast<void (*)(void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*)>(
            dlsym(handle, "__hipRegisterFunction"));
    auto register_variable = reinterpret_cast<void (*)(void**, void*, char*, char*, int, std::size_t, int, int)>(
        dlsym(handle, "__hipRegisterVar"));
    if (!register_binary || !register_function || !register_variable) return false;
    for (const FatBinary& binary : fat_binaries()) {
        void** own = register_binary(binary.wrapper);
        for (const auto& f : binary.functions)
            register_function(
                own, f.host, f.device, f.name, f.thread_limit, nullptr, nullptr, nullptr, nullptr, nullptr);
        for (const auto& v : binary.variables)
            register_variable(
                own, v.host, v.device, const_cast<char*>(v.name), v.external, v.bytes, v.constant, v.global);
    }
    return true;
}

// Fills `runtime` from an open library; false, with the reason in `why`, where it does not do.
bool attach(Runtime& runtime, void* handle, const Candidate& candidate, std::string& why) {
    if (!dlsym(handle, "hipGetDevicePropertiesR0600")) {
        why = "it is older than ROCm 6 (no hipGetDevicePropertiesR0600)";
        return false;
    }
    if (!dlsym(handle, "hipLaunchKernel") || !dlsym(handle, "__hipRegisterFatBinary")) {
        why = "it is no HIP runtime";
        return false;
    }
    for (int slot = 0; entry_point_names[slot]; ++slot) {
        require<RuntimeFailure>(slot < max_entry_points, "too many HIP entry points");
        runtime.entries[slot] = dlsym(handle, entry_point_names[slot]);
    }
    // The same library may serve as both runtimes (the emulator in the place of ROCm); it learns the kernels once.
    const Runtime* other = &runtime == &rocm_storage ? emulator_runtime.load() : rocm_runtime.load();
    if (!(other && other->handle == handle) && !replay_registrations(handle)) {
        why = "it lacks the registration functions of a HIP runtime";
        return false;
    }
    runtime.handle = handle;
    runtime.status.loaded = true;
    runtime.status.origin = candidate.origin;
    runtime.status.path = candidate.path;
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
        runtime.status.path = map->l_name;
    if (auto version = reinterpret_cast<hipError_t (*)(int*)>(dlsym(handle, "hipRuntimeGetVersion")))
        (void)version(&runtime.status.version);
    static const bool watching = [] { return pthread_atfork(nullptr, nullptr, [] { forked = true; }) == 0; }();
    (void)watching;
    return true;
}

bool open_candidate(Runtime& runtime, const Candidate& candidate, int flags, const Runtime* refused = nullptr) {
    std::string why;
    void* handle = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
    if (!handle) {
        const char* text = dlerror();
        why = text ? text : "dlopen failed";
    } else if (refused && handle == refused->handle) {
        why = "it is the emulator";
        dlclose(handle);
    } else if (attach(runtime, handle, candidate, why)) {
        return true;
    } else {
        dlclose(handle);
    }
    runtime.status.tried.push_back(candidate.origin + ": " + candidate.path + ": " + why);
    return false;
}

// The path of a libamdhip64 that the process has mapped, other than the emulator loaded by this file; empty if none.
std::string mapped_runtime() {
    std::string found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
            const char* name = info->dlpi_name;
            if (!name || !std::strstr(name, "libamdhip64.so")) return 0;
            const Runtime* emulator = emulator_runtime.load();
            if (emulator && emulator->status.path == name) return 0;
            *static_cast<std::string*>(data) = name;
            return 1;
        },
        &found);
    return found;
}

// The directories that a library's bare name is looked for in, but for the system's cache.
std::vector<std::string> library_path() {
    std::vector<std::string> directories;
    void* const self = dlopen(nullptr, RTLD_LAZY);
    Dl_serinfo size;
    if (!self || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return directories;
    std::vector<std::max_align_t> buffer(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* const info = reinterpret_cast<Dl_serinfo*>(buffer.data());
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, info) != 0 || dlinfo(self, RTLD_DI_SERINFO, info) != 0) return directories;
    for (unsigned i = 0; i < info->dls_cnt; ++i) directories.push_back(info->dls_serpath[i].dls_name);
    return directories;
}

int count_devices(const std::atomic<Runtime*>& runtime, bool emulated) {
    if (!runtime.load()) return 0;
    const bool before = thread_is_emulated();
    select_runtime(emulated);
    int count = 0;
    const hipError_t code = hipGetDeviceCount(&count);
    select_runtime(before);
    return code == hipSuccess ? count : 0;
}

template <class Function> Function* emulator_function(const char* name) {
    Runtime* emulator = emulator_runtime.load();
    return emulator ? reinterpret_cast<Function*>(dlsym(emulator->handle, name)) : nullptr;
}

} // namespace

const RuntimeStatus& load_rocm(const std::vector<Candidate>& packages) {
    std::lock_guard lock(load_mutex);
    static bool looked = false;
    if (looked) return rocm_storage.status;
    looked = true;
    const Runtime* const emulator = emulator_runtime.load();
    auto found = [](const Candidate& candidate, int flags = 0, const Runtime* refused = nullptr) {
        if (!open_candidate(rocm_storage, candidate, flags, refused)) return false;
        rocm_runtime = &rocm_storage;
        return true;
    };
    if (const char* path = std::getenv("WAVEATTN_HIP_RUNTIME"); path && *path) {
        found({path, "WAVEATTN_HIP_RUNTIME"});
        return rocm_storage.status;
    }
    if (std::string mapped = mapped_runtime(); !mapped.empty() && found({mapped, "already loaded"}, RTLD_NOLOAD))
        return rocm_storage.status;
    std::vector<Candidate> candidates = packages;
    // A loaded emulator answers to the bare name, so a runtime of that name is asked for by its path.
    if (emulator)
        for (const std::string& directory : library_path())
            if (std::string path = directory + "/libamdhip64.so.7"; std::filesystem::exists(path))
                candidates.push_back({path, "library path"});
    for (const char* name : {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"})
        candidates.push_back({name, "library path"});
    for (const char* variable : {"ROCM_PATH", "HIP_PATH"})
        if (const char* root = std::getenv(variable); root && *root)
            candidates.push_back({std::string(root) + "/lib/libamdhip64.so", variable});
    candidates.push_back({"/opt/rocm/lib/libamdhip64.so", "default of ROCm"});
    for (const Candidate& candidate : candidates)
        if (found(candidate, 0, emulator)) break;
    return rocm_storage.status;
}

const RuntimeStatus& load_emulator(const std::string& path, const std::string& devices) {
    std::lock_guard lock(load_mutex);
    static bool looked = false;
    if (looked) return emulator_storage.status;
    looked = true;
    // The emulator reads its variables at its first call. HIP_VISIBLE_DEVICES speaks of GPUs, not of emulated devices.
    const char* const given = std::getenv("GFXEMU_DEVICES");
    const bool set = !given || !*given;
    if (set) setenv("GFXEMU_DEVICES", devices.c_str(), 1);
    std::string masks[2];
    const char* const mask_names[2] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};
    for (int i = 0; i < 2; ++i)
        if (const char* mask = std::getenv(mask_names[i])) {
            masks[i] = mask;
            unsetenv(mask_names[i]);
        }
    if (open_candidate(emulator_storage, {path, "bundled"}, 0)) emulator_runtime = &emulator_storage;
    (void)count_devices(emulator_runtime, true);
    for (int i = 0; i < 2; ++i)
        if (!masks[i].empty()) setenv(mask_names[i], masks[i].c_str(), 1);
    if (set) unsetenv("GFXEMU_DEVICES");
    return emulator_storage.status;
}

int rocm_device_count() { return count_devices(rocm_runtime, false); }
int emulated_device_count() { return count_devices(emulator_runtime, true); }

std::uint64_t emulated_instructions() {
    auto* function = emulator_function<std::uint64_t()>("hipGfxemuInstructions");
    return function ? function() : 0;
}
void reset_emulated_device(int ordinal) {
    DeviceScope scope(ordinal);
    if (auto* function = emulator_function<hipError_t()>("hipDeviceReset")) (void)function();
}

DeviceScope::DeviceScope(int ordinal) : was_emulated_(emulated_thread), ordinal_(ordinal) {
    const bool emulated = ordinal >= first_emulated;
    require<RuntimeFailure>(!forked,
        "the HIP runtime was loaded before this process was forked, and does not survive a fork; start the process "
        "with the 'spawn' method");
    require<RuntimeFailure>((emulated ? emulator_runtime : rocm_runtime).load() != nullptr,
        emulated ? "the emulator is not loaded" : "no HIP runtime is loaded");
    select_runtime(emulated);
    hipError_t code = hipGetDevice(&previous_);
    if (code == hipSuccess && previous_ != ordinal) code = hipSetDevice(ordinal);
    if (code != hipSuccess) {
        select_runtime(was_emulated_);
        check_hip(code, "hipSetDevice");
    }
}
DeviceScope::~DeviceScope() {
    if (previous_ != ordinal_) (void)hipSetDevice(previous_);
    select_runtime(was_emulated_);
}

void* entry_point(int slot) {
    Runtime* runtime = (emulated_thread ? emulator_runtime : rocm_runtime).load(std::memory_order_acquire);
    return runtime ? runtime->entries[slot] : nullptr;
}
bool thread_is_emulated() { return emulated_thread; }
void select_runtime(bool emulated) { emulated_thread = emulated; }

FatBinary* record_fat_binary(const void* wrapper) {
    fat_binaries().push_back({wrapper, {}, {}});
    return &fat_binaries().back();
}

} // namespace waveattn::python
