// waveattn._core: runtimes, devices, tensors, and whatever the bind_<name>.cpp files add.
#include "hip_runtime.h"
#include "registration.h"
#include "tensor.h"

#include "waveattn/arch/capability.h"
#include "waveattn/core/status.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

namespace nb = nanobind;

namespace waveattn::python {
namespace {

nb::dict status_dict(const RuntimeStatus& status) {
    nb::dict result;
    result["loaded"] = status.loaded;
    result["path"] = status.path;
    result["origin"] = status.origin;
    result["tried"] = status.tried;
    result["version"] = status.version;
    return result;
}

nb::dict device_dict(int ordinal) {
    const arch::Device& device = arch::device(ordinal);
    nb::dict result;
    result["ordinal"] = device.ordinal;
    result["name"] = device.name;
    result["gcn_arch"] = device.gcn_arch;
    result["target"] = arch::target_name(device.target);
    result["wave_size"] = device.wave_size;
    result["compute_units"] = device.compute_units;
    result["emulated"] = ordinal >= first_emulated;
    return result;
}

void translate(const std::exception_ptr& pointer, void*) {
    auto raise = [](PyObject* type, const std::exception& error) { PyErr_SetString(type, error.what()); };
    try {
        std::rethrow_exception(pointer);
    } catch (const InvalidArgument& error) {
        raise(PyExc_ValueError, error);
    } catch (const TypeMismatch& error) {
        raise(PyExc_TypeError, error);
    } catch (const Unsupported& error) {
        raise(PyExc_NotImplementedError, error);
    } catch (const Error& error) {
        raise(PyExc_RuntimeError, error);
    }
}

} // namespace
} // namespace waveattn::python

NB_MODULE(_core, module) {
    using namespace waveattn::python;
    module.doc() = "The compiled part of waveattn; use the functions of the package instead.";
    module.attr("__version__") = WAVEATTN_VERSION;
    module.attr("targets") = WAVEATTN_FAT_BINARY_TARGETS;
    module.attr("first_emulated") = first_emulated;
    nb::register_exception_translator(translate);

    bind_tensor(module);
    module.def(
        "load_rocm",
        [](const std::vector<std::pair<std::string, std::string>>& packages) {
            std::vector<Candidate> candidates;
            for (const auto& [path, origin] : packages) candidates.push_back({path, origin});
            return status_dict(load_rocm(candidates));
        },
        nb::arg("packages"));
    module.def(
        "load_emulator",
        [](const std::string& path, const std::string& devices) { return status_dict(load_emulator(path, devices)); },
        nb::arg("path"), nb::arg("devices"));
    module.def("rocm_device_count", &rocm_device_count);
    module.def("emulated_device_count", &emulated_device_count);
    module.def("emulated_instructions", &emulated_instructions);
    module.def("device", &device_dict, nb::arg("ordinal"));
    // The thread's current GPU, for producers that export their arrays on the current device only.
    module.def("current_device", [] {
        int ordinal = 0;
        waveattn::check_hip(hipGetDevice(&ordinal), "hipGetDevice");
        return ordinal;
    });
    module.def(
        "set_current_device", [](int ordinal) { waveattn::check_hip(hipSetDevice(ordinal), "hipSetDevice"); },
        nb::arg("ordinal"));
    module.def("supported_targets", [] { return waveattn::arch::supported_targets; });

    std::vector<const Registration*> all;
    for (const Registration* entry = Registration::first(); entry; entry = entry->next) all.push_back(entry);
    std::sort(all.begin(), all.end(),
        [](const Registration* a, const Registration* b) { return std::strcmp(a->name, b->name) < 0; });
    nb::list names;
    for (const Registration* entry : all) {
        entry->bind(module);
        names.append(entry->name);
    }
    module.attr("kernels") = nb::tuple(names);
}
