// Kernel launches: one at a time into a stream, or into the graph that the stream is captured into.
#include <string.h>

#include "virtual_gpu.h"

static void run_kernel(struct op *op) {
  if (op->kernel->counts) count_up(op, op->address);
}

static CUdeviceptr first_parameter(const struct kernel *kernel, void **parameters) {
  CUdeviceptr address = 0;
  if (kernel->counts && parameters) memcpy(&address, parameters[0], sizeof address);
  return address;
}

static CUresult launch(struct kernel *kernel, const CUlaunchConfig *how, void **parameters, double issue_us) {
  struct stream *stream;
  CUresult result = find_stream(how->hStream, &stream);
  if (result) return result;
  if (!alive(kernel, KERNEL)) return CUDA_ERROR_INVALID_HANDLE;
  if (!how->gridDimX || !how->gridDimY || !how->gridDimZ || !how->blockDimX || !how->blockDimY || !how->blockDimZ)
    return CUDA_ERROR_INVALID_VALUE;
  if (kernel->counts && !parameters) return CUDA_ERROR_INVALID_VALUE;
  if ((result = capturing_allowed(stream))) return result;
  CUdeviceptr address = first_parameter(kernel, parameters);
  if (stream->capture) {
    set_kernel(capture_node(stream, CU_GRAPH_NODE_TYPE_KERNEL), kernel, address, how);
    return CUDA_SUCCESS;
  }
  if (stream->legacy && (result = legacy_stream_call(stream->context))) return result;
  const struct card *card = stream->context->card;
  spend_us(issue_us * burst_factor(stream->context));
  submit(stream, (struct op){.effect = run_kernel, .kernel = kernel, .address = address},
         (card->costs.pace_us + kernel_us(card, kernel, address)) * device_factor(stream->context));
  return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                               void **extra) {
  CONTEXT_CALL(cuLaunchKernel);
  if (extra) return CUDA_ERROR_NOT_SUPPORTED;
  CUlaunchConfig how = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, NULL, 0};
  return launch(function, &how, parameters, current()->card->costs.issue_us);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction function, void **parameters, void **extra) {
  CONTEXT_CALL(cuLaunchKernelEx);
  if (extra) return CUDA_ERROR_NOT_SUPPORTED;
  return launch(function, how, parameters, current()->card->costs.issue_ex_us);
}
