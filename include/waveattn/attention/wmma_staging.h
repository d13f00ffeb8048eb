// FlashAttentionWmmaDPP: K and V from memory through registers into LDS.
//
//   K tile   [key][dim]    rows of Config::k_row_bytes; the A operand of S^T = K.Q^T reads 8 dims of a key
//   V tile   [dim][key]    rows of Config::v_row_bytes; the A operand of O^T += V^T.P^T reads 8 keys of a dim
//
// A thread loads its share of a tile one iteration before it stores it (elements: just before), and stores it one
// iteration before it is used.
// Keys beyond the end are read as the last key: their scores are masked. Dims beyond head_dim are read as the first
// ones: q is zero there, and such dims of the output are not stored.
#pragma once

#include "waveattn/attention/wmma_config.h"
#include "waveattn/tile/wmma_gfx12.h"

#ifdef __HIP__

namespace waveattn::detail {

// ---- conversions of 8 values to a fragment ----

template <class Element> WAVEATTN_DEVICE tile::Operand16 to_operand16(const float (&values)[8]) {
    tile::Operand16 words;
#    pragma unroll
    for (int i = 0; i < 4; ++i)
        if constexpr (std::is_same_v<Element, float16>)
            words[i] = __builtin_bit_cast(int, arch::half2v{_Float16(values[2 * i]), _Float16(values[2 * i + 1])});
        else
            words[i] = __builtin_bit_cast(int, arch::bfloat2v{__bf16(values[2 * i]), __bf16(values[2 * i + 1])});
    return words;
}

// Codes of a cache, without their scale: exact in bf16 and f16.
template <class Code, class Element> WAVEATTN_DEVICE tile::Operand16 codes_to_operand16(tile::Operand8 codes) {
    float values[8];
#    pragma unroll
    for (int i = 0; i < 2; ++i)
        if constexpr (std::is_same_v<Code, float8_e4m3fn>) {
            const arch::float4v four = arch::decode_e4m3(codes[i]);
            values[4 * i] = four.x, values[4 * i + 1] = four.y, values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
        } else {
#    pragma unroll
            for (int b = 0; b < 4; ++b) values[4 * i + b] = float(std::int8_t(codes[i] >> 8 * b));
        }
    tile::Operand16 words;
#    pragma unroll
    for (int i = 0; i < 4; ++i)
        if constexpr (std::is_same_v<Element, float16>)
            words[i] = int(arch::pack_f16_toward_zero(values[2 * i], values[2 * i + 1]));
        else
            words[i] = int(arch::pack_upper_halves(values[2 * i], values[2 * i + 1]));
    return words;
}

template <class Code> WAVEATTN_DEVICE tile::Operand8 to_operand8(const float (&values)[8]) {
    tile::Operand8 words = {0, 0};
#    pragma unroll
    for (int i = 0; i < 2; ++i)
        if constexpr (std::is_same_v<Code, float8_e4m3fn>)
            words[i] = arch::encode_e4m3(values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]);
        else
#    pragma unroll
            for (int b = 0; b < 4; ++b) words[i] |= (int(__builtin_rintf(values[4 * i + b])) & 0xff) << 8 * b;
    return words;
}

// 8 dims from where.dim on; zero at `dims` and beyond. Whole: `dims` is a multiple of 8.
template <bool Whole, class R> WAVEATTN_DEVICE void read8(const R& op, iop::Point where, int dims, float (&values)[8]) {
    if (Whole ? where.dim < dims : where.dim + 8 <= dims) {
        op.read(where, values);
        return;
    }
    if constexpr (!Whole) {
        // Without a branch for each: dims beyond the end read the last one.
        const int first = where.dim;
#    pragma unroll
        for (int e = 0; e < 8; ++e) {
            where.dim = first + e < dims ? first + e : dims - 1;
            const float value = op.read(where);
            values[e] = first + e < dims ? value : 0.f;
        }
    } else
#    pragma unroll
        for (int e = 0; e < 8; ++e) values[e] = 0.f;
}
// The same as an operand; elements of its type are copied.
template <bool Whole, class Element, class R>
WAVEATTN_DEVICE tile::Operand16 read_operand16(const R& op, iop::Point where, int dims) {
    if constexpr (Whole && iop::is_raw_of<R, Element>) {
        // Loaded in any case, so that many such loads are in flight at once.
        const int dim = where.dim < dims ? where.dim : 0;
        tile::Operand16 words;
        __builtin_memcpy(&words, op.view.at(where.batch, where.head, where.token) + dim, sizeof(words));
        return where.dim < dims ? words : tile::Operand16{0, 0, 0, 0};
    } else {
        float values[8];
        read8<Whole>(op, where, dims, values);
        return to_operand16<Element>(values);
    }
}
// Writes those of 8 dims from where.dim on that are below `dims`.
template <bool Whole, class W>
WAVEATTN_DEVICE void write8(const W& op, iop::Point where, int dims, const float (&values)[8]) {
    if constexpr (requires { op.write(where, values); })
        if (Whole ? where.dim < dims : where.dim + 8 <= dims) {
            op.write(where, values);
            return;
        }
    if constexpr (!Whole || !requires { op.write(where, values); })
#    pragma unroll
        for (int e = 0; e < 8; ++e, ++where.dim)
            if (where.dim < dims) op.write(where, values[e]);
}

// An address in LDS.
using LdsPointer = __attribute__((address_space(3))) char*;
template <class T> WAVEATTN_DEVICE T lds_load(LdsPointer base, int offset) {
    return *(__attribute__((address_space(3))) const T*)(base + offset);
}
template <class T> WAVEATTN_DEVICE void lds_store(LdsPointer base, int offset, T value) {
    *(__attribute__((address_space(3))) T*)(base + offset) = value;
}
// 16 or 8 bytes of a row-major matrix: a uniform base and a 32-bit offset of the lane.
template <class T> WAVEATTN_DEVICE T global_load(arch::GlobalPointer base, unsigned offset) {
    return *(__attribute__((address_space(1))) const T*)(base + offset);
}

// ---- a tile ----

template <class Config> class WmmaStaging {
    using Key = typename Config::Key;
    using Value = typename Config::Value;
    using qk_element = typename Config::qk_element;
    using pv_element = typename Config::pv_element;
    using KeyChunk =
        std::conditional_t<Config::k_wide_code || sizeof(qk_element) == 1, tile::Operand8, tile::Operand16>;
    using ValueChunk = std::conditional_t<Config::v_wide_code, tile::Operand8, tile::Operand16>;
    using Map = tile::TransposedLoad;
    static constexpr int block_kv = Config::block_kv, threads = Config::threads;
    static constexpr bool k_wide = Config::k_wide_raw || Config::k_wide_code;
    static constexpr bool v_wide = Config::v_wide_raw || Config::v_wide_code;
    static constexpr bool v_staged = !Config::v_in_registers;
    static constexpr int k_bytes = Config::k_wide_code ? 1 : 2, v_bytes = Config::v_wide_code ? 1 : 2; // of an element
    static constexpr int k_share = Config::k_per_thread;
    // Where a thread's chunks (blocks) lie a fixed number of keys apart, one register holds where all of them go.
    static constexpr bool k_regular = threads % Config::chunks_per_row == 0;
    static constexpr bool v_regular = Config::v_scattered ? k_regular : threads / 16 % Config::dim_tiles == 0;
    static constexpr int v_step =
        Config::v_scattered ? threads / Config::chunks_per_row : threads / 16 / Config::dim_tiles * 8; // keys
    static constexpr int v_share = Config::v_scattered ? Config::k_per_thread : Config::v_per_thread;

public:
    // Head and batch entry of k and v that the workgroup reads.
    WAVEATTN_DEVICE WmmaStaging(const typename Config::Params& params, int kv_head, int batch, int thread_)
        : p(params), head(kv_head), batch_entry(batch), thread(thread_), lane(thread % 32),
          wave(arch::uniform(thread / 32)) {
        // Opaque: kept in registers instead of computed anew for each tile.
#    pragma unroll
        for (int i = 0; i < k_share && k_wide; ++i) k_from[i] = arch::opaque(k_offset(i, k_row(i)));
#    pragma unroll
        for (int i = 0; i < v_share && v_wide && v_staged; ++i) v_from[i] = arch::opaque(v_offset(i, v_row(i)));
#    pragma unroll
        for (int i = 0; i < (k_regular ? 1 : k_share); ++i)
            k_to[i] = arch::opaque(k_row(i) * Config::k_row_bytes + k_dim(i) * int(sizeof(qk_element)));
#    pragma unroll
        for (int i = 0; i < (v_regular ? 1 : v_share) && v_staged; ++i)
            v_to[i] = arch::opaque(Config::v_scattered ? k_dim(i) * Config::v_row_bytes + k_row(i) * 2
                                                       : (v_dim(i) + lane % 16) * Config::v_row_bytes + v_key(i) * 2);
    }

    // Starts the loads of the tile from key `first` on. Tiles come in order, so the last one may change the offsets.
    WAVEATTN_DEVICE void load(int first) {
        const int last = p.kv_len - 1 - first;                             // row of the tile
        if constexpr (!Config::wide) thread = arch::opaque(thread) & 1023; // nothing of a tile waits for the next one
        arch::GlobalPointer k_base = nullptr, v_base = nullptr;
        if constexpr (k_wide) k_base = tile_base(p.k.view, first, k_bytes);
        if constexpr (v_wide) v_base = tile_base(p.v.view, first, v_bytes);
        if (last < block_kv - 1) limit_rows(last);
#    pragma unroll
        for (int i = 0; i < k_share; ++i) {
            if (!has_k_chunk(i)) continue;
            if constexpr (k_wide)
                keys[i] = global_load<KeyChunk>(k_base, unsigned(k_from[i]));
            else {
                keys[i] = read_k(first + clamp(k_row(i), last), arch::opaque(k_dim(i)));
                arch::schedule_barrier(); // or all elements would wait in registers
            }
        }
#    pragma unroll
        for (int i = 0; i < v_share && v_staged; ++i) {
            if (!has_v_block(i)) continue;
            if constexpr (v_wide) {
                const auto offset = unsigned(v_from[i]);
                if constexpr (Config::v_scattered)
                    values[i] = global_load<ValueChunk>(v_base, offset);
                else if constexpr (Config::v_wide_raw)
                    values[i] = __builtin_bit_cast(ValueChunk, arch::load_transposed_b128(v_base + offset));
                else
                    values[i] = arch::load_transposed_b64(v_base + offset);
            } else {
                values[i] = read_v(first, arch::opaque(v_key(i)), last, arch::opaque(v_dim(i) + lane % 16));
                arch::schedule_barrier();
            }
        }
        if constexpr (Config::k_scaled || Config::v_scaled)
            if (thread < block_kv) {
                const int key = first + clamp(thread, last);
                if constexpr (Config::k_scaled) k_scale = *p.k.scales.at(batch_entry, head, key);
                if constexpr (Config::v_scaled) v_scale = *p.v.scales.at(batch_entry, head, key);
            }
    }

    // Writes the loaded tile to a buffer in LDS.
    WAVEATTN_DEVICE void store(LdsPointer buffer) const {
#    pragma unroll
        for (int i = 0; i < k_share; ++i) {
            if (!has_k_chunk(i)) continue;
            const int to = k_regular ? k_to[0] + i * (threads / Config::chunks_per_row) * Config::k_row_bytes : k_to[i];
            if constexpr (Config::k_wide_code && sizeof(qk_element) == 2)
                lds_store(buffer, to, codes_to_operand16<iop::cache_code<Key>, qk_element>(keys[i]));
            else
                lds_store(buffer, to, keys[i]);
        }
#    pragma unroll
        for (int i = 0; i < v_share && v_staged; ++i) {
            if (!has_v_block(i)) continue;
            const int to = Config::v_at + (v_regular ? v_to[0] + i * v_step * 2 : v_to[i]);
            if constexpr (Config::v_scattered) {
                const auto elements = __builtin_bit_cast(arch::short8v, values[i]);
#    pragma unroll
                for (int e = 0; e < 8; ++e) lds_store(buffer, to + e * Config::v_row_bytes, short(elements[e]));
            } else if constexpr (Config::v_wide_code)
                lds_store(buffer, to, codes_to_operand16<iop::cache_code<Value>, pv_element>(values[i]));
            else
                lds_store(buffer, to, values[i]);
        }
        if (thread < block_kv) {
            if constexpr (Config::k_scaled) lds_store(buffer, Config::k_scale_at + thread * 4, k_scale);
            if constexpr (Config::v_scaled) lds_store(buffer, Config::v_scale_at + thread * 4, v_scale);
        }
    }

    // The A operands of O^T += V^T.P^T straight from memory, of the tile from key `first` on.
    WAVEATTN_DEVICE void load_v_operands(
        int first, tile::Operand16 (&operands)[Config::dim_tiles][Config::key_tiles]) const {
        const int last = p.kv_len - 1 - first;
        const bool whole = last >= block_kv - 1 && p.head_dim_v == Config::head_dim;
        const int column = Map::column_16bit(lane), stride = int(p.v.view.stride[2]);
        const unsigned lane_offset = unsigned(Map::row_16bit(lane) * stride + column) * 2;
#    pragma unroll
        for (int t = 0; t < Config::key_tiles; ++t) {
            const arch::GlobalPointer base = tile_base(p.v.view, first + 16 * t, 2);
            const unsigned row = unsigned(clamp(16 * t + Map::row_16bit(lane), last) * stride) * 2;
#    pragma unroll
            for (int d = 0; d < Config::dim_tiles; ++d) {
                const int dim = 16 * d + column;
                operands[d][t] = __builtin_bit_cast(tile::Operand16,
                    whole ? arch::load_transposed_b128(base + lane_offset + 32 * d)
                          : arch::load_transposed_b128(
                                tile_base(p.v.view, first, 2) + row + unsigned(dim < p.head_dim_v ? dim : 0) * 2));
            }
        }
    }

private:
    // ---- which chunk of K (8 dims of a key), which block of V (8 keys of 16 dims) ----
    WAVEATTN_DEVICE bool has_k_chunk(int i) const {
        return Config::k_chunks % threads == 0 || i * threads + thread < Config::k_chunks;
    }
    WAVEATTN_DEVICE int k_row(int i) const { return (i * threads + thread) / Config::chunks_per_row; }
    WAVEATTN_DEVICE int k_dim(int i) const { return (i * threads + thread) % Config::chunks_per_row * 8; }
    // Whole waves, because transposing loads need all lanes.
    WAVEATTN_DEVICE bool has_v_block(int i) const {
        if constexpr (Config::v_scattered) return has_k_chunk(i);
        return Config::v_blocks % (threads / 16) == 0 || i * (threads / 16) + wave * 2 < Config::v_blocks;
    }
    WAVEATTN_DEVICE int v_block(int i) const { return i * (threads / 16) + thread / 16; }
    WAVEATTN_DEVICE int v_dim(int i) const { return v_block(i) % Config::dim_tiles * 16; }
    WAVEATTN_DEVICE int v_key(int i) const { return v_block(i) / Config::dim_tiles * 8; }

    // ---- rows and offsets that the thread reads ----
    WAVEATTN_DEVICE static int clamp(int row, int last) { return row < last ? row : last; }
    WAVEATTN_DEVICE int v_row(int i) const {
        if constexpr (Config::v_scattered) return k_row(i);
        return v_key(i) + (Config::v_wide_code ? Map::row_8bit(lane % 16) : Map::row_16bit(lane % 16));
    }
    WAVEATTN_DEVICE int v_column(int i) const {
        if constexpr (Config::v_scattered) return k_dim(i);
        return v_dim(i) + (Config::v_wide_code ? Map::column_8bit(lane % 16) : Map::column_16bit(lane % 16));
    }
    WAVEATTN_DEVICE int k_offset(int i, int row) const {
        if constexpr (k_wide) return (row * int(p.k.view.stride[2]) + (k_dim(i) < p.head_dim ? k_dim(i) : 0)) * k_bytes;
        return 0;
    }
    WAVEATTN_DEVICE int v_offset(int i, int row) const {
        if constexpr (v_wide)
            return (row * int(p.v.view.stride[2]) + (v_column(i) < p.head_dim_v ? v_column(i) : 0)) * v_bytes;
        return 0;
    }
    template <class View> WAVEATTN_DEVICE arch::GlobalPointer tile_base(const View& view, int first, int bytes) const {
        return arch::opaque_scalar(
            (arch::GlobalPointer)(view.at(batch_entry, head)) + std::int64_t(first) * view.stride[2] * bytes);
    }

    // Offsets of a tile whose rows end at `last`.
    WAVEATTN_DEVICE void limit_rows(int last) {
#    pragma unroll
        for (int i = 0; i < k_share && k_wide; ++i) k_from[i] = arch::opaque(k_offset(i, clamp(k_row(i), last)));
#    pragma unroll
        for (int i = 0; i < v_share && v_wide && v_staged; ++i)
            v_from[i] = arch::opaque(v_offset(i, clamp(v_row(i), last)));
    }

    // ---- reads by elements; keys and dims are opaque, so that no addresses wait in registers from tile to tile ----
    WAVEATTN_DEVICE iop::Point point(int key, int dim) const { return {dim, key, head, batch_entry, p.heads_kv}; }
    WAVEATTN_DEVICE KeyChunk read_k(int key, int dim) const {
        float eight[8];
        if constexpr (Config::k_scaled) // the codes alone: their scale is applied to the score
            read8<Config::wide>(iop::RawRead<iop::cache_code<Key>>{p.k.view}, point(key, dim), p.head_dim, eight);
        else
            read8<Config::wide>(p.k, point(key, dim), p.head_dim, eight);
        if constexpr (sizeof(qk_element) == 1)
            return to_operand8<qk_element>(eight);
        else
            return to_operand16<qk_element>(eight);
    }
    WAVEATTN_DEVICE ValueChunk read_v(int first, int key, int last, int dim) const {
        float eight[8];
#    pragma unroll
        for (int e = 0; e < 8; ++e) {
            const auto where = point(first + clamp(key + e, last), dim < p.head_dim_v ? dim : 0);
            if constexpr (Config::v_scaled)
                eight[e] = iop::RawRead<iop::cache_code<Value>>{p.v.view}.read(where);
            else
                eight[e] = p.v.read(where);
        }
        return to_operand16<pv_element>(eight);
    }

    const typename Config::Params& p;
    int head, batch_entry, thread, lane, wave;
    int k_from[k_share], k_to[k_share], v_from[v_share], v_to[v_share]; // byte offsets in memory and in a buffer
    KeyChunk keys[k_share];
    ValueChunk values[v_share];
    float k_scale = 0.f, v_scale = 0.f;
};

} // namespace waveattn::detail

#endif
