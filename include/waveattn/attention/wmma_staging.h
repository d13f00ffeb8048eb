// FlashAttentionWmmaDPP: K and V from memory through registers into LDS.
//
//   K tile   [key][dim]    rows of Config::k_row_bytes; the A operand of S^T = K.Q^T reads 8 dims of a key
//   V tile   [dim][key]    rows of Config::v_row_bytes; the A operand of O^T += V^T.P^T reads 8 keys of a dim
//
// A thread loads its share of a tile one iteration before it stores it, and stores it one iteration before it is used.
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

// 8 dims from where.dim on; zero at `dims` and beyond.
template <class R> WAVEATTN_DEVICE void read8(const R& op, iop::Point where, int dims, float (&values)[8]) {
    if (where.dim + 8 <= dims) {
        op.read(where, values);
        return;
    }
#    pragma unroll
    for (int e = 0; e < 8; ++e, ++where.dim) {
        values[e] = 0.f;
        if (where.dim < dims) values[e] = op.read(where);
    }
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
template <class T> WAVEATTN_DEVICE T global_load(const char* base, unsigned offset) {
    return *reinterpret_cast<const T*>(base + offset);
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
    static constexpr int block_kv = Config::block_kv, threads = Config::threads;
    static constexpr int k_share = Config::k_per_thread, v_share = Config::v_per_thread;
    static constexpr bool v_staged = !Config::v_in_registers;
    static constexpr int element_bytes_k = Config::k_wide_code ? 1 : 2, element_bytes_v = Config::v_wide_code ? 1 : 2;

public:
    // Head and batch entry of k and v that the workgroup reads.
    WAVEATTN_DEVICE WmmaStaging(const typename Config::Params& params, int kv_head, int batch)
        : p(params), head(kv_head), batch_entry(batch), thread(int(arch::thread_x())), lane(thread % 32),
          wave(arch::uniform(thread / 32)) {}

    // Starts the loads of the tile from key `first` on.
    WAVEATTN_DEVICE void load(int first) {
        const int last_row = p.kv_len - 1 - first; // of the tile
        if (last_row >= block_kv - 1)
            load_rows(first, [](int row) { return row; });
        else
            load_rows(first, [last_row](int row) { return row < last_row ? row : last_row; });
    }

    // Writes the loaded tile to a buffer in LDS.
    WAVEATTN_DEVICE void store(LdsPointer buffer) const {
#    pragma unroll
        for (int i = 0; i < k_share; ++i) {
            if (!has_k_chunk(i)) continue;
            const int at = k_row(i) * Config::k_row_bytes + k_dim(i) * int(sizeof(qk_element));
            if constexpr (Config::k_wide_code && sizeof(qk_element) == 2)
                lds_store(buffer, at, codes_to_operand16<iop::cache_code<Key>, qk_element>(keys[i]));
            else
                lds_store(buffer, at, keys[i]);
        }
#    pragma unroll
        for (int i = 0; i < v_share && v_staged; ++i) {
            if (!has_v_block(i)) continue;
            if constexpr (Config::v_scattered) {
                const auto elements = __builtin_bit_cast(arch::short8v, values[i]);
#    pragma unroll
                for (int e = 0; e < 8; ++e)
                    lds_store(buffer, Config::v_at + (k_dim(i) + e) * Config::v_row_bytes + k_row(i) * 2, elements[e]);
            } else {
                const int at = Config::v_at + (v_dim(i) + lane % 16) * Config::v_row_bytes + v_key(i) * 2;
                if constexpr (Config::v_wide_code)
                    lds_store(buffer, at, codes_to_operand16<iop::cache_code<Value>, pv_element>(values[i]));
                else
                    lds_store(buffer, at, values[i]);
            }
        }
        if (thread < block_kv) {
            if constexpr (Config::k_scaled) lds_store(buffer, Config::k_scale_at + thread * 4, k_scale);
            if constexpr (Config::v_scaled) lds_store(buffer, Config::v_scale_at + thread * 4, v_scale);
        }
    }

    // The A operand of O^T += V^T.P^T straight from memory: 16 dims from `dim` on, 16 keys from `first` + `key` on.
    WAVEATTN_DEVICE tile::Operand16 load_v_operand(int first, int key, int dim) const {
        using Map = tile::TransposedLoad;
        const int row = Map::row_16bit(lane), last = p.kv_len - 1 - first - key;
        const int column = dim + Map::column_16bit(lane);
        const char* const base = plane(p.v.view) + (std::int64_t(first + key) * p.v.view.stride[2]) * 2;
        const int clamped = row < last ? row : last < 0 ? last : last; // a whole tile beyond the end reads the last key
        const std::int64_t offset = std::int64_t(clamped) * p.v.view.stride[2] + (column < p.head_dim_v ? column : 0);
        return __builtin_bit_cast(tile::Operand16, arch::load_transposed_b128(base + offset * 2));
    }

private:
    // ---- which chunk of K, which block of V ----
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
    WAVEATTN_DEVICE int v_dim(int i) const { return (i * (threads / 16) + thread / 16) % Config::dim_tiles * 16; }
    WAVEATTN_DEVICE int v_key(int i) const { return (i * (threads / 16) + thread / 16) / Config::dim_tiles * 8; }

    template <class View> WAVEATTN_DEVICE const char* plane(const View& view) const {
        return reinterpret_cast<const char*>(view.at(batch_entry, head));
    }
    WAVEATTN_DEVICE iop::Point point(int key, int dim) const { return {dim, key, head, batch_entry, p.heads_kv}; }

    template <class RowOf> WAVEATTN_DEVICE void load_rows(int first, RowOf row_of) {
#    pragma unroll
        for (int i = 0; i < k_share; ++i)
            if (has_k_chunk(i)) load_k(i, first, row_of(k_row(i)));
        if constexpr (v_staged)
#    pragma unroll
            for (int i = 0; i < v_share; ++i)
                if (has_v_block(i)) load_v(i, first, row_of);
        if constexpr (Config::k_scaled || Config::v_scaled)
            if (thread < block_kv) {
                const int key = first + row_of(thread);
                if constexpr (Config::k_scaled) k_scale = *p.k.scales.at(batch_entry, head, key);
                if constexpr (Config::v_scaled) v_scale = *p.v.scales.at(batch_entry, head, key);
            }
    }

    WAVEATTN_DEVICE void load_k(int i, int first, int row) {
        if constexpr (Config::k_wide_raw || Config::k_wide_code) {
            const char* const base = plane(p.k.view) + std::int64_t(first) * p.k.view.stride[2] * element_bytes_k;
            const int dim = k_dim(i) < p.head_dim ? k_dim(i) : 0;
            keys[i] = global_load<KeyChunk>(base, unsigned(row * int(p.k.view.stride[2]) + dim) * element_bytes_k);
        } else {
            float eight[8];
            if constexpr (Config::k_scaled) {
                // The codes alone: their scale is applied to the score.
                const iop::RawRead<iop::cache_code<Key>> codes{p.k.view};
                read8(codes, point(first + row, k_dim(i)), p.head_dim, eight);
            } else
                read8(p.k, point(first + row, k_dim(i)), p.head_dim, eight);
            if constexpr (sizeof(qk_element) == 1)
                keys[i] = to_operand8<qk_element>(eight);
            else
                keys[i] = to_operand16<qk_element>(eight);
        }
    }

    template <class RowOf> WAVEATTN_DEVICE void load_v(int i, int first, RowOf row_of) {
        if constexpr (Config::v_wide_raw || Config::v_wide_code) {
            using Map = tile::TransposedLoad;
            const char* const base = plane(p.v.view) + std::int64_t(first) * p.v.view.stride[2] * element_bytes_v;
            int row, dim;
            if constexpr (Config::v_scattered)
                row = row_of(k_row(i)), dim = k_dim(i);
            else if constexpr (Config::v_wide_raw)
                row = row_of(v_key(i) + Map::row_16bit(lane % 16)), dim = v_dim(i) + Map::column_16bit(lane % 16);
            else
                row = row_of(v_key(i) + Map::row_8bit(lane % 16)), dim = v_dim(i) + Map::column_8bit(lane % 16);
            const unsigned offset =
                unsigned(row * int(p.v.view.stride[2]) + (dim < p.head_dim_v ? dim : 0)) * element_bytes_v;
            if constexpr (Config::v_scattered)
                values[i] = global_load<ValueChunk>(base, offset);
            else if constexpr (Config::v_wide_raw)
                values[i] = __builtin_bit_cast(ValueChunk, arch::load_transposed_b128(base + offset));
            else
                values[i] = arch::load_transposed_b64(base + offset);
        } else {
            const int dim = v_dim(i) + lane % 16;
            float eight[8];
#    pragma unroll
            for (int e = 0; e < 8; ++e) {
                const auto where = point(first + row_of(v_key(i) + e), dim < p.head_dim_v ? dim : 0);
                if constexpr (Config::v_scaled)
                    eight[e] = iop::decode(*p.v.view.at(where.batch, where.head, where.token, where.dim));
                else
                    eight[e] = p.v.read(where);
            }
            values[i] = to_operand16<pv_element>(eight);
        }
    }

    const typename Config::Params& p;
    int head, batch_entry, thread, lane, wave;
    KeyChunk keys[k_share];
    ValueChunk values[v_share];
    float k_scale = 0.f, v_scale = 0.f;
};

} // namespace waveattn::detail

#endif
