/* SPDX-License-Identifier: Apache-2.0 */
/* The part of ONNX Runtime's C ABI that weft calls, in weft's own words, so that no header of
 * theirs is needed to build. Private to ort/.
 *
 * The library exports one function, OrtGetApiBase. It leads to a table of functions that is only
 * ever appended to: a slot keeps its index for good. Each line below is one slot that is used: its
 * index, the library version (1.N) that brought it, its name and its type. Where the official
 * header is found at configure time (-DORT_HEADER=FILE or the system's),
 * tests/backend/ort_header_check.c compares every line, number and struct with it;
 * tests/backend/ort_abi_test.c calls each slot and judges what it does. */
#ifndef WF_ORT_ABI_H
#define WF_ORT_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Oldest version that is taken, and the newest that weft is tested with. */
enum { WF_ORT_MAJOR = 1, WF_ORT_MINOR_OLDEST = 20, WF_ORT_MINOR_TESTED = 31 };

/* Objects of the library; only their addresses are ours to hold. */
typedef struct ort_env ort_env;
typedef struct ort_status ort_status; /* NULL is success; else an error to be released */
typedef struct ort_session ort_session;
typedef struct ort_session_options ort_session_options;
typedef struct ort_run_options ort_run_options;
typedef struct ort_binding ort_binding;
typedef struct ort_value ort_value;
typedef struct ort_allocator ort_allocator;
typedef struct ort_memory_info ort_memory_info;
typedef struct ort_shape_info ort_shape_info;
typedef struct ort_arena_config ort_arena_config;
typedef struct ort_pairs ort_pairs;
typedef struct ort_ep_device ort_ep_device;
typedef struct ort_hardware ort_hardware;

typedef void ort_log_fn(void *user, int severity, const char *category, const char *id,
                        const char *location, const char *message);

/* What OrtGetApiBase returns. */
typedef struct ort_api_base {
  const void *const *(*get_api)(uint32_t version); /* NULL: the library is older than `version` */
  const char *(*version)(void);                    /* "1.31.1" */
} ort_api_base;

/* Numbers that cross the border. Element types are TensorProto's own (wf_dtype). */
enum {
  ORT_LOG_INFO = 1,
  ORT_LOG_WARNING = 2,
  ORT_LOG_ERROR = 3,
  ORT_ALLOCATOR_DEVICE = 0,
  ORT_ALLOCATOR_ARENA = 1,
  ORT_MEMORY_DEFAULT = 0,
  ORT_EXECUTION_SEQUENTIAL = 0,
  ORT_OPTIMIZE_ALL = 99,
  ORT_TYPE_TENSOR = 1,
  ORT_HARDWARE_CPU = 0,
  ORT_HARDWARE_GPU = 1,
  ORT_HARDWARE_NPU = 2,
  /* kinds of error */
  ORT_ERROR_FAIL = 1,
  ORT_ERROR_INVALID_ARGUMENT = 2,
  ORT_ERROR_NO_FILE = 3,
  ORT_ERROR_NO_MODEL = 4,
  ORT_ERROR_ENGINE = 5,
  ORT_ERROR_EXCEPTION = 6,
  ORT_ERROR_PROTOBUF = 7,
  ORT_ERROR_NOT_IMPLEMENTED = 9,
  ORT_ERROR_GRAPH = 10,
  ORT_ERROR_PROVIDER = 11
};

/* X(index, version that brought it, the header's name, our name, result, parameters) */
/* clang-format off */
#define WF_ORT_SLOTS(X) \
  X(1, 1, GetErrorCode, error_code, int, (const ort_status *status)) \
  X(2, 1, GetErrorMessage, error_message, const char *, (const ort_status *status)) \
  X(4, 1, CreateEnvWithCustomLogger, create_env, ort_status *, (ort_log_fn *log, void *user, int severity, const char *id, ort_env **result)) \
  X(6, 1, DisableTelemetryEvents, disable_telemetry, ort_status *, (const ort_env *env)) \
  X(7, 1, CreateSession, create_session, ort_status *, (const ort_env *env, const char *path, const ort_session_options *o, ort_session **result)) \
  X(8, 1, CreateSessionFromArray, create_session_of_bytes, ort_status *, (const ort_env *env, const void *bytes, size_t n_bytes, const ort_session_options *o, ort_session **result)) \
  X(10, 1, CreateSessionOptions, create_session_options, ort_status *, (ort_session_options **result)) \
  X(13, 1, SetSessionExecutionMode, set_execution_mode, ort_status *, (ort_session_options *o, int mode)) \
  X(17, 1, DisableMemPattern, disable_memory_pattern, ort_status *, (ort_session_options *o)) \
  X(23, 1, SetSessionGraphOptimizationLevel, set_optimization, ort_status *, (ort_session_options *o, int level)) \
  X(24, 1, SetIntraOpNumThreads, set_threads_inside, ort_status *, (ort_session_options *o, int n)) \
  X(25, 1, SetInterOpNumThreads, set_threads_between, ort_status *, (ort_session_options *o, int n)) \
  X(30, 1, SessionGetInputCount, n_inputs, ort_status *, (const ort_session *s, size_t *result)) \
  X(31, 1, SessionGetOutputCount, n_outputs, ort_status *, (const ort_session *s, size_t *result)) \
  X(36, 1, SessionGetInputName, input_name, ort_status *, (const ort_session *s, size_t i, ort_allocator *a, char **result)) \
  X(37, 1, SessionGetOutputName, output_name, ort_status *, (const ort_session *s, size_t i, ort_allocator *a, char **result)) \
  X(39, 1, CreateRunOptions, create_run_options, ort_status *, (ort_run_options **result)) \
  X(46, 1, RunOptionsSetTerminate, set_terminate, ort_status *, (ort_run_options *o)) \
  X(47, 1, RunOptionsUnsetTerminate, unset_terminate, ort_status *, (ort_run_options *o)) \
  X(49, 1, CreateTensorWithDataAsOrtValue, create_tensor_over, ort_status *, (const ort_memory_info *info, void *data, size_t n_bytes, const int64_t *dims, size_t rank, int type, ort_value **result)) \
  X(50, 1, IsTensor, is_tensor, ort_status *, (const ort_value *v, int *result)) \
  X(51, 1, GetTensorMutableData, tensor_data, ort_status *, (ort_value *v, void **result)) \
  X(60, 1, GetTensorElementType, shape_type, ort_status *, (const ort_shape_info *info, int *result)) \
  X(61, 1, GetDimensionsCount, shape_rank, ort_status *, (const ort_shape_info *info, size_t *result)) \
  X(62, 1, GetDimensions, shape_dims, ort_status *, (const ort_shape_info *info, int64_t *dims, size_t n)) \
  X(65, 1, GetTensorTypeAndShape, tensor_shape, ort_status *, (const ort_value *v, ort_shape_info **result)) \
  X(69, 1, CreateCpuMemoryInfo, create_cpu_memory_info, ort_status *, (int allocator_type, int memory_type, ort_memory_info **result)) \
  X(76, 1, AllocatorFree, allocator_free, ort_status *, (ort_allocator *a, void *p)) \
  X(78, 1, GetAllocatorWithDefaultOptions, default_allocator, ort_status *, (ort_allocator **result)) \
  X(92, 1, ReleaseEnv, release_env, void, (ort_env *env)) \
  X(93, 1, ReleaseStatus, release_status, void, (ort_status *status)) \
  X(94, 1, ReleaseMemoryInfo, release_memory_info, void, (ort_memory_info *info)) \
  X(95, 1, ReleaseSession, release_session, void, (ort_session *s)) \
  X(96, 1, ReleaseValue, release_value, void, (ort_value *v)) \
  X(97, 1, ReleaseRunOptions, release_run_options, void, (ort_run_options *o)) \
  X(99, 1, ReleaseTensorTypeAndShapeInfo, release_shape_info, void, (ort_shape_info *info)) \
  X(100, 1, ReleaseSessionOptions, release_session_options, void, (ort_session_options *o)) \
  X(125, 4, GetAvailableProviders, available_providers, ort_status *, (char ***names, int *n)) \
  X(126, 4, ReleaseAvailableProviders, release_available_providers, ort_status *, (char **names, int n)) \
  X(130, 5, AddSessionConfigEntry, set_session_entry, ort_status *, (ort_session_options *o, const char *key, const char *value)) \
  X(131, 5, CreateAllocator, create_allocator, ort_status *, (const ort_session *s, const ort_memory_info *info, ort_allocator **result)) \
  X(132, 5, ReleaseAllocator, release_allocator, void, (ort_allocator *a)) \
  X(133, 5, RunWithBinding, run_binding, ort_status *, (ort_session *s, const ort_run_options *o, const ort_binding *b)) \
  X(134, 5, CreateIoBinding, create_binding, ort_status *, (ort_session *s, ort_binding **result)) \
  X(135, 5, ReleaseIoBinding, release_binding, void, (ort_binding *b)) \
  X(136, 5, BindInput, bind_input, ort_status *, (ort_binding *b, const char *name, const ort_value *v)) \
  X(137, 5, BindOutput, bind_output, ort_status *, (ort_binding *b, const char *name, const ort_value *v)) \
  X(138, 5, BindOutputToDevice, bind_output_anew, ort_status *, (ort_binding *b, const char *name, const ort_memory_info *where)) \
  X(140, 5, GetBoundOutputValues, bound_outputs, ort_status *, (const ort_binding *b, ort_allocator *a, ort_value ***values, size_t *n)) \
  X(144, 6, CreateAndRegisterAllocator, create_shared_arena, ort_status *, (ort_env *env, const ort_memory_info *info, const ort_arena_config *config)) \
  X(157, 7, ReleaseArenaCfg, release_arena_config, void, (ort_arena_config *config)) \
  X(164, 8, CreateArenaCfgV2, create_arena_config, ort_status *, (const char *const *keys, const size_t *values, size_t n, ort_arena_config **result)) \
  X(165, 8, AddRunConfigEntry, set_run_entry, ort_status *, (ort_run_options *o, const char *key, const char *value)) \
  X(210, 12, AddExternalInitializers, add_external_values, ort_status *, (ort_session_options *o, const char *const *names, const ort_value *const *values, size_t n)) \
  X(216, 12, SessionOptionsAppendExecutionProvider, append_provider, ort_status *, (ort_session_options *o, const char *name, const char *const *keys, const char *const *values, size_t n)) \
  X(298, 22, GetKeyValuePairs, pairs_entries, void, (const ort_pairs *pairs, const char *const **keys, const char *const **values, size_t *n)) \
  X(300, 22, ReleaseKeyValuePairs, release_pairs, void, (ort_pairs *pairs)) \
  X(301, 22, RegisterExecutionProviderLibrary, register_library, ort_status *, (ort_env *env, const char *name, const char *path)) \
  X(303, 22, GetEpDevices, provider_devices, ort_status *, (const ort_env *env, const ort_ep_device *const **devices, size_t *n)) \
  X(304, 22, SessionOptionsAppendExecutionProvider_V2, append_devices, ort_status *, (ort_session_options *o, ort_env *env, const ort_ep_device *const *devices, size_t n_devices, const char *const *keys, const char *const *values, size_t n)) \
  X(307, 22, HardwareDevice_Type, hardware_type, int, (const ort_hardware *h)) \
  X(309, 22, HardwareDevice_Vendor, hardware_vendor, const char *, (const ort_hardware *h)) \
  X(312, 22, EpDevice_EpName, device_provider, const char *, (const ort_ep_device *d)) \
  X(313, 22, EpDevice_EpVendor, device_vendor, const char *, (const ort_ep_device *d)) \
  X(314, 22, EpDevice_EpMetadata, device_metadata, const ort_pairs *, (const ort_ep_device *d)) \
  X(316, 22, EpDevice_Device, device_hardware, const ort_hardware *, (const ort_ep_device *d)) \
  X(319, 23, AllocatorGetStats, allocator_stats, ort_status *, (const ort_allocator *a, ort_pairs **result))
/* clang-format on */

/* The slots that are used, by name. One that the library is too old for is NULL: whoever may do
 * without asks. Those of WF_ORT_MINOR_OLDEST and before are always there. */
typedef struct ort_api {
#define WF_X(index, since, official, name, result, params) result(*name) params;
  WF_ORT_SLOTS(WF_X)
#undef WF_X
} ort_api;

#endif
