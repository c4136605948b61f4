// Streams: creation, waiting, and the handles that stand for the default streams.
#include <stdlib.h>

#include "virtual_gpu.h"

struct stream *new_stream(struct context *context, bool non_blocking, int priority) {
  static uint64_t last_id;
  struct stream *stream = calloc(1, sizeof *stream);
  *stream = (struct stream){.kind = STREAM, .context = context, .non_blocking = non_blocking, .priority = priority};
  stream->id = ++last_id;
  stream->next = context->streams;
  context->streams = stream;
  return stream;
}

// Handles are never freed: a dead one is still told from a live one.
void kill_stream(struct stream *stream) {
  struct stream **link = &stream->context->streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  drop_timeline(&stream->timeline);
  free(stream->leaves);
  free(stream->edges);
  stream->leaves = NULL;
  stream->edges = NULL;
  stream->kind = DEAD;
}

CUresult find_stream(CUstream handle, struct stream **stream) {
  const uintptr_t last_default = 2;  // NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD
  if ((uintptr_t)handle <= last_default) {
    *stream = current()->legacy;
    return CUDA_SUCCESS;
  }
  *stream = handle;
  return alive(handle, STREAM) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  CONTEXT_CALL(cuStreamCreateWithPriority);
  if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = new_stream(current(), flags & CU_STREAM_NON_BLOCKING, priority);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  CONTEXT_CALL(cuStreamCreate);
  if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = new_stream(current(), flags & CU_STREAM_NON_BLOCKING, 0);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  CONTEXT_CALL(cuStreamDestroy);
  if (!alive(stream, STREAM)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->legacy) return CUDA_ERROR_INVALID_HANDLE;
  abandon_capture(stream);
  kill_stream(stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) ALIAS(cuStreamDestroy_v2);

static CUresult query_allowed(struct stream *stream) {
  if (stream->capture) {
    invalidate(stream->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return stream->legacy ? legacy_stream_call(stream->context) : CUDA_SUCCESS;
}

static double end_of(struct stream *stream) {
  double end = stream->timeline.busy_until;
  if (!stream->legacy) return end;
  for (struct stream *other = stream->context->streams; other; other = other->next)
    if (!other->non_blocking && other->timeline.busy_until > end) end = other->timeline.busy_until;
  return end;
}

EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  CONTEXT_CALL(cuStreamSynchronize);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if ((result = query_allowed(stream)) || (result = unsafe_call())) return result;
  wait_until(end_of(stream));
  spend_us(stream->context->card->costs.sync_us * burst_factor(stream->context));
  new_burst(stream->context);
  return lost_now(stream->context);
}

EXPORT CUresult cuStreamQuery(CUstream handle) {
  CONTEXT_CALL(cuStreamQuery);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if ((result = query_allowed(stream))) return result;
  count_host_time();
  if (clock_us() < end_of(stream)) return CUDA_ERROR_NOT_READY;
  return lost_now(stream->context);
}

