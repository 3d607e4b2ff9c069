/// Why a device declines a node, in words; and whether a node is sound at all.
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

/// What is wrong with `node` as it is now; "" if its op could have built it.
///
/// Programs may write to every field of a node after it was built. This looks at op, parameters,
/// operands, types, extents and strides, never at data or buffers, and takes a few nanoseconds
/// where there is nothing to say. Never NULL; valid until the thread calls it again.
GGML_API const char* heddle_node_fault(const struct ggml_tensor* node);

#ifdef __cplusplus
}
#endif
