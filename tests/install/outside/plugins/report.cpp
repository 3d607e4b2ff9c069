// Loads all plug-ins, and the simulated device; prints one line for each file that was looked at.
#include <ggml-backend.h>
#include <heddle/plugins.h>

#include <cstdio>

int main() {
    ggml_backend_load_all();
    std::printf("sim: %s\n", ggml_backend_dev_by_name("sim") != nullptr ? "there" : "missing");
    heddle_plugin_info info;
    for (size_t i = 0; heddle_plugin_get(i, &info, sizeof info); ++i) {
        if (*info.path == '\0') continue;
        std::printf("%s %s: %s\n", heddle_plugin_status_name(info.status), info.path, info.reason);
    }
}
