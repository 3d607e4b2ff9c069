/// Why a device declines a node, in words.
///
/// `supports_op` of the plug-in tables only says no. A registration may offer more by
/// ggml_backend_reg_get_proc_address() under the name HEDDLE_DEVICE_OBJECTION: people then read the
/// reason where no device can run a node. Backends made of the classes in `heddle/backend.hpp`
/// offer it already.
#pragma once

#include "../../ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_DEVICE_OBJECTION "heddle_device_objection"

/// What `device`, of the registration that gave the function, has against computing `node`; "" if
/// it can. Never NULL; valid until the thread calls it again. Any thread may call it.
typedef const char* (*heddle_device_objection_t)(ggml_backend_dev_t device,
                                                 const struct ggml_tensor* node);

#ifdef __cplusplus
}
#endif
