// What the files of the memory instructions share.
#pragma once
#include "core/alu.h"
#include "core/operands.h"

namespace gfxemu {

// ---- addresses (outstanding.cpp) ----
std::string describe_address(u64 address);
void check_address(Wave& w, const Inst& i, u64 address, u64 bytes, int lane); // fault memory
// The same for the lanes of `mask` at once.
void check_addresses(Wave& w, const Inst& i, const u64* address, u64 mask, u32 bytes);

// ---- outstanding operations (outstanding.cpp) ----
void push_pending(Wave& w, Queue q, Pending&& p);

// ---- LDS checks and models (lds_checks.cpp) ----
void lds_bounds(Wave& w, const Inst& i, const u32* address, u64 mask, u32 bytes);
void count_bank_conflicts(Wave& w, const u32* address, u64 mask, u32 bytes, bool write);

// ---- elements (transfer.cpp) ----
void load_lanes(Wave& w, const MemOp& o, u8* const* from, u64 mask, u32 dst);
void zero_lane(Wave& w, const MemOp& o, int lane, u32 dst, int word); // what an out-of-bounds load returns
void store_lane(Wave& w, const Inst& i, const Opnd& data, u8* to, int lane);
u8 store_value(Wave& w, const Inst& i, const void* data, int lane, u32 at); // a StoreValue over a store's data operand
void transpose_store(Wave& w, const Inst& i, u8 (*data)[16], u64 mask);
// One lane of an atomic. `data`, `cmp`, `dst`: registers, -1 where there is none (data: 0).
void atomic_lane(Wave& w, const Inst& i, u8* at, int lane, int data, int cmp, int dst);
u32 atomic_memory(const Inst& i, u8* at, u32 value, u32 compare); // returns the old value
u64 atomic_memory(const Inst& i, u8* at, u64 value, u64 compare);
inline bool compares(const MemOp& o) { return o.aop == AtOp::cmpswap || o.aop == AtOp::fcmpswap; }
// Bytes of a lane's access.
inline u32 access_bytes(const MemOp& o) { return o.bytes >= 4 && !o.atomic ? o.dwords * 4u : o.bytes; }

// ---- handlers ----
void exec_smem(Wave& w, const Inst& i);
void exec_sstore(Wave& w, const Inst& i);
void exec_satomic(Wave& w, const Inst& i);
void exec_vmem(Wave& w, const Inst& i); // global, flat, scratch
void exec_buffer(Wave& w, const Inst& i);
void exec_ds(Wave& w, const Inst& i);
void exec_bpermute(Wave& w, const Inst& i);
void exec_permute(Wave& w, const Inst& i);
void exec_swizzle(Wave& w, const Inst& i);

// Calls f(lane) for each lane of the mask, in ascending order.
template <class F> inline void each_lane(u64 mask, F&& f) {
    for (u64 b = mask; b; b &= b - 1) f(std::countr_zero(b));
}

} // namespace gfxemu
