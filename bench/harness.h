// What the benchmark programs (bench_*.hip) share: arguments, inputs, device buffers, timing.
//
// A program parses its arguments, makes inputs, and hands its launch to `run`:
//
//     int main(int argc, char** argv) {
//         return waveattn::bench::main(argc, argv, [](const waveattn::bench::Options& options) {
//             auto q = options.tensor<waveattn::bfloat16>(options.bh, options.sq, options.dim, 1);
//             ...
//             waveattn::bench::run("flash attention", options, options.attention_flop(),
//                 [&](hipStream_t stream) { waveattn::executeFlashAttention<64>(q.data(), ...); });
//         });
//     }
//
// On a GPU `run` prints the median time of the launches, taken with HIP events. On the emulator it launches once and
// claims no time: what the emulator says of that launch (GFXEMU_REPORT, GFXEMU_TIMING) is for bench/model to read.
#pragma once

#include "waveattn/attention/problem.h"
#include "waveattn/core/numeric.h"
#include "waveattn/core/status.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace waveattn::bench {

// ---- device memory ----

template <class T> class DeviceBuffer {
public:
    explicit DeviceBuffer(std::int64_t count) : count_(count) {
        check_hip(hipMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(1, std::size_t(count) * sizeof(T))),
            "hipMalloc");
    }
    explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(std::int64_t(values.size())) {
        check_hip(hipMemcpy(data_, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice), "hipMemcpy");
    }
    DeviceBuffer(DeviceBuffer&& other) noexcept : count_(other.count_), data_(std::exchange(other.data_, nullptr)) {}
    DeviceBuffer& operator=(DeviceBuffer&&) = delete;
    ~DeviceBuffer() { (void)hipFree(data_); }

    T* data() const { return data_; }
    std::int64_t count() const { return count_; }

private:
    std::int64_t count_;
    T* data_ = nullptr;
};

// ---- arguments and inputs ----

// Values of a (planes, tokens, dim) tensor that resemble what attention sees.
//   uniform   [-1, 1]
//   gaussian  N(0, 1)
//   sinks     N(0, 1) with an offset of its own for each channel (as keys after a projection with bias have) and first
//             tokens several times as large, which draw most of the weight: the running maximum of an online softmax
//             then settles in the first tile
inline std::vector<float> make_values(
    const std::string& data, std::int64_t planes, std::int64_t tokens, std::int64_t dim, unsigned seed) {
    std::mt19937 random(seed * 2654435761u + 1u);
    std::uniform_real_distribution<float> uniform(-1.f, 1.f);
    std::normal_distribution<float> normal;
    require(
        data == "uniform" || data == "gaussian" || data == "sinks", "--data is uniform, gaussian or sinks, not ", data);
    std::vector<float> values(std::size_t(planes * tokens * dim));
    if (data == "sinks") {
        std::vector<float> offset(static_cast<std::size_t>(dim));
        for (float& channel : offset) channel = 0.5f * normal(random);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::int64_t token = std::int64_t(i) / dim % tokens;
            values[i] = (normal(random) + offset[i % std::size_t(dim)]) * (token < 4 ? 4.f : 1.f);
        }
    } else {
        for (float& value : values) value = data == "uniform" ? uniform(random) : normal(random);
    }
    return values;
}

struct Options {
    std::int64_t bh = 1;         // batch * query heads
    std::int64_t bh_kv = 0;      // batch * key/value heads; 0: as bh
    std::int64_t sq = 256;       // queries
    std::int64_t sk = 1024;      // keys
    std::int64_t dim = 128;      // head_dim
    std::string causal = "none"; // none, top_left or bottom_right
    std::string dtype = "bf16";  // what it may be is the program's to say
    std::string data = "gaussian";
    int iters = 20;
    int warmup = 3;
    unsigned seed = 1;
    std::map<std::string, std::string> extra; // options of one program, with their defaults

    std::int64_t planes_kv() const { return bh_kv ? bh_kv : bh; }
    bool is_causal() const { return causal != "none"; }
    Causal causal_rule() const {
        return causal == "top_left" ? Causal::top_left : is_causal() ? Causal::bottom_right : Causal::none;
    }

    const std::string& text(const std::string& name) const {
        auto found = extra.find(name);
        require(found != extra.end(), "the program declares no option --", name);
        return found->second;
    }
    std::int64_t number(const std::string& name) const {
        const std::string& value = text(name);
        char* end = nullptr;
        const long long result = std::strtoll(value.c_str(), &end, 10);
        require(!value.empty() && !*end, "--", name, " takes a number, not '", value, "'");
        return result;
    }

    // A (planes, tokens, dim) tensor in device memory; tensors of different `which` differ.
    template <class T>
    DeviceBuffer<T> tensor(std::int64_t planes, std::int64_t tokens, std::int64_t head_dim, unsigned which) const {
        const std::vector<float> values = make_values(data, planes, tokens, head_dim, seed * 16 + which);
        std::vector<T> codes(values.size());
        std::transform(values.begin(), values.end(), codes.begin(), [](float value) { return from_float<T>(value); });
        return DeviceBuffer<T>(codes);
    }

    // FLOP of the two matrix products over the visible scores.
    double attention_flop() const {
        double scores = double(sq) * double(sk);
        if (is_causal()) {
            const std::int64_t offset = causal == "bottom_right" ? sk - sq : 0;
            scores = 0;
            for (std::int64_t row = 0; row < sq; ++row)
                scores += double(std::clamp<std::int64_t>(row + offset + 1, 0, sk));
        }
        return 4.0 * double(bh) * scores * double(dim);
    }
};

namespace detail {

inline std::int64_t parse_number(const std::string& name, const std::string& value, std::int64_t least) {
    char* end = nullptr;
    const long long number = std::strtoll(value.c_str(), &end, 10);
    require(!value.empty() && !*end && number >= least, name, " takes a whole number of at least ", least, ", not '",
        value, "'");
    return number;
}

inline std::string usage(const char* program, const Options& options) {
    std::string text = concat("usage: ", program, " [--bh N] [--bh-kv N] [--sq N] [--sk N] [--dim N]",
        " [--causal none|top_left|bottom_right] [--dtype T]\n    [--data uniform|gaussian|sinks] [--iters N]",
        " [--warmup N] [--seed N]");
    for (const auto& [name, value] : options.extra) text += concat(" [--", name, " ", value, "]");
    return text;
}

} // namespace detail

// Every option takes a value. Unknown ones throw InvalidArgument; --help prints the options and leaves the program.
inline Options parse(int argc, char** argv, Options options = {}) {
    const std::map<std::string, std::int64_t*> sizes = {{"--bh", &options.bh}, {"--bh-kv", &options.bh_kv},
        {"--sq", &options.sq}, {"--sk", &options.sk}, {"--dim", &options.dim}};
    const std::map<std::string, std::string*> texts = {
        {"--causal", &options.causal}, {"--dtype", &options.dtype}, {"--data", &options.data}};
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "--help") {
            std::puts(detail::usage(argv[0], options).c_str());
            std::exit(0);
        }
        require(i + 1 < argc, name, " needs a value\n", detail::usage(argv[0], options));
        const std::string value = argv[i + 1];
        if (auto size = sizes.find(name); size != sizes.end())
            *size->second = detail::parse_number(name, value, name == "--bh-kv" ? 0 : 1);
        else if (auto text = texts.find(name); text != texts.end())
            *text->second = value;
        else if (name == "--iters")
            options.iters = int(detail::parse_number(name, value, 1));
        else if (name == "--warmup")
            options.warmup = int(detail::parse_number(name, value, 0));
        else if (name == "--seed")
            options.seed = unsigned(detail::parse_number(name, value, 0));
        else if (auto own = options.extra.find(name.substr(std::min<std::size_t>(2, name.size())));
            name.rfind("--", 0) == 0 && own != options.extra.end())
            own->second = value;
        else
            require(false, "unknown option ", name, "\n", detail::usage(argv[0], options));
    }
    require(options.causal == "none" || options.causal == "top_left" || options.causal == "bottom_right",
        "--causal is none, top_left or bottom_right, not ", options.causal);
    return options;
}

// ---- running ----

// Whether device 0 is the emulator's: it says so in the UUID, which follows the name in the device properties.
inline bool emulated() {
    hipDeviceProp_t properties;
    check_hip(hipGetDeviceProperties(&properties, 0), "hipGetDeviceProperties");
    return std::memcmp(reinterpret_cast<const char*>(&properties) + sizeof properties.name, "gfxemu", 6) == 0;
}

// Launches and prints one line. `launch` enqueues the work on the stream that it is given; `flop` may be 0 where a rate
// makes no sense.
inline void run(
    const std::string& what, const Options& options, double flop, const std::function<void(hipStream_t)>& launch) {
    hipDeviceProp_t properties;
    check_hip(hipGetDeviceProperties(&properties, 0), "hipGetDeviceProperties");
    std::printf("%s, %s: bh %lld sq %lld sk %lld dim %lld causal %s dtype %s data %s: ", what.c_str(),
        properties.gcnArchName, (long long)options.bh, (long long)options.sq, (long long)options.sk,
        (long long)options.dim, options.causal.c_str(), options.dtype.c_str(), options.data.c_str());
    hipStream_t stream;
    check_hip(hipStreamCreate(&stream), "hipStreamCreate");
    if (emulated()) {
        launch(stream);
        check_hip(hipStreamSynchronize(stream), what.c_str());
        std::printf("emulated, no claim of wall time\n");
    } else {
        hipEvent_t start, stop;
        check_hip(hipEventCreate(&start), "hipEventCreate");
        check_hip(hipEventCreate(&stop), "hipEventCreate");
        for (int i = 0; i < options.warmup; ++i) launch(stream);
        std::vector<float> times;
        for (int i = 0; i < options.iters; ++i) {
            check_hip(hipEventRecord(start, stream), "hipEventRecord");
            launch(stream);
            check_hip(hipEventRecord(stop, stream), "hipEventRecord");
            check_hip(hipEventSynchronize(stop), what.c_str());
            float milliseconds = 0;
            check_hip(hipEventElapsedTime(&milliseconds, start, stop), "hipEventElapsedTime");
            times.push_back(milliseconds);
        }
        std::sort(times.begin(), times.end());
        const double median = 0.5 * (times[(times.size() - 1) / 2] + times[times.size() / 2]);
        std::printf("median of %d: %.4f ms (least %.4f)", options.iters, median, double(times.front()));
        if (flop > 0) std::printf(", %.1f TFLOP/s", flop / median * 1e-9);
        std::printf("\n");
        check_hip(hipEventDestroy(start), "hipEventDestroy");
        check_hip(hipEventDestroy(stop), "hipEventDestroy");
    }
    check_hip(hipStreamDestroy(stream), "hipStreamDestroy");
}

// The whole of a benchmark's main(): arguments, `body`, and errors as text with exit code 1.
inline int main(int argc, char** argv, const std::function<void(const Options&)>& body, Options defaults = {}) {
    try {
        body(parse(argc, argv, std::move(defaults)));
        return 0;
    } catch (const std::exception& error) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
}

} // namespace waveattn::bench
