#include "chunk_check.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {

void check_shipped(const ChunkShape& shape) {
    check_chunk(shape, shipped_policies(shape.head_dim, shape.format, shape.group));
}

} // namespace

TEST_CASE("every format and head_dim") {
    // group sizes below the padded one of their kernel, too
    const ChunkShape shapes[] = {
        {.head_dim = 256, .group = 12, .kv_heads = 1, .format = KvFormat::f16, .page_size = 1, .cells = 90},
        {.head_dim = 256, .group = 9, .kv_heads = 2, .n_q = 2, .format = KvFormat::int8, .page_size = 16, .cells = 90},
        {.head_dim = 256, .group = 16, .kv_heads = 1, .format = KvFormat::q4_0, .page_size = 4, .cells = 90},
        {.head_dim = 256, .group = 2, .kv_heads = 1, .format = KvFormat::int8_q4_0, .page_size = 5, .cells = 90},
        {.head_dim = 128, .group = 3, .kv_heads = 2, .format = KvFormat::f16, .page_size = 512, .cells = 600},
        {.head_dim = 128, .group = 7, .kv_heads = 1, .format = KvFormat::int8, .page_size = 7, .cells = 90},
        {.head_dim = 128, .group = 12, .kv_heads = 1, .format = KvFormat::q4_0, .page_size = 512, .cells = 600},
        {.head_dim = 128, .group = 1, .kv_heads = 3, .format = KvFormat::int8_q4_0, .page_size = 4, .cells = 90},
        {.head_dim = 64, .group = 1, .kv_heads = 3, .n_q = 2, .format = KvFormat::f16, .page_size = 1, .cells = 90},
        {.head_dim = 64, .group = 13, .kv_heads = 1, .format = KvFormat::int8, .page_size = 4, .cells = 90},
        {.head_dim = 64, .group = 5, .kv_heads = 2, .format = KvFormat::q4_0, .page_size = 512, .cells = 600},
        {.head_dim = 64, .group = 4, .kv_heads = 1, .format = KvFormat::int8_q4_0, .page_size = 8, .cells = 90},
        {.head_dim = 64, .group = 10, .kv_heads = 1, .format = KvFormat::f16, .page_size = 16, .cells = 90},
    };
    for (ChunkShape shape : shapes)
        for (unsigned seed = 1; seed <= (full() ? 3u : 1u); ++seed) {
            shape.seed = seed;
            if (full()) shape.masked_every = seed == 2 ? 4 : 0;
            check_shipped(shape);
        }
}

TEST_CASE("every group of 1 to 16") {
    for (int group = 1; group <= 16; ++group) {
        ChunkShape shape{.head_dim = 64, .group = group, .kv_heads = 1, .format = KvFormat::int8, .cells = 40};
        shape.widths = {37};
        INFO(group);
        // The kernel for 16 heads runs them all, padded.
        check_chunk(shape, shipped_policies(64, KvFormat::int8, 16));
    }
}

TEST_CASE("widths from nothing to many chunks, on the device") {
    ChunkShape shape{.head_dim = 64, .group = 4, .kv_heads = 1, .format = KvFormat::int8_q4_0, .page_size = 4};
    SUBCASE("around a chunk") { shape.n_q = 8, shape.cells = 140, shape.widths = {0, 1, 63, 64, 65, 16, 128, 129}; }
    SUBCASE("2051") { shape.n_q = 2, shape.cells = 2100, shape.widths = {2051, 300}; }
    SUBCASE("none at all") { shape.n_q = 2, shape.widths = {0, 0}; }
    check_shipped(shape);
}

TEST_CASE("masked pages") {
    ChunkShape shape{.head_dim = 128, .group = 8, .kv_heads = 2, .n_q = 3, .page_size = 16, .cells = 260};
    shape.widths = {250, 64, 20};
    SUBCASE("some") { shape.masked_every = 2; }
    SUBCASE("all: the output is 0") { shape.masked_every = 1; }
    SUBCASE("whole chunks and parts of 16 cells") {
        shape.select = false, shape.page_size = 50, shape.masked_every = 2;
    }
    check_shipped(shape);
}

TEST_CASE("sequences of their own, paged and contiguous") {
    ChunkShape shape{.head_dim = 64, .group = 8, .kv_heads = 2, .n_q = 3, .format = KvFormat::q4_0, .cells = 80};
    shape.sequences = 2;
    SUBCASE("paged") {}
    SUBCASE("contiguous (sequence, head, token)") { shape.contiguous = true, shape.select = false; }
    SUBCASE("contiguous (sequence, token, head)") { shape.contiguous = true, shape.token_major = true; }
    check_shipped(shape);
}

TEST_CASE("inputs that are hard to sum") {
    ChunkShape shape{.head_dim = 128, .group = 4, .kv_heads = 1, .format = KvFormat::f16, .page_size = 8, .cells = 150};
    shape.widths = {140};
    for (Data data : all_data) {
        shape.data = data;
        SUBCASE("scale by default") {}
        SUBCASE("negative scale") { shape.scale = -0.37f; }
        check_shipped(shape);
    }
}

TEST_CASE("a NaN of q reaches its own head only") {
    ChunkShape shape{.head_dim = 64, .group = 4, .kv_heads = 1, .format = KvFormat::int8_q4_0};
    ChunkCase problem(shape);
    problem.q[64 * 2 + 5] = std::numeric_limits<float>::quiet_NaN();
    const auto reference = chunk_reference(problem);
    const ChunkDevice device(problem);
    for (const auto& policy : shipped_policies(64, shape.format, 4)) {
        INFO(policy.name);
        const auto result = device.run(policy.run);
        for (int head = 0; head < 4; ++head)
            for (int d = 0; d < 64; ++d) CHECK(std::isnan(result.o[std::size_t(head * 64 + d)]) == (head == 2));
        CHECK(different_bits(result.o, reference) == 0);
    }
}

TEST_CASE("ids and table entries outside of the cache are masked, never read") {
    ChunkShape shape{.head_dim = 64, .group = 8, .kv_heads = 1, .n_q = 2, .format = KvFormat::int8, .cells = 200};
    shape.widths = {130, 66};
    ChunkCase problem(shape);
    const int wrong_ids[] = {-1, std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), 200, 204};
    for (std::size_t i = 0; i < std::size(wrong_ids); ++i) problem.ids[i * 17] = wrong_ids[i];
    problem.page_table[3] = int(problem.kv.pages), problem.page_table[7] = -2;
    problem.page_table[11] = std::numeric_limits<int>::max();
    const ChunkDevice device(problem);
    const auto reference = chunk_reference(problem);
    for (const auto& policy : shipped_policies(64, shape.format, 16)) {
        INFO(policy.name);
        CHECK(different_bits(device.run(policy.run).o, reference) == 0);
    }
    SUBCASE("a sequence that does not exist has no cells") {
        problem.sequence_of = {1, -1};
        const ChunkDevice other(problem);
        for (const auto& policy : shipped_policies(64, shape.format, 16)) {
            const auto result = other.run([&](ChunkAttentionArgs args) {
                args.sequence_of = other.sequence_of().data();
                policy.run(args);
            });
            CHECK(std::all_of(result.o.begin(), result.o.end(), [](float x) { return x == 0; }));
            CHECK(std::all_of(result.lse.begin(), result.lse.end(), [](float x) { return x == -INFINITY; }));
        }
    }
}

TEST_CASE("a captured graph replays with new widths and ids") {
    ChunkShape shape{.head_dim = 64, .group = 4, .kv_heads = 1, .format = KvFormat::int8_q4_0, .cells = 200};
    shape.widths = {150};
    ChunkCase problem(shape);
    ChunkDevice device(problem);
    const auto policy = shipped_policies(64, shape.format, 4).back();
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;
    check_hip(hipStreamCreate(&stream), "hipStreamCreate");
    ChunkAttentionArgs args = device.args();
    args.stream = stream;
    check_hip(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
    policy.run(args);
    check_hip(hipStreamEndCapture(stream, &graph), "hipStreamEndCapture");
    check_hip(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0), "hipGraphInstantiate");
    for (int width : {150, 3, 0, 65}) {
        INFO(width);
        problem.widths[0] = width;
        if (width) std::rotate(problem.ids.begin(), problem.ids.begin() + 1, problem.ids.begin() + width);
        check_hip(hipMemcpy(device.widths().data(), &width, 4, hipMemcpyHostToDevice), "hipMemcpy");
        check_hip(hipMemcpy(device.ids().data(), problem.ids.data(), problem.ids.size() * 4, hipMemcpyHostToDevice),
            "hipMemcpy");
        check_hip(hipGraphLaunch(exec, stream), "hipGraphLaunch");
        check_hip(hipStreamSynchronize(stream), "hipStreamSynchronize");
        CHECK(different_bits(device.o().host(), chunk_reference(problem)) == 0);
    }
    check_hip(hipGraphExecDestroy(exec), "hipGraphExecDestroy");
    check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
    check_hip(hipStreamDestroy(stream), "hipStreamDestroy");
}

TEST_CASE("widths beyond max_width are cut, negative ones are 0") {
    ChunkShape shape{.head_dim = 64, .group = 4, .kv_heads = 1, .n_q = 2, .format = KvFormat::int8_q4_0};
    shape.widths = {66, 30};
    ChunkCase problem(shape);
    problem.widths = {1000000, -5};
    const ChunkDevice device(problem);
    for (const auto& policy : shipped_policies(64, shape.format, 4))
        CHECK(different_bits(device.run(policy.run).o, chunk_reference(problem)) == 0);
}
