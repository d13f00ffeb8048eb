// Kernel launches: checks, argument packing, the run itself.
#include "hip/modules.h"

#include <algorithm>
#include <cstring>

namespace gfxemu::hip {

static void run_kernel(const std::shared_ptr<CodeObject>& code, const Function& f, const Launch& l) {
    Device& d = *device(f.device);
    double start = now_seconds();
    try {
        LaunchResult r = launch(*code, f.info.name, l);
        double seconds = now_seconds() - start;
        count_launch(r.counters.instructions, seconds, false);
        report({f, d, l, r.counters, seconds, nullptr, r.timing});
    } catch (const std::exception& e) {
        count_launch(0, 0, true);
        report({f, d, l, Counters{}, now_seconds() - start, e.what(), {}});
        exit_after_first_launch();
        throw;
    }
    exit_after_first_launch();
}

hipError_t make_kernel_op(Function* f, const hipKernelNodeParams& p, bool cooperative, Op& op) {
    auto code = f->code;
    if (!code) return hipErrorInvalidHandle;
    Device& d = *device(f->device);
    auto& k = f->info;
    uint64_t threads = uint64_t(p.blockDim.x) * p.blockDim.y * p.blockDim.z;
    if (!threads || !p.gridDim.x || !p.gridDim.y || !p.gridDim.z) return hipErrorInvalidConfiguration;
    if (threads > uint64_t(d.prop.maxThreadsPerBlock)) return hipErrorInvalidConfiguration;
    if (p.gridDim.x > uint32_t(d.prop.maxGridSize[0]) || p.gridDim.y > uint32_t(d.prop.maxGridSize[1]) ||
        p.gridDim.z > uint32_t(d.prop.maxGridSize[2]))
        return hipErrorInvalidConfiguration;
    if (uint64_t(p.gridDim.x) * p.blockDim.x > UINT32_MAX || uint64_t(p.gridDim.y) * p.blockDim.y > UINT32_MAX ||
        uint64_t(p.gridDim.z) * p.blockDim.z > UINT32_MAX)
        return hipErrorInvalidConfiguration;
    if (k.max_flat_workgroup_size && threads > k.max_flat_workgroup_size) {
        message("Launch params (%u, %u, %u) are larger than launch bounds (%u) for kernel %s", p.blockDim.x,
            p.blockDim.y, p.blockDim.z, k.max_flat_workgroup_size, f->demangled.c_str());
        return hipErrorLaunchFailure;
    }
    if (uint64_t(k.static_lds) + p.sharedMemBytes > d.prop.sharedMemPerBlock) {
        message("%u + %u bytes of LDS exceed the %zu of %s for kernel %s", k.static_lds, p.sharedMemBytes,
            d.prop.sharedMemPerBlock, arch_name(d.arch), f->demangled.c_str());
        return hipErrorInvalidValue;
    }
    if (cooperative) {
        uint64_t blocks = uint64_t(p.gridDim.x) * p.gridDim.y * p.gridDim.z;
        uint64_t room = uint64_t(occupancy(d, k, unsigned(threads), p.sharedMemBytes).blocks) *
                        uint64_t(d.prop.multiProcessorCount);
        if (blocks > room) return hipErrorCooperativeLaunchTooLarge;
    }
    Launch l;
    l.grid = {p.gridDim.x, p.gridDim.y, p.gridDim.z};
    l.block = {p.blockDim.x, p.blockDim.y, p.blockDim.z};
    l.dynamic_lds = p.sharedMemBytes;
    l.cooperative = cooperative;
    l.count_bank_conflicts = !settings().report.empty();
    size_t size = 0;
    std::vector<const KernelArgInfo*> args;
    for (auto& a : k.args)
        if (a.value_kind.rfind("hidden_", 0) != 0) {
            args.push_back(&a);
            size = std::max<size_t>(size, a.offset + a.size);
        }
    l.kernarg.assign(size, 0);
    if (p.extra) {
        if (p.kernelParams) return hipErrorInvalidValue;
        const void* buffer = nullptr;
        size_t given = 0;
        for (void** e = p.extra; *e != HIP_LAUNCH_PARAM_END; e += 2) {
            if (*e == HIP_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = e[1];
            else if (*e == HIP_LAUNCH_PARAM_BUFFER_SIZE)
                given = *static_cast<size_t*>(e[1]);
            else
                return hipErrorInvalidValue;
        }
        if (!size && given) return hipErrorLaunchOutOfResources;
        if (size && (!buffer || given < size)) {
            if (buffer)
                message("the argument buffer has %zu bytes, kernel %s takes %zu", given, f->demangled.c_str(), size);
            return hipErrorInvalidValue;
        }
        if (size) std::memcpy(l.kernarg.data(), buffer, size);
    } else {
        if (!args.empty() && !p.kernelParams) return hipErrorInvalidValue;
        for (size_t i = 0; i < args.size(); ++i) {
            if (!p.kernelParams[i]) return hipErrorInvalidValue;
            std::memcpy(l.kernarg.data() + args[i]->offset, p.kernelParams[i], args[i]->size);
        }
    }
    op.type = hipGraphNodeTypeKernel;
    op.kernel = p;
    op.function = f;
    op.kernarg = l.kernarg;
    op.run = [code, f, l = std::move(l)] { run_kernel(code, *f, l); };
    return hipSuccess;
}

} // namespace gfxemu::hip

using namespace gfxemu::hip;

// ---- launches ----
static hipError_t launch_on(const void* func, const hipKernelNodeParams& params, hipStream_t h, bool cooperative,
    hipEvent_t start = nullptr, hipEvent_t stop = nullptr) {
    StreamRef s = stream_ref(h);
    if (!s) return devices().empty() ? hipErrorNoDevice : hipErrorInvalidHandle;
    hipError_t e = hipErrorInvalidDeviceFunction;
    Function* f = function_ref(func, &e, s->device);
    if (!f) return e;
    if (s->device != current_device()) {
        message("kernel %s launched on a stream of device %d while device %d is current", f->demangled.c_str(),
            s->device, current_device());
        return hipErrorInvalidHandle;
    }
    if (f->device != s->device) {
        message("kernel %s was loaded for device %d and launched on a stream of device %d", f->demangled.c_str(),
            f->device, s->device);
        return hipErrorInvalidHandle;
    }
    Op op;
    if (hipError_t r = make_kernel_op(f, params, cooperative, op)) return r;
    auto a = start ? event_ref(start) : nullptr, b = stop ? event_ref(stop) : nullptr;
    if ((start && !a) || (stop && !b)) return hipErrorInvalidHandle;
    if (a)
        if (hipError_t r = record_event(a, *s)) return r;
    op.kernel.func = const_cast<void*>(func);
    if (hipError_t r = submit(*s, std::move(op))) return r;
    return b ? record_event(b, *s) : hipSuccess;
}
static hipKernelNodeParams node(dim3 grid, dim3 block, size_t lds, void** params, void** extra) {
    hipKernelNodeParams p{};
    p.gridDim = grid;
    p.blockDim = block;
    p.sharedMemBytes = unsigned(std::min<size_t>(lds, UINT32_MAX));
    p.kernelParams = params;
    p.extra = extra;
    return p;
}
HIP_API hipError_t hipLaunchKernel(const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s) {
    return api([&] { return launch_on(f, node(g, b, lds, args, nullptr), s, false); });
}
HIP_API hipError_t hipLaunchKernel_spt(const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s) {
    return hipLaunchKernel(f, g, b, args, lds, s ? s : hipStreamPerThread);
}
HIP_API hipError_t hipLaunchCooperativeKernel(const void* f, dim3 g, dim3 b, void** args, unsigned lds, hipStream_t s) {
    return api([&] { return launch_on(f, node(g, b, lds, args, nullptr), s, true); });
}
HIP_API hipError_t hipLaunchCooperativeKernel_spt(
    const void* f, dim3 g, dim3 b, void** args, unsigned lds, hipStream_t s) {
    return hipLaunchCooperativeKernel(f, g, b, args, lds, s ? s : hipStreamPerThread);
}
HIP_API hipError_t hipExtLaunchKernel(
    const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s, hipEvent_t start, hipEvent_t stop, int) {
    return api([&] { return launch_on(f, node(g, b, lds, args, nullptr), s, false, start, stop); });
}
// The module forms report a bad shape as an invalid value.
static hipError_t as_value(hipError_t e) { return e == hipErrorInvalidConfiguration ? hipErrorInvalidValue : e; }
HIP_API hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
    unsigned by, unsigned bz, unsigned lds, hipStream_t s, void** params, void** extra) {
    return api([&] { return as_value(launch_on(f, node({gx, gy, gz}, {bx, by, bz}, lds, params, extra), s, false)); });
}
HIP_API hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
    unsigned by, unsigned bz, unsigned lds, hipStream_t s, void** params) {
    return api([&] { return as_value(launch_on(f, node({gx, gy, gz}, {bx, by, bz}, lds, params, nullptr), s, true)); });
}
static bool cooperative_attribute(const hipLaunchAttribute* a, unsigned n) {
    for (unsigned i = 0; i < n; ++i)
        if (a[i].id == hipLaunchAttributeCooperative && a[i].val.cooperative) return true;
    return false;
}
HIP_API hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* c, const void* f, void** args) {
    return api([&] {
        if (!c || (c->numAttrs && !c->attrs)) return hipErrorInvalidConfiguration;
        return launch_on(f, node(c->gridDim, c->blockDim, c->dynamicSmemBytes, args, nullptr), c->stream,
            cooperative_attribute(c->attrs, c->numAttrs));
    });
}
HIP_API hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* c, hipFunction_t f, void** params, void** extra) {
    return api([&] {
        if (!c || (c->numAttrs && !c->attrs)) return hipErrorInvalidConfiguration;
        return launch_on(f,
            node({c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes,
                params, extra),
            c->hStream, cooperative_attribute(c->attrs, c->numAttrs));
    });
}
// Global sizes are in work-items here.
static hipError_t ext_module_launch(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
    uint32_t bz, size_t lds, hipStream_t s, void** params, void** extra, hipEvent_t start, hipEvent_t stop) {
    return api([&] {
        if (!bx || !by || !bz) return hipErrorInvalidConfiguration;
        if (!gx || !gy || !gz) return hipErrorInvalidConfiguration;
        bx = std::min(bx, gx);
        by = std::min(by, gy);
        bz = std::min(bz, gz);
        if (gx % bx || gy % by || gz % bz) {
            message("hipExtModuleLaunchKernel: partial workgroups are not supported");
            return hipErrorInvalidValue;
        }
        return launch_on(f, node({gx / bx, gy / by, gz / bz}, {bx, by, bz}, lds, params, extra), s, false, start, stop);
    });
}
HIP_API hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx,
    uint32_t by, uint32_t bz, size_t lds, hipStream_t s, void** params, void** extra, hipEvent_t start, hipEvent_t stop,
    uint32_t) {
    return ext_module_launch(f, gx, gy, gz, bx, by, bz, lds, s, params, extra, start, stop);
}
HIP_API hipError_t hipHccModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx,
    uint32_t by, uint32_t bz, size_t lds, hipStream_t s, void** params, void** extra, hipEvent_t start,
    hipEvent_t stop) {
    return ext_module_launch(f, gx, gy, gz, bx, by, bz, lds, s, params, extra, start, stop);
}
// hip_ext.h declares both with C++ linkage.
extern "C" __attribute__((visibility("default"), alias("hipExtModuleLaunchKernel"))) hipError_t
_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(hipFunction_t, uint32_t,
    uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, size_t, hipStream_t, void**, void**, hipEvent_t, hipEvent_t,
    uint32_t);
extern "C" __attribute__((visibility("default"), alias("hipHccModuleLaunchKernel"))) hipError_t
_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_(hipFunction_t, uint32_t,
    uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, size_t, hipStream_t, void**, void**, hipEvent_t, hipEvent_t);
