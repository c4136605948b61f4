// Events: points on a stream's time line.
#include <stdlib.h>
#include <string.h>

#include "virtual_gpu.h"

static struct event *all_events;

void bring_forward_events(const struct stream *stream, double from, double by) {
  for (struct event *event = all_events; event; event = event->next)
    if (event->stream == stream && event->time >= from) event->time -= by;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  CONTEXT_CALL(cuEventCreate);
  const unsigned all_flags = 7;
  if (flags & ~all_flags) return CUDA_ERROR_INVALID_VALUE;
  struct event *created = calloc(1, sizeof *created);
  *created = (struct event){
      .kind = EVENT, .context = current(), .timing = !(flags & CU_EVENT_DISABLE_TIMING), .next = all_events};
  *event = all_events = created;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  CONTEXT_CALL(cuEventDestroy);
  if (!alive(event, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  free(event->leaves);
  event->leaves = NULL;
  event->kind = DEAD;
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) ALIAS(cuEventDestroy_v2);

static void keep_leaves(struct event *event, const struct stream *stream) {
  free(event->leaves);
  event->leaves = malloc((stream->leaf_count + 1) * sizeof *event->leaves);
  memcpy(event->leaves, stream->leaves, stream->leaf_count * sizeof *event->leaves);
  event->leaf_count = stream->leaf_count;
  event->capture_id = stream->capture->id;
}

static CUresult record(struct event *event, CUstream handle) {
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (!alive(event, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if ((result = capturing_allowed(stream))) return result;
  if (stream->capture) {
    keep_leaves(event, stream);
    return CUDA_SUCCESS;
  }
  if (stream->legacy && (result = legacy_stream_call(stream->context))) return result;
  spend_us(stream->context->card->costs.event_us * burst_factor(stream->context));
  event->capture_id = 0;
  event->recorded = true;
  event->stream = stream;
  event->time = clock_us() > stream->timeline.busy_until ? clock_us() : stream->timeline.busy_until;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  CONTEXT_CALL(cuEventRecord);
  return record(event, stream);
}

static CUresult query_allowed(struct event *event) {
  if (!alive(event, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture_id) {
    invalidate(find_capture(event->capture_id));
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return unsafe_call();
}

EXPORT CUresult cuEventQuery(CUevent event) {
  CONTEXT_CALL(cuEventQuery);
  CUresult result = query_allowed(event);
  if (result) return result;
  count_host_time();
  if (event->recorded && clock_us() < event->time) return CUDA_ERROR_NOT_READY;
  return lost_now(event->context);
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
  CONTEXT_CALL(cuEventSynchronize);
  CUresult result = query_allowed(event);
  if (result) return result;
  if (event->recorded) wait_until(event->time);
  spend_us(event->context->card->costs.sync_us * burst_factor(event->context));
  new_burst(event->context);
  return lost_now(event->context);
}

EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  CONTEXT_CALL(cuEventElapsedTime);
  if (!alive(start, EVENT) || !alive(end, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->timing || !end->timing || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (start->capture_id || end->capture_id) return CUDA_ERROR_CAPTURED_EVENT;
  if (clock_us() < start->time || clock_us() < end->time) return CUDA_ERROR_NOT_READY;
  struct fault *lie = lying_value("cuEventElapsedTime");
  *milliseconds = (float)(lie ? lie->value : (end->time - start->time) / 1e3);
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) ALIAS(cuEventElapsedTime_v2);

static void join(struct stream *stream, const struct event *event) {
  size_t room = stream->leaf_count + event->leaf_count + 1;
  stream->leaves = realloc(stream->leaves, room * sizeof *stream->leaves);
  for (size_t i = 0; i < event->leaf_count; ++i) {
    bool known = false;
    for (size_t j = 0; j < stream->leaf_count; ++j) known |= stream->leaves[j] == event->leaves[i];
    if (!known) stream->leaves[stream->leaf_count++] = event->leaves[i];
  }
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  CONTEXT_CALL(cuStreamWaitEvent);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (!alive(event, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags) return CUDA_ERROR_NOT_SUPPORTED;
  if ((result = capturing_allowed(stream))) return result;
  struct capture *from = find_capture(event->capture_id);
  if (stream->capture && !from) {
    invalidate(stream->capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream->capture && stream->capture != from) {
    invalidate(stream->capture);
    invalidate(from);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (from) {
    if (from->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture = from;
    join(stream, event);
    return CUDA_SUCCESS;
  }
  if (event->capture_id) return CUDA_ERROR_CAPTURED_EVENT;
  if (event->recorded && event->time > stream->timeline.busy_until) stream->timeline.busy_until = event->time;
  return CUDA_SUCCESS;
}
