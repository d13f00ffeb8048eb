// Errors: one exception hierarchy, and the checks that throw it.
//
//   Error                     base of all                                               in Python
//     InvalidArgument         a value, shape, stride or pointer that no kernel accepts    ValueError
//     TypeMismatch            an element type where another was expected                  TypeError
//     Unsupported             valid, but no kernel covers it; the text says what is       NotImplementedError
//     RuntimeFailure          no runtime, no device, a HIP error                          RuntimeError
//       UnsupportedDevice     no kernel for the device's target; names both and the supported ones
//       HipFailure            a HIP call failed; carries the code
//
// All checks run before anything is launched, so a thrown error leaves every tensor untouched.
#pragma once

#include "waveattn/core/hip_api.h"

#include <sstream>
#include <stdexcept>
#include <string>

namespace waveattn {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct InvalidArgument : Error {
    using Error::Error;
};
struct TypeMismatch : Error {
    using Error::Error;
};
struct Unsupported : Error {
    using Error::Error;
};
struct RuntimeFailure : Error {
    using Error::Error;
};
struct UnsupportedDevice : RuntimeFailure {
    using RuntimeFailure::RuntimeFailure;
};
struct HipFailure : RuntimeFailure {
    hipError_t code;
    HipFailure(hipError_t code_, const std::string& text) : RuntimeFailure(text), code(code_) {}
};

// Joins its arguments as an output stream would.
template <class... Parts> std::string concat(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return std::move(text).str();
}

// Throws E with the joined text unless `condition` holds:
//     require<InvalidArgument>(n > 0, "n must be positive, got ", n)
template <class E = InvalidArgument, class... Parts> void require(bool condition, const Parts&... parts) {
    if (!condition) throw E(concat(parts...));
}

// Throws HipFailure naming `what` unless the call succeeded.
inline void check_hip(hipError_t code, const char* what) {
    if (code == hipSuccess) return;
    throw HipFailure(
        code, concat(what, ": ", hipGetErrorName(code), " (", unsigned(code), "): ", hipGetErrorString(code)));
}

} // namespace waveattn
