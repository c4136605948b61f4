// Stream capture and its rules: what is forbidden while a capture is active invalidates it.
#include <stdlib.h>
#include <string.h>

#include "virtual_gpu.h"

static struct capture *captures;
static _Thread_local int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static uint64_t this_thread(void) {
  static _Thread_local char mark;
  return (uint64_t)(uintptr_t)&mark;
}

struct capture *find_capture(uint64_t id) {
  struct capture *capture = captures;
  while (capture && capture->id != id) capture = capture->next;
  return capture;
}

struct capture *capture_into(const struct graph *graph) {
  struct capture *capture = captures;
  while (capture && capture->graph != graph) capture = capture->next;
  return capture;
}

void invalidate(struct capture *capture) {
  if (capture) capture->invalidated = true;
}

static bool forbids_unsafe(const struct capture *capture) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture->thread == this_thread()) return true;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult unsafe_call(void) {
  CUresult result = CUDA_SUCCESS;
  for (struct capture *capture = captures; capture; capture = capture->next) {
    if (!forbids_unsafe(capture)) continue;
    invalidate(capture);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult context_wide_call(struct context *context) {
  CUresult result = CUDA_SUCCESS;
  for (struct stream *stream = context->streams; stream; stream = stream->next) {
    if (!stream->capture) continue;
    invalidate(stream->capture);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult legacy_stream_call(struct context *context) {
  CUresult result = CUDA_SUCCESS;
  for (struct stream *stream = context->streams; stream; stream = stream->next) {
    if (!stream->capture || stream->non_blocking) continue;
    invalidate(stream->capture);
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

CUresult capturing_allowed(struct stream *stream) {
  return stream->capture && stream->capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

struct node *capture_node(struct stream *stream, int type) {
  struct node *node = add_node(stream->capture->graph, type, stream->leaves, stream->leaf_count);
  if (!stream->leaves) stream->leaves = malloc(sizeof *stream->leaves);
  stream->leaves[0] = node;
  stream->leaf_count = 1;
  spend_us(stream->context->card->costs.capture_us * burst_factor(stream->context));
  return node;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  PLAIN_CALL(cuThreadExchangeStreamCaptureMode);
  if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  int before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, int mode) {
  CONTEXT_CALL(cuStreamBeginCapture);
  static uint64_t last_id;
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  struct capture *capture = calloc(1, sizeof *capture);
  *capture = (struct capture){++last_id, mode, false, stream, new_graph(), this_thread(), captures};
  captures = capture;
  stream->capture = capture;
  stream->leaf_count = 0;
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream handle, int mode) ALIAS(cuStreamBeginCapture_v2);

static void mark_ancestors(struct node *node, bool *seen) {
  for (;;) {
    if (seen[node->index]) return;
    seen[node->index] = true;
    if (node->dependency_count == 0) return;
    for (size_t i = 1; i < node->dependency_count; ++i) mark_ancestors(node->dependencies[i], seen);
    node = node->dependencies[0];
  }
}

// Whether everything that was captured on other streams has been waited for by the first one.
static bool all_joined(const struct capture *capture) {
  bool *seen = calloc(capture->graph->node_count + 1, sizeof *seen), joined = true;
  for (size_t i = 0; i < capture->origin->leaf_count; ++i) mark_ancestors(capture->origin->leaves[i], seen);
  for (size_t i = 0; i < capture->graph->node_count; ++i) joined &= seen[i];
  free(seen);
  return joined;
}

static void end_capture(struct capture *capture) {
  for (struct stream *stream = capture->origin->context->streams; stream; stream = stream->next) {
    if (stream->capture != capture) continue;
    stream->capture = NULL;
    stream->leaf_count = 0;
  }
  struct capture **link = &captures;
  while (*link != capture) link = &(*link)->next;
  *link = capture->next;
  free(capture);
}

void abandon_capture(struct stream *stream) {
  struct capture *capture = stream->capture;
  invalidate(capture);
  if (!capture || capture->origin != stream) return;
  kill_graph(capture->graph);
  end_capture(capture);
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  CONTEXT_CALL(cuStreamEndCapture);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  struct capture *capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) {
    invalidate(capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread()) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  } else if (capture->invalidated) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!all_joined(capture)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *graph = result ? NULL : capture->graph;
  if (result) kill_graph(capture->graph);
  end_capture(capture);
  return result;
}

static int status_of(const struct stream *stream) {
  if (!stream->capture) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, int *status) {
  CONTEXT_CALL(cuStreamIsCapturing);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (stream->legacy && (result = legacy_stream_call(stream->context))) return result;
  *status = status_of(stream);
  return CUDA_SUCCESS;
}

// All edges of a capture are plain ones, which is all zeros.
static const CUgraphEdgeData *edges_of(struct stream *stream) {
  free(stream->edges);
  return stream->edges = calloc(stream->leaf_count + 1, sizeof *stream->edges);
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, int *status, uint64_t *id, CUgraph *graph,
                                          CUgraphNode const **dependencies, CUgraphEdgeData const **edges,
                                          size_t *count) {
  CONTEXT_CALL(cuStreamGetCaptureInfo);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (stream->legacy && (result = legacy_stream_call(stream->context))) return result;
  *status = status_of(stream);
  bool active = *status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id) *id = stream->capture ? stream->capture->id : 0;
  if (graph) *graph = active ? stream->capture->graph : NULL;
  if (dependencies) *dependencies = active ? stream->leaves : NULL;
  if (edges) *edges = active ? edges_of(stream) : NULL;
  if (count) *count = active ? stream->leaf_count : 0;
  return CUDA_SUCCESS;
}

// Without the edges, as callers of CUDA 12 and of drivers before 12.3 know it.
EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, int *status, uint64_t *id, CUgraph *graph,
                                          CUgraphNode const **dependencies, size_t *count) {
  return cuStreamGetCaptureInfo_v3(handle, status, id, graph, dependencies, NULL, count);
}
