#include "core/compression.h"

#include <dlfcn.h>
#include <stdexcept>
#include <string>

namespace gfxemu {
namespace {

template <class F> F* symbol(const char* library, const char* name) {
    void* handle = dlopen(library, RTLD_NOW);
    void* at = handle ? dlsym(handle, name) : nullptr;
    if (!at) throw std::runtime_error(std::string("gfxemu: compressed data need ") + library);
    return reinterpret_cast<F*>(at);
}

} // namespace

Bytes zlib_compress(const void* data, size_t size) {
    using Run = int(unsigned char*, unsigned long*, const unsigned char*, unsigned long, int);
    auto* run = symbol<Run>("libz.so.1", "compress2");
    unsigned long n = size + size / 1000 + 64; // zlib's own bound is smaller
    Bytes out(n);
    if (run(out.data(), &n, static_cast<const unsigned char*>(data), size, 9))
        throw std::runtime_error("gfxemu: zlib failed");
    out.resize(n);
    return out;
}

Bytes zlib_decompress(const void* data, size_t size, size_t decompressed_size) {
    using Run = int(unsigned char*, unsigned long*, const unsigned char*, unsigned long);
    auto* run = symbol<Run>("libz.so.1", "uncompress");
    Bytes out(decompressed_size);
    unsigned long n = decompressed_size;
    if (run(out.data(), &n, static_cast<const unsigned char*>(data), size) || n != decompressed_size)
        throw std::runtime_error("gfxemu: corrupt zlib data");
    return out;
}

Bytes zstd_decompress(const void* data, size_t size, size_t limit, size_t decompressed_size) {
    using Frame = size_t(const void*, size_t);
    using Run = size_t(void*, size_t, const void*, size_t);
    auto* frame = symbol<Frame>("libzstd.so.1", "ZSTD_findFrameCompressedSize");
    auto* run = symbol<Run>("libzstd.so.1", "ZSTD_decompress");
    Bytes out(decompressed_size);
    if (!size) size = frame(data, limit);
    if (run(out.data(), out.size(), data, size) != decompressed_size)
        throw std::runtime_error("gfxemu: corrupt zstd data");
    return out;
}

} // namespace gfxemu
