// The device by its own function and by its name are the same; and the program is linked to one
// library.
#include <ggml-backend.h>
#include <ggml-blas.h>

int main(void) {
    ggml_backend_t stream = ggml_backend_blas_init();
    if (stream == NULL || !ggml_backend_is_blas(stream)) return 1;
    ggml_backend_blas_set_n_threads(stream, 1);
#ifdef HAS_PLUGINS
    if (ggml_backend_dev_by_name("BLAS") != ggml_backend_get_device(stream)) return 2;
#endif
    ggml_backend_free(stream);
    return 0;
}
