// What surrounds the kernels: checks, the choice of the variant, packing, lane exchanges.
#include "chunk_case.h"
#include "chunk_kernels.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace waveattn;
using namespace waveattn::test;

namespace {

struct Environment { // sets or removes WAVEATTN_PRE75 for a scope
    explicit Environment(const char* value) { value ? setenv(name, value, 1) : unsetenv(name); }
    ~Environment() { unsetenv(name); }
    static constexpr const char* name = "WAVEATTN_PRE75";
};

template <int Mask, tile::Exchange How> WAVEATTN_DEVICE void exchange_all(const float* in, float* out, int& place) {
    const int lane = int(arch::lane_id());
    const float a = in[lane], b = in[lane + 32];
    out[place++ * 32 + lane] = tile::exchange_xor<Mask, How>(a);
    out[place++ * 32 + lane] = tile::reduce_pair<Mask, How, false>(a, b);
    out[place++ * 32 + lane] = tile::reduce_pair<Mask, How, true>(a, b);
}
template <class Arch> __global__ void exchange_kernel(const float* in, float* out) {
    if constexpr (arch::compiled_for<Arch>) {
        using tile::Exchange;
        int place = 0;
        exchange_all<1, Exchange::crossbar>(in, out, place), exchange_all<1, Exchange::registers>(in, out, place);
        exchange_all<2, Exchange::crossbar>(in, out, place), exchange_all<2, Exchange::registers>(in, out, place);
        exchange_all<4, Exchange::crossbar>(in, out, place), exchange_all<4, Exchange::registers>(in, out, place);
        exchange_all<8, Exchange::crossbar>(in, out, place), exchange_all<8, Exchange::registers>(in, out, place);
        exchange_all<16, Exchange::crossbar>(in, out, place), exchange_all<16, Exchange::registers>(in, out, place);
        const int lane = int(arch::lane_id());
        out[place++ * 32 + lane] = tile::max_of_32_lanes<Exchange::crossbar>(in[lane]);
        out[place++ * 32 + lane] = tile::max_of_32_lanes<Exchange::registers>(in[lane]);
        out[place++ * 32 + lane] = tile::sum_of_32_lanes<Exchange::crossbar>(in[lane]);
        out[place++ * 32 + lane] = tile::sum_of_32_lanes<Exchange::registers>(in[lane]);
        float sum = in[lane];
        arch::fma_row_share<5>(sum, in[lane], in[lane + 32]);
        out[place++ * 32 + lane] = sum;
        out[place++ * 32 + lane] = arch::row_share<11>(in[lane]);
    } else {
        arch::trap_stub();
    }
}

} // namespace

TEST_CASE("lane exchanges") {
    const auto in = make_values(Data::gaussian, 1, 1, 1, 64, 3);
    const DeviceArray<float> input(in), output(32 * 36);
    launch(
        "exchange", &exchange_kernel<arch::any_wave32>, std::int64_t(1), 32, 0, nullptr, input.data(), output.data());
    const auto out = output.host();
    const auto row = [&](int place, int lane) { return out[std::size_t(place * 32 + lane)]; };
    int place = 0;
    for (int mask = 1; mask <= 16; mask *= 2)
        for (int how = 0; how < 2; ++how, place += 3)
            for (int lane = 0; lane < 32; ++lane) {
                INFO("mask ", mask, " lane ", lane, " in registers ", how);
                const std::size_t l = std::size_t(lane), partner = std::size_t(lane ^ mask), at = lane & mask ? 32 : 0;
                CHECK(row(place, lane) == in[partner]);
                CHECK(row(place + 1, lane) == in[l + at] + in[partner + at]);
                CHECK(row(place + 2, lane) == in[l + at] + in[partner + at]);
            }
    const float largest = *std::max_element(in.begin(), in.begin() + 32);
    for (int lane = 0; lane < 32; ++lane) {
        CHECK(row(place, lane) == largest);
        CHECK(row(place + 1, lane) == largest);
        CHECK(row(place + 2, lane) == row(place + 3, lane));
        CHECK(row(place + 2, lane) == row(place + 2, 0));
        const std::size_t first = std::size_t(lane / 16 * 16), l = std::size_t(lane);
        CHECK(row(place + 4, lane) == std::fma(in[first + 5], in[l + 32], in[l]));
        CHECK(row(place + 5, lane) == in[first + 11]);
    }
}

TEST_CASE("the variant is chosen by device and environment") {
    arch::Device navi21, navi44, mi300;
    navi21.target = arch::target_from_name("gfx1031"), navi21.wave_size = 32;
    navi44.target = arch::target_from_name("gfx1200"), navi44.wave_size = 32;
    mi300.target = arch::target_from_name("gfx942"), mi300.wave_size = 64;
    using enum ChunkVariant;
    {
        const Environment environment(nullptr);
        CHECK(choose_chunk_variant(navi21) == reorganised);
        CHECK(choose_chunk_variant(navi44) == butterfly);
        CHECK(choose_chunk_variant(mi300) == butterfly);
    }
    {
        const Environment environment("0");
        CHECK(choose_chunk_variant(navi21) == butterfly);
        CHECK(choose_chunk_variant(navi44) == butterfly);
    }
    {
        const Environment environment("1");
        CHECK(choose_chunk_variant(navi21) == reorganised);
        CHECK(choose_chunk_variant(navi44) == reorganised);
        CHECK(choose_chunk_variant(mi300) == butterfly);
    }
    const Environment environment("yes");
    CHECK_THROWS_AS(choose_chunk_variant(navi21), InvalidArgument);
}

TEST_CASE("a workspace in the memory of another tensor is refused") {
    const ChunkCase problem({.head_dim = 64, .group = 4, .kv_heads = 2, .format = KvFormat::int8});
    const ChunkDevice device(problem);
    const ChunkAttentionArgs good = device.args();
    const std::int64_t floats = chunk_workspace_floats(good.q.shape[0], good.q.shape[1], 64, good.max_width);
    const std::pair<const char*, const void*> tensors[] = {{"q", good.q.data}, {"o", good.o.data},
        {"lse", good.lse.data}, {"ids", good.ids.data}, {"the pool of keys", good.kv.k},
        {"the pool of values", good.kv.v}, {"k_scale", good.kv.k_scale}, {"v_scale", good.kv.v_scale},
        {"the page table", good.kv.page_table}, {"widths", good.widths}};
    for (const auto& [name, data] : tensors) {
        INFO(name);
        REQUIRE(data);
        ChunkAttentionArgs args = good;
        // The last float that is used; what the caller has beyond it may be anything.
        args.workspace = static_cast<float*>(const_cast<void*>(data)) - (floats - 1);
        args.workspace_floats = floats + 1000;
        CHECK_THROWS_WITH_AS(check_chunk_attention(args, 64, KvFormat::int8),
            concat("chunk_attention: the workspace overlaps the memory of ", name).c_str(), InvalidArgument);
    }
    // Parts of one array: q and o as rows that alternate, the workspace behind them.
    ChunkAttentionArgs args = good;
    const std::int64_t n_q = args.q.shape[0], row = args.q.shape[1] * 64;
    DeviceArray<float> all(std::size_t(2 * n_q * row + floats));
    args.q.data = all.data(), args.o.data = all.data() + row, args.q.stride[0] = args.o.stride[0] = 2 * row;
    args.workspace = all.data() + 2 * n_q * row;
    CHECK_NOTHROW(check_chunk_attention(args, 64, KvFormat::int8));
    args.workspace -= 1;
    CHECK_THROWS_AS(check_chunk_attention(args, 64, KvFormat::int8), InvalidArgument);
}

TEST_CASE("wrong arguments are refused before a launch") {
    const ChunkShape shape{.head_dim = 64, .group = 4, .kv_heads = 2, .format = KvFormat::int8};
    const ChunkCase problem(shape);
    const ChunkDevice device(problem);
    const auto run = [&](const std::function<void(ChunkAttentionArgs&)>& change) {
        ChunkAttentionArgs args = device.args();
        change(args);
        check_chunk_attention(args, 64, KvFormat::int8);
    };
    CHECK_NOTHROW(run([](auto&) {}));
    CHECK_THROWS_AS(run([](auto& a) { a.q.shape[2] = 128; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.q.data = nullptr; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.q.stride[2] = 2; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.o.shape[1] = 4; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.kv.kv_heads = 3; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.kv.page_size = 0; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.kv.k = nullptr; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.kv.v_scale = nullptr; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.kv.k = static_cast<const char*>(a.kv.k) + 4; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.kv.page_table = nullptr; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.max_width = a.ids.shape[1] + 1; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.max_width = -1; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.workspace_floats -= 1; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.workspace = nullptr; }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.scale = std::numeric_limits<float>::infinity(); }), InvalidArgument);
    CHECK_THROWS_AS(run([](auto& a) { a.kv.pages = std::int64_t(1) << 31; }), Unsupported);
    CHECK_THROWS_AS(run([](auto& a) {
        a.kv.kv_heads = 1, a.q.shape[1] = a.o.shape[1] = 17;
        a.lse.shape[1] = 17;
    }),
        Unsupported);
}

TEST_CASE("division of cells by the page size") {
    for (std::int64_t page_size : {1, 2, 3, 4, 5, 7, 16, 100, 512, 1000, 65537, 1 << 30, 0x7fffffff}) {
        ChunkAttentionArgs args;
        args.kv.page_size = page_size, args.kv.kv_heads = 1, args.kv.table_length = 1;
        const auto p = detail::make_chunk_params(args, 64);
        std::mt19937 random(5);
        for (int i = 0; i < 20000; ++i) {
            const std::uint64_t cell = i < 100   ? std::uint64_t(i)
                                       : i < 200 ? 0x7fffffffu - std::uint64_t(i - 100)
                                       : i % 2
                                           ? random() & 0x7fffffffu
                                           : std::uint64_t(random() % 1000) * std::uint64_t(page_size) % 0x80000000u;
            const bool right = (cell * p.page_multiplier) >> p.page_shift == cell / std::uint64_t(page_size);
            if (!right) FAIL("cell ", cell, " page_size ", page_size);
        }
        CHECK(p.page_size == page_size);
    }
}

TEST_CASE("packing on the device gives the host's bytes") {
    const auto check_format = [](auto format_constant) {
        constexpr KvFormat format = format_constant;
        INFO(kv_format_name(format));
        for (Data data : {Data::gaussian, Data::structured}) {
            ChunkShape shape{.head_dim = 128, .group = 1, .kv_heads = 2, .format = format, .cells = 30};
            shape.masked_every = 3, shape.data = data, shape.sequences = 2;
            ChunkCase problem(shape);
            // Some rows of zeros, and equal magnitudes of both signs.
            auto k = make_values(data, 1, 60, 2, 128, 9), v = make_values(data, 1, 60, 2, 128, 10);
            std::fill(k.begin() + 256, k.begin() + 640, 0.f);
            for (int i = 0; i < 128; ++i) v[std::size_t(512 + i)] = i % 5 == 3 ? -2.f : i % 7 == 2 ? 2.f : 0.25f;
            std::vector<int> cells, sequences;
            for (int token = 0; token < 60; ++token) cells.push_back((token * 7) % 30), sequences.push_back(token / 30);
            cells[5] = -1, cells[6] = 1000, sequences[7] = 2; // dropped
            // The host's pools, from nothing.
            std::fill(problem.k_pool.begin(), problem.k_pool.end(), 0xff);
            std::fill(problem.v_pool.begin(), problem.v_pool.end(), 0xff);
            std::fill(problem.k_scale.begin(), problem.k_scale.end(), float16{0xffff});
            std::fill(problem.v_scale.begin(), problem.v_scale.end(), float16{0xffff});
            const ChunkDevice device(problem);
            ChunkAppendArgs args;
            const DeviceArray<float> k_device(k), v_device(v);
            const DeviceArray<int> cells_device(cells), sequences_device(sequences);
            args.k = make_contiguous<const float>(k_device.data(), 60, 2, 128);
            args.v = make_contiguous<const float>(v_device.data(), 60, 2, 128);
            args.kv = device.args().kv;
            args.cells = cells_device.data(), args.sequence_of = sequences_device.data();
            chunk_append<format>(args, 128);
            ChunkAppendArgs wrong = args;
            wrong.kv.page_size = 0;
            CHECK_THROWS_AS(chunk_append<format>(wrong, 128), InvalidArgument);
            wrong = args;
            wrong.cells = nullptr;
            CHECK_THROWS_AS(chunk_append<format>(wrong, 128), InvalidArgument);
            CHECK_THROWS_AS(chunk_append<format>(args, 64), InvalidArgument);
            for (int token = 0; token < 60; ++token)
                for (int head = 0; head < 2; ++head) {
                    const auto row = problem.row_of(sequences[std::size_t(token)], head, cells[std::size_t(token)]);
                    if (row < 0) continue;
                    const std::size_t from = std::size_t(token * 2 + head) * 128;
                    problem.store(row, &k[from], &v[from]);
                }
            CHECK(device.k_pool() == problem.k_pool);
            CHECK(device.v_pool() == problem.v_pool);
            const auto same = [](const std::vector<float16>& a, const std::vector<float16>& b) {
                return std::equal(
                    a.begin(), a.end(), b.begin(), b.end(), [](float16 x, float16 y) { return x.bits == y.bits; });
            };
            CHECK(same(device.k_scale(), problem.k_scale));
            CHECK(same(device.v_scale(), problem.v_scale));
        }
    };
    check_format(std::integral_constant<KvFormat, KvFormat::f16>{});
    check_format(std::integral_constant<KvFormat, KvFormat::int8>{});
    check_format(std::integral_constant<KvFormat, KvFormat::q4_0>{});
    check_format(std::integral_constant<KvFormat, KvFormat::int8_q4_0>{});
}
