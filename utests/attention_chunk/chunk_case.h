// A paged attention problem with its inputs on the host and the device, a host reference in the kernels' canonical
// order of arithmetic, and a float64 oracle.
#pragma once

#include "reference.h"

#include "waveattn/attention/chunk_attention.h"
#include "waveattn/attention/chunk_pack.h"

#include <functional>
#include <numeric>

namespace waveattn::test {

// v_exp_f32 of the device under test: the one operation whose bits are the device's own.
std::vector<float> device_exp2(const std::vector<float>& values);

struct ChunkShape {
    int head_dim = 256, group = 12, kv_heads = 2, n_q = 1;
    KvFormat format = KvFormat::int8;
    int page_size = 4;
    int cells = 100;                // of a sequence
    std::vector<int> widths = {70}; // of each query; the last one repeats
    int sequences = 1;
    bool select = true;         // ids: an ascending selection of the cells; otherwise cells 0 .. width
    int masked_every = 0;       // every so many pages are not resident
    bool contiguous = false;    // one page for a sequence, without a page table
    bool token_major = false;   // contiguous (sequence, token, kv_head, dim)
    Data data = Data::gaussian; // of q, k and v
    float scale = 0;            // 0: the default
    unsigned seed = 1;

    int width(int query) const { return widths[std::min<std::size_t>(std::size_t(query), widths.size() - 1)]; }
    int max_width() const {
        int largest = 0;
        for (int query = 0; query < n_q; ++query) largest = std::max(largest, width(query));
        return largest;
    }
    int heads_q() const { return group * kv_heads; }
    std::string text() const {
        return concat("D ", head_dim, " group ", group, " kv_heads ", kv_heads, " n_q ", n_q, " ",
            kv_format_name(format), " page_size ", page_size, " cells ", cells, " width ", widths[0], " sequences ",
            sequences, select ? " ids" : "", masked_every ? " masked" : "", contiguous ? " contiguous" : "",
            token_major ? " token-major" : "", " ", data_name(data), " seed ", seed);
    }
};

struct ChunkCase {
    ChunkShape shape;
    std::vector<float> q;                      // [query, head, dim]
    std::vector<int> ids, widths, sequence_of; // ids [query, id_stride]
    int id_stride = 1;
    std::vector<int> page_table; // [sequence, page]
    PagedKv kv;                  // host pointers; on_device() gives device pointers
    std::vector<std::uint8_t> k_pool, v_pool;
    std::vector<float16> k_scale, v_scale;

    explicit ChunkCase(const ChunkShape& s) : shape(s) {
        std::mt19937 random(s.seed);
        const int pages_of_sequence = s.contiguous ? 1 : ceil_div(s.cells, s.page_size);
        const int spare = s.contiguous ? 0 : 3; // pages that belong to nobody
        const int pages = s.sequences * pages_of_sequence + spare;
        kv = s.contiguous ? contiguous_kv(s.sequences, s.kv_heads, s.cells, s.token_major)
                          : paged_kv(pages, s.kv_heads, s.page_size, nullptr, pages_of_sequence, s.sequences);
        std::vector<int> order(static_cast<std::size_t>(pages));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        page_table.assign(order.begin(), order.begin() + s.sequences * pages_of_sequence);
        if (s.masked_every)
            for (std::size_t i = std::size_t(s.masked_every) - 1; i < page_table.size();
                i += std::size_t(s.masked_every))
                page_table[i] = -1;

        // Unused rows hold 0xff: NaN in float16, so that whoever reads one shows it.
        const std::int64_t rows = kv.pages * kv.page_rows;
        const int D = s.head_dim;
        k_pool.assign(std::size_t(rows * row_bytes(key_format(s.format), D)), 0xff);
        v_pool.assign(std::size_t(rows * row_bytes(value_format(s.format), D)), 0xff);
        k_scale.assign(std::size_t(rows * row_scales(key_format(s.format), D)), float16{0xffff});
        v_scale.assign(std::size_t(rows * row_scales(value_format(s.format), D)), float16{0xffff});
        const auto k = make_values(s.data, s.sequences, s.kv_heads, s.cells, D, s.seed + 100);
        const auto v = make_values(s.data, s.sequences, s.kv_heads, s.cells, D, s.seed + 200);
        for (int sequence = 0; sequence < s.sequences; ++sequence)
            for (int head = 0; head < s.kv_heads; ++head)
                for (int cell = 0; cell < s.cells; ++cell) {
                    const std::int64_t row = row_of(sequence, head, cell);
                    if (row < 0) continue;
                    const std::size_t from = ((std::size_t(sequence) * s.kv_heads + head) * s.cells + cell) * D;
                    store(row, &k[from], &v[from]);
                }

        q = make_values(s.data, 1, s.n_q, s.heads_q(), D, s.seed + 300);
        id_stride = s.max_width() + 5;
        // What lies behind a query's width would fault if it were used as an id.
        ids.assign(std::size_t(s.n_q * id_stride), 0x7ffffff0);
        for (int query = 0; query < s.n_q; ++query) {
            widths.push_back(s.width(query));
            sequence_of.push_back(query % s.sequences);
            std::vector<int> all(static_cast<std::size_t>(s.cells));
            std::iota(all.begin(), all.end(), 0);
            if (s.select) std::shuffle(all.begin(), all.end(), random);
            std::sort(all.begin(), all.begin() + std::min(s.width(query), s.cells));
            for (int i = 0; i < s.width(query) && i < s.cells; ++i)
                ids[std::size_t(query * id_stride + i)] = all[std::size_t(i)];
        }
    }

    // The pool row of a cell, or -1 where it is masked.
    std::int64_t row_of(int sequence, int kv_head, int cell) const {
        if (sequence < 0 || sequence >= shape.sequences || cell < 0 || cell >= kv.cells()) return -1;
        const std::int64_t page_of_sequence = cell / kv.page_size, slot = cell % kv.page_size;
        const std::int64_t page =
            shape.contiguous ? sequence : page_table[std::size_t(sequence * kv.table_length + page_of_sequence)];
        if (page < 0 || page >= kv.pages) return -1;
        return page * kv.page_rows + kv_head * kv.head_rows + slot * kv.slot_rows;
    }
    // The rows of a query's selection.
    std::vector<std::int64_t> rows_of(int query, int kv_head) const {
        std::vector<std::int64_t> rows;
        for (int i = 0; i < std::clamp(widths[std::size_t(query)], 0, shape.max_width()); ++i)
            rows.push_back(row_of(
                sequence_of[std::size_t(query)], kv_head, shape.select ? ids[std::size_t(query * id_stride + i)] : i));
        return rows;
    }
    std::vector<float> key(std::int64_t row) const { return unpack(key_format(shape.format), k_pool, k_scale, row); }
    std::vector<float> value(std::int64_t row) const {
        return unpack(value_format(shape.format), v_pool, v_scale, row);
    }
    void store(std::int64_t row, const float* k, const float* v) {
        pack(key_format(shape.format), k, k_pool, k_scale, row);
        pack(value_format(shape.format), v, v_pool, v_scale, row);
    }
    float scale() const { return shape.scale != 0 ? shape.scale : float(1 / std::sqrt(double(shape.head_dim))); }

private:
    void pack(RowFormat format, const float* x, std::vector<std::uint8_t>& pool, std::vector<float16>& scales,
        std::int64_t row) const {
        const int D = shape.head_dim;
        pack_row(format, x, D, &pool[std::size_t(row * row_bytes(format, D))],
            format == RowFormat::int8 ? &scales[std::size_t(row * (D / 64))] : nullptr);
    }
    std::vector<float> unpack(RowFormat format, const std::vector<std::uint8_t>& pool,
        const std::vector<float16>& scales, std::int64_t row) const {
        const int D = shape.head_dim;
        std::vector<float> x(static_cast<std::size_t>(D));
        unpack_row(format, &pool[std::size_t(row * row_bytes(format, D))],
            format == RowFormat::int8 ? &scales[std::size_t(row * (D / 64))] : nullptr, D, x.data());
        return x;
    }
};

// ---- on the device ----

struct ChunkResult {
    std::vector<float> o, lse;
    bool guards_intact = true;
};

// The inputs in device memory, each between guards.
class ChunkDevice {
public:
    explicit ChunkDevice(const ChunkCase& c)
        : case_(c), q_(c.q), ids_(c.ids), widths_(c.widths), sequence_of_(c.sequence_of), table_(c.page_table),
          k_(c.k_pool), v_(c.v_pool), k_scale_(c.k_scale), v_scale_(c.v_scale), o_(c.q.size()),
          lse_(std::size_t(c.shape.n_q * c.shape.heads_q())),
          workspace_(std::size_t(
              chunk_workspace_floats(c.shape.n_q, c.shape.heads_q(), c.shape.head_dim, c.shape.max_width()))) {}

    ChunkAttentionArgs args() const {
        const ChunkShape& s = case_.shape;
        ChunkAttentionArgs args;
        args.q = make_contiguous<const float>(q_.data(), s.n_q, s.heads_q(), s.head_dim);
        args.o = make_contiguous(o_.data(), s.n_q, s.heads_q(), s.head_dim);
        args.lse = make_contiguous(lse_.data(), s.n_q, s.heads_q());
        args.kv = case_.kv;
        args.kv.k = k_.data(), args.kv.v = v_.data();
        args.kv.k_scale = k_scale_.data(), args.kv.v_scale = v_scale_.data();
        if (!s.contiguous) args.kv.page_table = table_.data();
        if (s.select) args.ids = make_contiguous<const std::int32_t>(ids_.data(), s.n_q, case_.id_stride);
        args.widths = widths_.data();
        args.sequence_of = s.sequences > 1 ? sequence_of_.data() : nullptr;
        args.max_width = s.max_width();
        if (s.scale != 0) args.scale = s.scale;
        args.workspace = workspace_.data(), args.workspace_floats = std::int64_t(workspace_.count());
        return args;
    }
    ChunkResult run(const std::function<void(const ChunkAttentionArgs&)>& kernel) const {
        check_hip(hipMemset(o_.data(), 0xff, o_.count() * 4), "hipMemset");
        check_hip(hipMemset(lse_.data(), 0xff, lse_.count() * 4), "hipMemset");
        kernel(args());
        check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
        return {o_.host(), lse_.host(), o_.guards_intact() && lse_.guards_intact() && workspace_.guards_intact()};
    }
    DeviceArray<int>& widths() { return widths_; }
    DeviceArray<int>& ids() { return ids_; }
    DeviceArray<float>& o() { return o_; }
    std::vector<std::uint8_t> k_pool() const { return k_.host(); }
    std::vector<std::uint8_t> v_pool() const { return v_.host(); }
    std::vector<float16> k_scale() const { return k_scale_.host(); }
    std::vector<float16> v_scale() const { return v_scale_.host(); }
    const DeviceArray<int>& sequence_of() const { return sequence_of_; }

private:
    const ChunkCase& case_;
    DeviceArray<float> q_;
    DeviceArray<int> ids_, widths_, sequence_of_, table_;
    DeviceArray<std::uint8_t> k_, v_;
    DeviceArray<float16> k_scale_, v_scale_;
    DeviceArray<float> o_, lse_, workspace_;
};

// ---- the canonical order on the host ----

// docs/kernels/chunk.md states it; every step below is one fp32 operation.
inline std::vector<float> chunk_reference(const ChunkCase& c) {
    const ChunkShape& s = c.shape;
    const int D = s.head_dim, E = D / 32, chunks = int(chunk_count(s.max_width()));
    constexpr float masked = -std::numeric_limits<float>::max();
    constexpr float log2e = 1.44269504088896340736f;
    const std::size_t heads = std::size_t(s.n_q * s.heads_q());
    // [head of all queries, chunk, cell] and [.., chunk]
    std::vector<float> score(heads * std::size_t(chunks) * 64, masked), m(heads * std::size_t(chunks), masked);
    for (int query = 0; query < s.n_q; ++query)
        for (int kv_head = 0; kv_head < s.kv_heads; ++kv_head) {
            const auto rows = c.rows_of(query, kv_head);
            for (std::size_t cell = 0; cell < rows.size(); ++cell) {
                if (rows[cell] < 0) continue;
                const auto k = c.key(rows[cell]);
                for (int g = 0; g < s.group; ++g) {
                    const std::size_t head = std::size_t(query * s.heads_q() + kv_head * s.group + g);
                    float lane[32], other[32];
                    for (int l = 0; l < 32; ++l) {
                        const float *x = &k[std::size_t(E * l)], *y = &c.q[head * std::size_t(D) + std::size_t(E * l)];
                        float sum = x[1] * y[1];
                        sum = std::fma(x[0], y[0], sum);
                        for (int e = 2; e < E; ++e) sum = std::fma(x[e], y[e], sum);
                        lane[l] = sum;
                    }
                    for (int mask = 16; mask > 0; mask /= 2) {
                        for (int l = 0; l < 32; ++l) other[l] = lane[l] + lane[l ^ mask];
                        std::copy(other, other + 32, lane);
                    }
                    score[head * std::size_t(chunks) * 64 + cell] = lane[0] * c.scale();
                }
            }
        }
    // Softmax of each chunk.
    std::vector<float> exponent(score.size(), 0.f);
    for (std::size_t i = 0; i < m.size(); ++i) {
        for (std::size_t cell = 0; cell < 64; ++cell) m[i] = std::fmax(m[i], score[i * 64 + cell]);
        for (std::size_t cell = 0; cell < 64; ++cell)
            if (score[i * 64 + cell] != masked) exponent[i * 64 + cell] = (score[i * 64 + cell] - m[i]) * log2e;
    }
    auto p = device_exp2(exponent);
    for (std::size_t i = 0; i < p.size(); ++i)
        if (score[i] == masked) p[i] = 0;
    std::vector<float> l(m.size()), weight_exponent(m.size(), 0.f);
    for (std::size_t i = 0; i < m.size(); ++i) {
        float lane[32], other[32];
        for (int n = 0; n < 32; ++n) lane[n] = p[i * 64 + std::size_t(n)] + p[i * 64 + std::size_t(n) + 32];
        for (int mask = 16; mask > 0; mask /= 2) {
            for (int n = 0; n < 32; ++n) other[n] = lane[n] + lane[n ^ mask];
            std::copy(other, other + 32, lane);
        }
        l[i] = lane[0];
    }
    std::vector<float> largest(heads, masked);
    for (std::size_t i = 0; i < m.size(); ++i) {
        float& head = largest[i / std::size_t(chunks)];
        head = std::fmax(head, m[i]);
    }
    for (std::size_t i = 0; i < m.size(); ++i)
        if (l[i] != 0) weight_exponent[i] = (m[i] - largest[i / std::size_t(chunks)]) * log2e;
    const auto weight = device_exp2(weight_exponent);

    std::vector<float> o(heads * std::size_t(D), 0.f);
    for (int query = 0; query < s.n_q; ++query)
        for (int kv_head = 0; kv_head < s.kv_heads; ++kv_head) {
            const auto rows = c.rows_of(query, kv_head);
            std::vector<std::vector<float>> values;
            for (auto row : rows) values.push_back(row < 0 ? std::vector<float>() : c.value(row));
            for (int g = 0; g < s.group; ++g) {
                const std::size_t head = std::size_t(query * s.heads_q() + kv_head * s.group + g);
                float sum = 0;
                std::vector<float> total(std::size_t(D), 0.f);
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    const std::size_t place = head * std::size_t(chunks) + std::size_t(chunk);
                    if (l[place] == 0) continue;
                    std::vector<float> acc(std::size_t(D), 0.f);
                    for (std::size_t cell = 0; cell < 64; ++cell) {
                        const std::size_t index = std::size_t(chunk) * 64 + cell;
                        if (index >= rows.size() || rows[index] < 0) continue;
                        for (int d = 0; d < D; ++d)
                            acc[std::size_t(d)] =
                                std::fma(p[place * 64 + cell], values[index][std::size_t(d)], acc[std::size_t(d)]);
                    }
                    sum = std::fma(l[place], weight[place], sum);
                    for (int d = 0; d < D; ++d)
                        total[std::size_t(d)] = std::fma(acc[std::size_t(d)], weight[place], total[std::size_t(d)]);
                }
                for (int d = 0; d < D; ++d)
                    o[head * std::size_t(D) + std::size_t(d)] = sum == 0 ? 0.f : total[std::size_t(d)] / sum;
            }
        }
    return o;
}

// Elements whose bits differ; NaN equals NaN.
inline std::size_t different_bits(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return std::max(a.size(), b.size());
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        count += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) &&
                 !(std::isnan(a[i]) && std::isnan(b[i]));
    return count;
}

// ---- float64 ----

struct ChunkOracle {
    std::vector<double> o, lse;
    double o_tolerance = 0, lse_tolerance = 0;
};

// Exact on the stored values, with bounds of fp32's error. A score sums D products over at most E + 5 + 1 <= 14
// roundings of relative error u = 2^-24 each, so it is off by at most 14 u scale sum |q k|. The exponent's subtraction,
// its product with log2(e) and v_exp (1 ulp) add 4 u times the range of the scores, and every weight its sums'
// roundings (64 cells and the chunks: below 200 u). A relative error e of all weights moves the output by at most 2 e
// max |v|.
inline ChunkOracle chunk_oracle(const ChunkCase& c) {
    const ChunkShape& s = c.shape;
    constexpr double inf = std::numeric_limits<double>::infinity(), u = 1.0 / (1 << 24);
    ChunkOracle result;
    double largest_value = 0, largest_score = 0;
    for (int query = 0; query < s.n_q; ++query)
        for (int head = 0; head < s.heads_q(); ++head) {
            const float* q = &c.q[std::size_t((query * s.heads_q() + head) * s.head_dim)];
            std::vector<double> scores, o(std::size_t(s.head_dim), 0.0);
            std::vector<std::int64_t> rows;
            double largest = -inf, sum = 0;
            for (auto row : c.rows_of(query, head / s.group)) {
                if (row < 0) continue;
                const auto k = c.key(row);
                double dot = 0, magnitude = 0;
                for (int d = 0; d < s.head_dim; ++d)
                    dot += double(q[d]) * k[std::size_t(d)], magnitude += std::abs(double(q[d]) * k[std::size_t(d)]);
                rows.push_back(row), scores.push_back(dot * c.scale());
                largest = std::max(largest, scores.back());
                largest_score = std::max(largest_score, magnitude * std::abs(c.scale()));
            }
            for (double& score : scores) sum += score = std::exp(score - largest);
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const auto v = c.value(rows[i]);
                for (int d = 0; d < s.head_dim; ++d) {
                    o[std::size_t(d)] += scores[i] / sum * v[std::size_t(d)];
                    largest_value = std::max(largest_value, std::abs(double(v[std::size_t(d)])));
                }
            }
            result.o.insert(result.o.end(), o.begin(), o.end());
            result.lse.push_back(rows.empty() ? -inf : largest + std::log(sum));
        }
    const double weight_error = (14 + 8) * u * largest_score + 200 * u;
    result.o_tolerance = 2 * weight_error * largest_value;
    result.lse_tolerance = 2 * weight_error;
    return result;
}

} // namespace waveattn::test
