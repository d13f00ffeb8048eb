// The matrix instructions: shapes, element types, and where each element sits in the registers.
#pragma once
#include "matrix/matrix.h"

#include <vector>

namespace gfxemu::matrix {

enum class T : uint8_t { f32, xf32, f64, f16, bf16, i8, iu8, iu4, fp8, bf8, any8, fp6, bf6, fp4, i32 };

inline int bits_per(T t) {
    switch (t) {
    case T::f64: return 64;
    case T::f32:
    case T::xf32:
    case T::i32: return 32;
    case T::f16:
    case T::bf16: return 16;
    case T::fp6:
    case T::bf6: return 6;
    case T::iu4:
    case T::fp4: return 4;
    default: return 8;
    }
}

enum : uint8_t { k1200 = 1, k942 = 2, k950 = 4, kCdna = 6 };
// Modifiers that an instruction takes, and kinds that decide what they mean.
enum : uint8_t { mCbsz = 1, mBlgp = 2, mNeg64 = 4, mFormat = 8, mScale = 16, mNegAB = 32, mNegC = 64, mInt = 128 };

struct Desc {
    const char* name;
    uint8_t arches;
    int m, n, k, blocks;
    T a, b, cd;
    uint8_t mods;
};

// Row r of an operand array holds element (block, k) = (r / K, r % K) of all rows (A) or columns (B): [block][k][i].
// The lanes of a group (M consecutive lanes) hold consecutive i, so that one register element of a group is one stretch
// of one row.
struct Entry {
    const Desc* d = nullptr;
    int lanes = 64, groups = 0, a_elems = 0, c_elems = 0; // elements in a lane
    std::vector<uint16_t> ab_row[2];                      // [group][e]; [1]: an f8f6f4 operand narrower than 8 bits
    std::vector<uint16_t> cd_row;                         // [group][e] -> block * M + i
};

const Entry* find(Arch arch, std::string_view mnemonic); // nullptr where there is no such instruction
inline int regs_for(T t, int elems) { return (bits_per(t) * elems + 31) / 32; }
T format_of(uint32_t code); // of an f8f6f4 selector
[[noreturn]] void unsupported(const Desc& d, const char* what);
void check_mods(const Desc& d, const MatrixMods& m); // throws std::invalid_argument

} // namespace gfxemu::matrix
