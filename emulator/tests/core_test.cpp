// gfxemu_core_test TARGET... [--only=PART OF A NAME]     GFXEMU_CLANG: the compiler; GFXEMU_TESTED=DIR: notes what ran
#include "core_test.h"

namespace core_test {
namespace {

std::string current_target, only;
TestDirectory* directory = nullptr;
std::set<std::string> executed;
int passed = 0, failed = 0;

} // namespace

const std::string& target() { return current_target; }
bool wave64() { return current_target == "gfx942" || current_target == "gfx950"; }
uint32_t rng() {
    static std::mt19937 generator(1);
    return (uint32_t)generator();
}

std::shared_ptr<CodeObject> build(const std::string& name, const std::string& source, const std::string& options) {
    return build_kernels(directory->path, current_target, name, source, options);
}
Counters run(CodeObject& code, const std::string& kernel, Dim3 grid, Dim3 block, const Args& args, uint32_t lds) {
    Counters c = run_kernel(code, kernel, grid, block, args, lds);
    for (auto& [name, n] : c.by_mnemonic) executed.insert(name);
    return c;
}

void test(const std::string& name, const std::function<void()>& body) {
    if (name.find(only) == std::string::npos) return;
    try {
        body();
        ++passed;
        printf("%-8s %-24s ok\n", current_target.c_str(), name.c_str());
    } catch (const std::exception& e) {
        ++failed;
        printf("%-8s %-24s FAILED: %s\n", current_target.c_str(), name.c_str(), e.what());
    }
    fflush(stdout);
}

void expect_fault(Fault::Kind kind, const std::function<void()>& body) {
    try {
        body();
    } catch (const Fault& e) {
        if (e.kind != kind) throw std::runtime_error(std::string("wrong fault: ") + e.what());
        return;
    }
    throw std::runtime_error("no fault raised");
}

static void run_all(const std::string& name) {
    current_target = name;
    executed.clear();
    arithmetic_cases();
    memory_cases();
    control_cases();
    checks_cases();
    if (only.empty()) note_tested("core", name, executed);
}

} // namespace core_test

int main(int argc, char** argv) {
    std::vector<std::string> targets;
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i];
        if (a.rfind("--only=", 0) == 0)
            core_test::only = a.substr(7);
        else
            targets.push_back(a);
    }
    if (targets.empty()) targets = {"gfx1030", "gfx1200", "gfx942", "gfx950"};
    gfxemu::TestDirectory directory;
    core_test::directory = &directory;
    for (auto& t : targets) core_test::run_all(t);
    printf("%d passed, %d failed\n", core_test::passed, core_test::failed);
    return core_test::failed != 0 || core_test::passed == 0;
}
