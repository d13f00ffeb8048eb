// How a kernel's binding gets into the module without a list that everybody edits: bind_<name>.cpp defines
//
//     static const waveattn::python::Registration registration("<name>", [](nanobind::module_& module) { ... });
//
// and module.cpp runs all of them at import. <name> appears in waveattn.info() as a kernel of the extension.
#pragma once

#include <nanobind/nanobind.h>

namespace waveattn::python {

struct Registration {
    const char* name;
    void (*bind)(nanobind::module_&);
    const Registration* next;

    Registration(const char* name_, void (*bind_)(nanobind::module_&)) : name(name_), bind(bind_), next(first()) {
        first() = this;
    }
    static const Registration*& first() {
        static const Registration* head = nullptr;
        return head;
    }
};

} // namespace waveattn::python
