// Primary contexts, and which one is current on a thread.
#include <stdlib.h>

#include "virtual_gpu.h"

#define DEEPEST 32

static struct context primary[MAX_CARDS];
static _Thread_local struct context *stack[DEEPEST];
static _Thread_local int depth;

bool alive(const void *handle, enum kind kind) { return handle && *(const enum kind *)handle == kind; }

struct context *current(void) { return depth ? stack[depth - 1] : NULL; }

CUresult lost_now(const struct context *context) {
  return context->lost && clock_us() >= context->lost_from ? context->lost : CUDA_SUCCESS;
}

bool card_has_context(int card) {
  for (int i = 0; i < MAX_CARDS; ++i)
    if (primary[i].kind == CONTEXT && card_index(primary[i].card) == card) return true;
  return false;
}

static void create(struct context *context, CUdevice device) {
  struct card *card = card_of(device);
  *context = (struct context){.kind = CONTEXT, .device = device, .card = card};
  context->random = config()->seed * 0x9e3779b97f4a7c15u + (uint64_t)card_index(card);
  context->legacy = new_stream(context, false, 0);
  context->legacy->legacy = true;
}

static void destroy(struct context *context) {
  while (context->streams) kill_stream(context->streams);
  drop_memory(context);
  context->kind = DEAD;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  PLAIN_CALL(cuDevicePrimaryCtxRetain);
  if (!card_of(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (card_loss(card_index(card_of(device)))) return card_loss(card_index(card_of(device)));
  if (primary[device].kind != CONTEXT) create(&primary[device], device);
  ++primary[device].retained;
  *context = &primary[device];
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  PLAIN_CALL(cuDevicePrimaryCtxRelease);
  if (!card_of(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (primary[device].kind != CONTEXT || primary[device].retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary[device].retained == 0) destroy(&primary[device]);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) ALIAS(cuDevicePrimaryCtxRelease_v2);

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  PLAIN_CALL(cuCtxGetCurrent);
  *context = current();
  return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  PLAIN_CALL(cuCtxSetCurrent);
  if (!context) {
    if (depth) --depth;
    return CUDA_SUCCESS;
  }
  if (!alive(context, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
  if (depth == 0) depth = 1;
  stack[depth - 1] = context;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  PLAIN_CALL(cuCtxPushCurrent);
  if (!alive(context, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
  if (depth == DEEPEST) return CUDA_ERROR_INVALID_VALUE;
  stack[depth++] = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) ALIAS(cuCtxPushCurrent_v2);

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  PLAIN_CALL(cuCtxPopCurrent);
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  --depth;
  if (context) *context = stack[depth];
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext *context) ALIAS(cuCtxPopCurrent_v2);

EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  PLAIN_CALL(cuCtxGetDevice);
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current()->device;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void) {
  CONTEXT_CALL(cuCtxSynchronize);
  struct context *context = current();
  CUresult result = context_wide_call(context);
  if (result) return result;
  for (struct stream *stream = context->streams; stream; stream = stream->next)
    wait_until(stream->timeline.busy_until);
  spend_us(context->card->costs.sync_us * burst_factor(context));
  new_burst(context);
  return lost_now(context);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  CONTEXT_CALL(cuCtxGetStreamPriorityRange);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}
