// Compares cuda_abi.h with a real cuda.h: compiled by a test where there is one, never run or linked.
#include <cuda.h>
#include <stddef.h>

// cuda.h defines the same names; those of cuda_abi.h are wanted under other ones here.
typedef CUlaunchConfig real_launch_config;
typedef CUlaunchAttribute real_launch_attribute;
typedef CUDA_KERNEL_NODE_PARAMS real_kernel_node;
typedef CUgraphExecUpdateResultInfo real_update_info;
typedef CUDA_GRAPH_INSTANTIATE_PARAMS real_instantiate;
typedef CUgraphEdgeData real_edge;
typedef CUuuid real_uuid;
typedef CUdeviceptr real_address;
typedef CUresult real_result;

#define CUlaunchAttribute our_launch_attribute
#define CUlaunchConfig our_launch_config
#define CUDA_KERNEL_NODE_PARAMS our_kernel_node
#define CUgraphExecUpdateResultInfo our_update_info
#define CUDA_GRAPH_INSTANTIATE_PARAMS our_instantiate
#define CUgraphEdgeData our_edge
#define CUuuid our_uuid
#define CUdeviceptr our_address
#define CUresult our_result
#define CUdevice our_device
#define CUcontext our_context
#define CUstream our_stream
#define CUevent our_event
#define CUlibrary our_library
#define CUmodule our_module
#define CUkernel our_kernel
#define CUfunction our_function
#define CUgraph our_graph
#define CUgraphNode our_graph_node
#define CUgraphExec our_graph_exec
#define CUuserObject our_user_object
#define ABI_TYPES_ONLY
#include "cuda_abi.h"

#define SAME_SIZE(name) _Static_assert(sizeof(our_##name) == sizeof(real_##name), "size of " #name)
#define SAME_PLACE(name, field)                                                                    \
  _Static_assert(offsetof(our_##name, field) == offsetof(real_##name, field), #name "." #field);    \
  _Static_assert(sizeof(((our_##name *)0)->field) == sizeof(((real_##name *)0)->field), #name "." #field)

SAME_SIZE(result);
SAME_SIZE(address);
SAME_SIZE(uuid);
SAME_SIZE(edge);
SAME_SIZE(launch_attribute);
SAME_PLACE(launch_attribute, id);
_Static_assert(offsetof(our_launch_attribute, value) == offsetof(real_launch_attribute, value), "launch_attribute.value");
SAME_SIZE(launch_config);
SAME_PLACE(launch_config, sharedMemBytes);
SAME_PLACE(launch_config, hStream);
SAME_PLACE(launch_config, attrs);
SAME_PLACE(launch_config, numAttrs);
SAME_SIZE(kernel_node);
SAME_PLACE(kernel_node, gridDimX);
SAME_PLACE(kernel_node, sharedMemBytes);
SAME_PLACE(kernel_node, kernelParams);
SAME_PLACE(kernel_node, extra);
SAME_PLACE(kernel_node, kern);
SAME_PLACE(kernel_node, ctx);
SAME_SIZE(update_info);
SAME_PLACE(update_info, errorNode);
SAME_PLACE(update_info, errorFromNode);
SAME_SIZE(instantiate);
SAME_PLACE(instantiate, hUploadStream);
SAME_PLACE(instantiate, hErrNode_out);
SAME_PLACE(instantiate, result_out);

#define CONSTANT(name, value) _Static_assert((int)(name) == (value), #name);
#include "cuda_constants.h"
