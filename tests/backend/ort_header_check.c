/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled only where ONNX Runtime's own header was found at configure time: every slot, number and
 * struct of src/backend/ort/ort_abi.h against it. Nothing here runs. */
#include <onnxruntime_c_api.h>

#include "backend/ort/ort_abi.h"

#define WF_X(index, since, official, name, result, params)                        \
  _Static_assert(offsetof(OrtApi, official) == (index) * sizeof(void (*)(void)),  \
                 #official " is another slot");                                   \
  _Static_assert(sizeof(((OrtApi *)0)->official) == sizeof(((ort_api *)0)->name), \
                 #official " is no function");
WF_ORT_SLOTS(WF_X)
#undef WF_X

#define SAME(ours, theirs) \
  _Static_assert((int)(ours) == (int)(theirs), #theirs " is another number")
SAME(ORT_LOG_INFO, ORT_LOGGING_LEVEL_INFO);
SAME(ORT_LOG_WARNING, ORT_LOGGING_LEVEL_WARNING);
SAME(ORT_LOG_ERROR, ORT_LOGGING_LEVEL_ERROR);
SAME(ORT_ALLOCATOR_DEVICE, OrtDeviceAllocator);
SAME(ORT_ALLOCATOR_ARENA, OrtArenaAllocator);
SAME(ORT_MEMORY_DEFAULT, OrtMemTypeDefault);
SAME(ORT_EXECUTION_SEQUENTIAL, ORT_SEQUENTIAL);
SAME(ORT_OPTIMIZE_ALL, ORT_ENABLE_ALL);
SAME(ORT_TYPE_TENSOR, ONNX_TYPE_TENSOR);
SAME(ORT_ERROR_FAIL, ORT_FAIL);
SAME(ORT_ERROR_INVALID_ARGUMENT, ORT_INVALID_ARGUMENT);
SAME(ORT_ERROR_NO_FILE, ORT_NO_SUCHFILE);
SAME(ORT_ERROR_NO_MODEL, ORT_NO_MODEL);
SAME(ORT_ERROR_ENGINE, ORT_ENGINE_ERROR);
SAME(ORT_ERROR_EXCEPTION, ORT_RUNTIME_EXCEPTION);
SAME(ORT_ERROR_PROTOBUF, ORT_INVALID_PROTOBUF);
SAME(ORT_ERROR_NOT_IMPLEMENTED, ORT_NOT_IMPLEMENTED);
SAME(ORT_ERROR_GRAPH, ORT_INVALID_GRAPH);
SAME(ORT_ERROR_PROVIDER, ORT_EP_FAIL);
#if ORT_API_VERSION >= 22
SAME(ORT_HARDWARE_CPU, OrtHardwareDeviceType_CPU);
SAME(ORT_HARDWARE_GPU, OrtHardwareDeviceType_GPU);
SAME(ORT_HARDWARE_NPU, OrtHardwareDeviceType_NPU);
#endif

_Static_assert(offsetof(OrtApiBase, GetApi) == offsetof(ort_api_base, get_api), "OrtApiBase");
_Static_assert(offsetof(OrtApiBase, GetVersionString) == offsetof(ort_api_base, version),
               "OrtApiBase");
_Static_assert(sizeof(OrtApiBase) == sizeof(ort_api_base), "OrtApiBase");
