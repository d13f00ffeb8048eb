// Which kernel runs where: executeFlashAttentionAuto for each device, refusal elsewhere, limits, graphs.
#include "support.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {
template <class T> Result run_auto(const Problem& p, const Inputs& in) {
    return run_with<T, float>(p, in, [](auto&&... arguments) { executeFlashAttentionAuto<64>(arguments...); });
}
template <class T> Result run_scalar(const Problem& p, const Inputs& in) {
    return run_with<T, float>(p, in, [](auto&&... arguments) { executeFlashAttention<64>(arguments...); });
}
std::string message_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}
} // namespace

TEST_CASE("every device gets its own kernel: WMMA on gfx12, bit for bit, the scalar one elsewhere") {
    int devices = 0, restore = 0;
    check_hip(hipGetDeviceCount(&devices), "hipGetDeviceCount");
    check_hip(hipGetDevice(&restore), "hipGetDevice");
    MESSAGE(devices, " devices");
    for (int round = 0; round < 2; ++round) // the second time nothing may be remembered of another device
        for (int device = 0; device < devices; ++device) {
            check_hip(hipSetDevice(device), "hipSetDevice");
            Problem p{make_shape(1, 2, 1, 30, 109, 64), Causal::bottom_right, Data::gaussian};
            const auto in = make_inputs<bfloat16>(p);
            const auto automatic = run_auto<bfloat16>(p, in);
            if (arch::device(device).target == arch::Target::gfx1200) {
                const auto wmma = run_wmma<bfloat16, float, 64>(p, in);
                CHECK(bit_equal(automatic.o, wmma.o));
                CHECK(bit_equal(automatic.lse, wmma.lse));
                check_wmma(p, in, automatic);
            } else {
                const auto scalar = run_scalar<bfloat16>(p, in);
                CHECK(bit_equal(automatic.o, scalar.o));
                const auto text = message_of([&] { run_wmma<bfloat16, float, 64>(p, in); });
                INFO(text);
                CHECK(text.find(arch::device(device).gcn_arch) != std::string::npos);
                CHECK(text.find("gfx1200") != std::string::npos);
                CHECK_THROWS_AS((run_wmma<bfloat16, float, 64>(p, in)), UnsupportedDevice);
            }
        }
    check_hip(hipSetDevice(restore), "hipSetDevice");
}

TEST_CASE("views of one 16-bit type take the matrix kernel of the device, bit for bit") {
    const Problem p{make_shape(1, 2, 1, 30, 109, 64), Causal::bottom_right, Data::gaussian};
    const auto in = make_inputs<bfloat16>(p);
    using View = TensorView<const bfloat16, 4>;
    const auto automatic = run_with<bfloat16, bfloat16>(
        p, in, [](View q, View k, View v, const TensorView<bfloat16, 4>& o, const AttentionOptions& options) {
            executeFlashAttentionAuto<64>(q, k, v, o, options);
        });
    const auto wanted = run_with<bfloat16, bfloat16>(
        p, in, [](View q, View k, View v, const TensorView<bfloat16, 4>& o, const AttentionOptions& options) {
            const arch::Target target = arch::current_device().target;
            if (target == arch::Target::gfx1200) return executeFlashAttentionWmma<64>(q, k, v, o, options);
            if (target == arch::Target::gfx1030) return executeFlashAttention<64>(q, k, v, o, options);
            DualwaveOptions dualwave;
            static_cast<AttentionOptions&>(dualwave) = options;
            executeFlashAttentionDualwave<64, bfloat16>(q, k, v, o, dualwave);
        });
    CHECK(bit_equal(automatic.o, wanted.o));
    CHECK(bit_equal(automatic.lse, wanted.lse));
}

TEST_CASE("arguments are checked before a launch") {
    Problem p{make_shape(1, 2, 1, 8, 8, 65), Causal::none};
    const auto in = make_inputs<bfloat16>(p);
    CHECK_THROWS_AS((run_wmma<bfloat16, float, 64>(p, in)), Unsupported);
    p.shape.head_dim = 64, p.shape.head_dim_v = 64;
    p.scale = std::numeric_limits<float>::infinity();
    CHECK_THROWS_AS((run_wmma<bfloat16, float, 64>(p, in)), InvalidArgument);
}

TEST_CASE("a call is captured in a graph and replayed") {
    if (arch::current_device().target != arch::Target::gfx1200) {
        MESSAGE("skipped: device 0 is not gfx12");
        return;
    }
    Problem p{make_shape(1, 2, 1, 30, 45, 64), Causal::none};
    const auto in = make_inputs<bfloat16>(p);
    const auto direct = run_wmma<bfloat16, float, 64>(p, in);
    const auto replayed =
        run_with<bfloat16, float>(p, in, [](auto q, auto k, auto v, auto o, AttentionOptions options) {
            hipGraph_t graph;
            hipGraphExec_t exec;
            check_hip(hipStreamCreate(&options.stream), "hipStreamCreate");
            check_hip(hipStreamBeginCapture(options.stream, hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
            executeFlashAttentionWmma<64>(q, k, v, o, options);
            check_hip(hipStreamEndCapture(options.stream, &graph), "hipStreamEndCapture");
            check_hip(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0), "hipGraphInstantiate");
            for (int i = 0; i < 2; ++i) check_hip(hipGraphLaunch(exec, options.stream), "hipGraphLaunch");
            check_hip(hipStreamSynchronize(options.stream), "hipStreamSynchronize");
            check_hip(hipGraphExecDestroy(exec), "hipGraphExecDestroy");
            check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
            check_hip(hipStreamDestroy(options.stream), "hipStreamDestroy");
        });
    CHECK(bit_equal(direct.o, replayed.o));
}
