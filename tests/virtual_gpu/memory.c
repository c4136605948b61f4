// Device memory: plain allocations at simulated addresses over host memory.
//
// Small allocations are cut from chunks that stay mapped when an allocation in them is freed; large ones are
// mapped alone and unmapped when they are freed. The last freed place of the same size is given out first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "virtual_gpu.h"

#define ALIGNMENT 512u
#define CHUNK (2u << 20)
#define UNMAPPED_AT_FREE (32u << 20)
#define FIRST_ADDRESS 0x7f2000000000u

struct block {
  CUdeviceptr address;
  size_t size;       // multiple of ALIGNMENT
  size_t requested;  // 0 = free
  uint64_t freed;    // when; 0 = never used
  struct block *next;
};

struct range {
  CUdeviceptr base;
  size_t size;
  unsigned char *bytes;
  struct block *blocks;  // by address, without gaps
  struct range *next;
};

static size_t rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

static struct range *map(struct context *context, size_t size) {
  struct range *range = calloc(1, sizeof *range);
  // An address is not given out again within CUDA's view of one process, so a dangling one stays dangling.
  static CUdeviceptr next_address = FIRST_ADDRESS;
  *range = (struct range){next_address, size, calloc(1, size), calloc(1, sizeof(struct block)), context->memory};
  *range->blocks = (struct block){range->base, size, 0, 0, NULL};
  next_address += rounded(size, CHUNK) + CHUNK;
  context->memory = range;
  return range;
}

static void unmap(struct context *context, struct range *range) {
  struct range **link = &context->memory;
  while (*link != range) link = &(*link)->next;
  *link = range->next;
  while (range->blocks) {
    struct block *next = range->blocks->next;
    free(range->blocks);
    range->blocks = next;
  }
  free(range->bytes);
  free(range);
}

void drop_memory(struct context *context) {
  while (context->memory) unmap(context, context->memory);
  context->owned_bytes = 0;
}

// Free place for so many bytes: the last freed one of just this size, else the lowest that is large enough.
static struct block *find_place(struct context *context, size_t size) {
  struct block *same = NULL, *lowest = NULL;
  for (struct range *range = context->memory; range; range = range->next) {
    for (struct block *block = range->blocks; block; block = block->next) {
      if (block->requested || block->size < size) continue;
      if (block->size == size && block->freed && (!same || block->freed > same->freed)) same = block;
      if (!lowest || block->address < lowest->address) lowest = block;
    }
  }
  return same ? same : lowest;
}

static void split(struct block *block, size_t size) {
  if (block->size == size) return;
  struct block *rest = calloc(1, sizeof *rest);
  *rest = (struct block){block->address + size, block->size - size, 0, 0, block->next};
  block->size = size;
  block->next = rest;
}

static struct block *block_at(struct context *context, CUdeviceptr address, struct range **in) {
  for (struct range *range = context->memory; range; range = range->next) {
    if (address < range->base || address >= range->base + range->size) continue;
    struct block *block = range->blocks;
    while (address >= block->address + block->size) block = block->next;
    *in = range;
    return block;
  }
  return NULL;
}

void *mapped_bytes(struct context *context, CUdeviceptr address, size_t size) {
  struct range *range;
  if (!block_at(context, address, &range) || address + size > range->base + range->size) return NULL;
  return range->bytes + (address - range->base);
}

void *owned_bytes(struct context *context, CUdeviceptr address, size_t size) {
  struct range *range;
  struct block *block = block_at(context, address, &range);
  if (!block || !block->requested || address + size > block->address + block->requested) return NULL;
  return range->bytes + (address - range->base);
}

static void wait_for_all(struct context *context) {
  for (struct stream *stream = context->streams; stream; stream = stream->next)
    wait_until(stream->timeline.busy_until);
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
  CONTEXT_CALL(cuMemAlloc);
  struct context *context = current();
  CUresult result = unsafe_call();
  if (result) return result;
  if (!size) return CUDA_ERROR_INVALID_VALUE;
  size_t whole = rounded(size, ALIGNMENT);
  double room = (context->card->memory_mb - context->card->used_mb) * 1048576;
  if (context->owned_bytes + (double)whole > room) return CUDA_ERROR_OUT_OF_MEMORY;
  struct block *block = whole < UNMAPPED_AT_FREE ? find_place(context, whole) : NULL;
  if (!block) block = map(context, rounded(whole, CHUNK))->blocks;
  split(block, whole);
  block->requested = size;
  context->owned_bytes += (double)whole;
  *address = block->address;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr *address, size_t size) ALIAS(cuMemAlloc_v2);

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  CONTEXT_CALL(cuMemFree);
  static uint64_t frees;
  struct context *context = current();
  CUresult result = unsafe_call();
  if (result || !address) return result;
  struct range *range;
  struct block *block = block_at(context, address, &range);
  if (!block || block->address != address || !block->requested) return CUDA_ERROR_INVALID_VALUE;
  wait_for_all(context);
  block->requested = 0;
  block->freed = ++frees;
  context->owned_bytes -= (double)block->size;
  if (block->size >= UNMAPPED_AT_FREE) unmap(context, range);
  return lost_now(context);
}
CUresult cuMemFree(CUdeviceptr address) ALIAS(cuMemFree_v2);

EXPORT CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
  CONTEXT_CALL(cuMemGetInfo);
  const struct context *context = current();
  const struct card *card = context->card;
  const double mib = 1048576, taken = context->owned_bytes + context->graph_bytes;
  *total = (size_t)(card->memory_mb * mib);
  *unused = (size_t)((card->memory_mb - card->used_mb) * mib - taken);
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t *unused, size_t *total) ALIAS(cuMemGetInfo_v2);

// Memory of the host that the device sees, at the same address.
EXPORT CUresult cuMemHostAlloc(void **host, size_t size, unsigned flags) {
  CONTEXT_CALL(cuMemHostAlloc);
  CUresult result = unsafe_call();
  if (result) return result;
  if (!size || flags & ~(unsigned)CU_MEMHOSTALLOC_DEVICEMAP) return CUDA_ERROR_INVALID_VALUE;
  *host = calloc(1, size);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
  CONTEXT_CALL(cuMemHostGetDevicePointer);
  if (!host || flags) return CUDA_ERROR_INVALID_VALUE;
  *address = (CUdeviceptr)(uintptr_t)host;
  return CUDA_SUCCESS;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *host, unsigned flags)
    ALIAS(cuMemHostGetDevicePointer_v2);

EXPORT CUresult cuMemFreeHost(void *host) {
  CONTEXT_CALL(cuMemFreeHost);
  CUresult result = unsafe_call();
  if (result) return result;
  wait_for_all(current());
  free(host);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- copies by the host, on the legacy stream

static CUresult begin_copy(struct context *context) {
  CUresult result = legacy_stream_call(context);
  if (result) return result;
  for (struct stream *stream = context->streams; stream; stream = stream->next)
    if (!stream->non_blocking) wait_until(stream->timeline.busy_until);
  return lost_now(context);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *host, CUdeviceptr address, size_t size) {
  CONTEXT_CALL(cuMemcpyDtoH);
  CUresult result = begin_copy(current());
  if (result) return result;
  void *bytes = owned_bytes(current(), address, size);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  memcpy(host, bytes, size);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void *host, CUdeviceptr address, size_t size) ALIAS(cuMemcpyDtoH_v2);

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr address, const void *host, size_t size) {
  CONTEXT_CALL(cuMemcpyHtoD);
  CUresult result = begin_copy(current());
  if (result) return result;
  void *bytes = owned_bytes(current(), address, size);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  memcpy(bytes, host, size);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr address, const void *host, size_t size) ALIAS(cuMemcpyHtoD_v2);

// ---------------------------------------------------------------- in stream order

static void lose_context(struct op *op) {
  op->context->lost = CUDA_ERROR_ILLEGAL_ADDRESS;
  op->context->lost_from = op->end;
}

static void fill(struct op *op) {
  unsigned char *bytes = mapped_bytes(op->context, op->address, op->count * sizeof(unsigned));
  if (!bytes) {
    lose_context(op);
    return;
  }
  for (size_t i = 0; i < op->count; ++i) memcpy(bytes + i * sizeof op->value, &op->value, sizeof op->value);
}

void fill_node(struct op *op, const struct node *node) {
  struct op one = *op;
  one.address = node->address;
  one.value = node->value;
  one.count = node->count;
  fill(&one);
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream handle) {
  CONTEXT_CALL(cuMemsetD32Async);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (!owned_bytes(current(), address, count * sizeof value)) return CUDA_ERROR_INVALID_VALUE;
  if ((result = capturing_allowed(stream))) return result;
  if (stream->capture) {
    struct node *node = capture_node(stream, CU_GRAPH_NODE_TYPE_MEMSET);
    node->address = address;
    node->value = value;
    node->count = count;
    return CUDA_SUCCESS;
  }
  if (stream->legacy && (result = legacy_stream_call(stream->context))) return result;
  const struct costs *costs = &stream->context->card->costs;
  spend_us(costs->issue_us * burst_factor(stream->context));
  submit(stream, (struct op){.effect = fill, .address = address, .value = value, .count = count},
         costs->pace_us * device_factor(stream->context));
  return CUDA_SUCCESS;
}

static void copy(struct op *op) {
  void *to = mapped_bytes(op->context, op->address, op->count);
  const void *from = mapped_bytes(op->context, op->source, op->count);
  if (to && from) {
    memmove(to, from, op->count);
  } else {
    lose_context(op);
  }
}

// Not into a graph: such a node is not implemented.
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream handle) {
  CONTEXT_CALL(cuMemcpyDtoDAsync);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (!owned_bytes(current(), to, size) || !owned_bytes(current(), from, size)) return CUDA_ERROR_INVALID_VALUE;
  if ((result = capturing_allowed(stream))) return result;
  if (stream->capture) return CUDA_ERROR_NOT_SUPPORTED;
  if (stream->legacy && (result = legacy_stream_call(stream->context))) return result;
  const struct costs *costs = &stream->context->card->costs;
  spend_us(costs->issue_us * burst_factor(stream->context));
  submit(stream, (struct op){.effect = copy, .address = to, .source = from, .count = size},
         costs->pace_us * device_factor(stream->context));
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream handle)
    ALIAS(cuMemcpyDtoDAsync_v2);

void count_up(struct op *op, CUdeviceptr address, unsigned times) {
  float *counter = mapped_bytes(op->context, address, sizeof *counter);
  if (counter) {
    for (unsigned i = 0; i < times; ++i) *counter += 1.0f;
  } else {
    lose_context(op);
  }
}
