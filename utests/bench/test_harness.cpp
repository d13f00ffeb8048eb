// bench/harness.h: arguments, inputs, FLOP, device buffers.
#include <doctest/doctest.h>

#include "harness.h"

using namespace waveattn;

namespace {
bench::Options parse(std::vector<std::string> arguments, bench::Options defaults = {}) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    return bench::parse(int(pointers.size()), pointers.data(), std::move(defaults));
}
} // namespace

TEST_CASE("options are read, and what is no option is refused") {
    const auto options = parse({"--bh", "6", "--bh-kv", "2", "--sq", "5", "--sk", "9", "--dim", "64", "--causal",
        "bottom_right", "--dtype", "f16", "--data", "sinks", "--iters", "7", "--warmup", "0", "--seed", "3"});
    CHECK(options.bh == 6);
    CHECK(options.planes_kv() == 2);
    CHECK(options.sq == 5);
    CHECK(options.sk == 9);
    CHECK(options.dim == 64);
    CHECK(options.is_causal());
    CHECK(options.dtype == "f16");
    CHECK(options.iters == 7);
    CHECK(options.warmup == 0);
    CHECK(options.seed == 3);
    CHECK(parse({}).planes_kv() == parse({}).bh);

    bench::Options own;
    own.extra = {{"page", "16"}, {"mode", "int8"}};
    CHECK(parse({"--page", "4"}, own).number("page") == 4);
    CHECK(parse({}, own).text("mode") == "int8");
    CHECK_THROWS_AS(parse({"--mode", "f16"}, own).number("mode"), InvalidArgument);
    CHECK_THROWS_AS(parse({}, own).text("other"), InvalidArgument);
    const std::vector<std::vector<std::string>> wrong = {{"--page", "4"}, {"--sq"}, {"--sq", "0"}, {"--sq", "4x"},
        {"--sq", ""}, {"sq", "4"}, {"-", "4"}, {"--causal", "true"}};
    for (const auto& arguments : wrong) CHECK_THROWS_AS(parse(arguments), InvalidArgument);
}

TEST_CASE("FLOP counts visible scores only") {
    auto flop = [](std::string causal, std::string sq, std::string sk) {
        return parse({"--bh", "2", "--dim", "32", "--causal", causal, "--sq", sq, "--sk", sk}).attention_flop() /
               (4.0 * 2 * 32);
    };
    CHECK(flop("none", "3", "5") == 15);
    CHECK(flop("top_left", "3", "5") == 1 + 2 + 3);
    CHECK(flop("bottom_right", "3", "5") == 3 + 4 + 5);
    CHECK(flop("top_left", "5", "3") == 1 + 2 + 3 + 3 + 3);
    CHECK(flop("bottom_right", "5", "3") == 0 + 0 + 1 + 2 + 3);
}

TEST_CASE("inputs") {
    const auto uniform = bench::make_values("uniform", 2, 50, 16, 1);
    CHECK(uniform.size() == 2 * 50 * 16);
    for (float value : uniform) REQUIRE(std::abs(value) <= 1.f);
    CHECK(uniform == bench::make_values("uniform", 2, 50, 16, 1));
    CHECK(uniform != bench::make_values("uniform", 2, 50, 16, 2));
    auto norm = [](const std::vector<float>& values, std::int64_t token) {
        double sum = 0;
        for (int d = 0; d < 64; ++d) sum += std::pow(double(values[std::size_t(token * 64 + d)]), 2);
        return std::sqrt(sum);
    };
    const auto sinks = bench::make_values("sinks", 1, 100, 64, 1);
    // Norms of 64 normal values scatter by less than a tenth around their mean; the sinks' are four times that.
    for (std::int64_t token = 4; token < 100; ++token) REQUIRE(norm(sinks, 0) > 2 * norm(sinks, token));
    CHECK_THROWS_AS(bench::make_values("ones", 1, 1, 1, 1), InvalidArgument);
}

TEST_CASE("device buffers hold what they are given") {
    auto options = parse({"--seed", "5"});
    auto tensor = options.tensor<bfloat16>(3, 7, 16, 2);
    CHECK(tensor.count() == 3 * 7 * 16);
    std::vector<bfloat16> back(std::size_t(tensor.count()));
    check_hip(hipMemcpy(back.data(), tensor.data(), back.size() * 2, hipMemcpyDeviceToHost), "hipMemcpy");
    const auto values = bench::make_values(options.data, 3, 7, 16, 5 * 16 + 2);
    for (std::size_t i = 0; i < back.size(); ++i) REQUIRE(back[i].bits == from_float<bfloat16>(values[i]).bits);
    bench::DeviceBuffer<bfloat16> moved = std::move(tensor);
    CHECK(moved.data() != nullptr);
}

TEST_CASE("the emulator launches once, and nothing is timed") {
    auto options = parse({"--iters", "5"});
    int launches = 0;
    bench::run("nothing", options, 1, [&](hipStream_t) { ++launches; });
    CHECK(launches == (bench::emulated() ? 1 : options.iters + options.warmup));
}
