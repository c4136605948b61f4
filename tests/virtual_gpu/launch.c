// Kernel launches: one at a time into a stream, or into the graph that the stream is captured into.
#include <string.h>

#include "virtual_gpu.h"

static void run_kernel(struct op *op) {
  if (op->kernel->work == GATE && !*op->gate) op->gate[1] = 1;
  if (op->kernel->counts) count_up(op, op->address, op->kernel->work == SPIN ? 1 : op->value);
}

// What a kernel is handed; its parameters are those of graphs.cu.
struct arguments {
  CUdeviceptr address;
  unsigned count;
  unsigned long long limit_ns;  // of a gate
};

static struct arguments read_arguments(const struct kernel *kernel, void **parameters) {
  struct arguments given = {0, 1, 0};
  if (!parameters) return given;
  if (kernel->counts || kernel->work == GATE) memcpy(&given.address, parameters[0], sizeof given.address);
  if (kernel->work == FUSED_MEMORY || kernel->work == FUSED_REGISTER || kernel->work == SPIN)
    memcpy(&given.count, parameters[1], sizeof given.count);
  if (kernel->work == GATE) memcpy(&given.limit_ns, parameters[1], sizeof given.limit_ns);
  return given;
}

// Whether the launch may begin before its predecessor has ended; -1 where the card cannot do that.
static int depends_by_program(const CUlaunchConfig *how, const struct card *card) {
  for (unsigned i = 0; i < how->numAttrs; ++i) {
    if (how->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return -1;
    if (how->attrs[i].value.programmaticStreamSerializationAllowed) return card->major < 9 ? -1 : 1;
  }
  return 0;
}

static CUresult close_gate(struct stream *stream, struct kernel *kernel, const struct arguments *given) {
  unsigned *words = (unsigned *)(uintptr_t)given->address;
  if (!words || stream->gate) return CUDA_ERROR_INVALID_VALUE;
  submit(stream, (struct op){.effect = run_kernel, .kernel = kernel, .gate = words}, (double)given->limit_ns / 1e3);
  stream->gate = words;
  stream->gate_ends = stream->timeline.busy_until;
  return CUDA_SUCCESS;
}

static CUresult launch(struct kernel *kernel, const CUlaunchConfig *how, void **parameters, double issue_us) {
  struct stream *stream;
  CUresult result = find_stream(how->hStream, &stream);
  if (result) return result;
  if (!alive(kernel, KERNEL)) return CUDA_ERROR_INVALID_HANDLE;
  if (!how->gridDimX || !how->gridDimY || !how->gridDimZ || !how->blockDimX || !how->blockDimY || !how->blockDimZ)
    return CUDA_ERROR_INVALID_VALUE;
  if ((kernel->counts || kernel->work == GATE) && !parameters) return CUDA_ERROR_INVALID_VALUE;
  if ((result = capturing_allowed(stream))) return result;
  const struct card *card = stream->context->card;
  struct arguments given = read_arguments(kernel, parameters);
  int dependent = depends_by_program(how, card);
  if (dependent < 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (stream->capture) {
    struct node *node = capture_node(stream, CU_GRAPH_NODE_TYPE_KERNEL);
    set_kernel(node, kernel, given.address, how);
    node->value = given.count;
    node->dependent = dependent && kernel->dependent;
    return CUDA_SUCCESS;
  }
  if (stream->legacy && (result = legacy_stream_call(stream->context))) return result;
  spend_us(issue_us * burst_factor(stream->context));
  if (kernel->work == GATE) return close_gate(stream, kernel, &given);
  double pace_us = dependent && kernel->dependent ? card->costs.dependent_pace_us : card->costs.pace_us;
  submit(stream, (struct op){.effect = run_kernel, .kernel = kernel, .address = given.address, .value = given.count},
         (pace_us + kernel_us(card, kernel, given.address, given.count)) * device_factor(stream->context));
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
