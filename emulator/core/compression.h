// zlib and zstd through the libraries of the system, loaded at first use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gfxemu {

using Bytes = std::vector<uint8_t>;

// Both throw std::runtime_error where the library is missing or the data are corrupt.
Bytes zlib_compress(const void* data, size_t size);
Bytes zlib_decompress(const void* data, size_t size, size_t decompressed_size);
// `size` 0: one frame, of a size that the frame itself tells, within `limit` bytes.
Bytes zstd_decompress(const void* data, size_t size, size_t limit, size_t decompressed_size);

} // namespace gfxemu
