// Time. The host clock moves only by what calls cost in the model, so what events measure does not depend on the
// machine that the tests run on; each call also takes that long in reality (calls.c). Work on a stream is queued
// with its end, and its effect on memory comes when the host clock has reached that end.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "virtual_gpu.h"

static double the_clock_us = 1;

static struct op *first_op(struct timeline *timeline) { return &timeline->ops[timeline->first]; }

static void pop(struct timeline *timeline) {
  struct op op = *first_op(timeline);
  timeline->first = (timeline->first + 1) % timeline->room;
  --timeline->count;
  op.effect(&op);
  release_program(op.program);
}

static void push(struct timeline *timeline, struct op op) {
  if (timeline->count == timeline->room) {
    size_t room = timeline->room ? 2 * timeline->room : 64;
    struct op *ops = malloc(room * sizeof *ops);
    for (size_t i = 0; i < timeline->count; ++i)
      ops[i] = timeline->ops[(timeline->first + i) % timeline->room];
    free(timeline->ops);
    *timeline = (struct timeline){ops, 0, timeline->count, room, timeline->busy_until};
  }
  timeline->ops[(timeline->first + timeline->count++) % timeline->room] = op;
}

void drop_timeline(struct timeline *timeline) {
  while (timeline->count) pop(timeline);
  free(timeline->ops);
  *timeline = (struct timeline){0};
}

// Effects of all work of this context that has ended, in the order of the ends.
static void run_effects(struct context *context) {
  for (;;) {
    struct timeline *next = NULL;
    for (struct stream *stream = context->streams; stream; stream = stream->next) {
      struct timeline *timeline = &stream->timeline;
      if (!timeline->count || first_op(timeline)->end > the_clock_us) continue;
      if (!next || first_op(timeline)->end < first_op(next)->end) next = timeline;
    }
    if (!next) return;
    pop(next);
  }
}

double clock_us(void) { return the_clock_us; }

// For the tests' own sitecustomize.py.
EXPORT uint64_t launchbenchVirtualClockNs(void) { return (uint64_t)(the_clock_us * 1e3 + 0.5); }

// The same for native code that reads the raw clock, where this library is preloaded; any other clock is the system's.
EXPORT int clock_gettime(clockid_t clock, struct timespec *now) {
  if (clock != CLOCK_MONOTONIC_RAW || config()->spend) return (int)syscall(SYS_clock_gettime, clock, now);
  const uint64_t ns = launchbenchVirtualClockNs();
  now->tv_sec = (time_t)(ns / 1000000000u);
  now->tv_nsec = (long)(ns % 1000000000u);
  return 0;
}

void spend_us(double time) { the_clock_us += time; }

void wait_until(double time) {
  if (time > the_clock_us) the_clock_us = time;
  if (current()) run_effects(current());
}

// Normally distributed enough: twelve uniform numbers.
static double gauss(uint64_t *state) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) {
    uint64_t bits = *state += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    sum += (double)((bits ^ (bits >> 31)) >> 11) / 9007199254740992.0;
  }
  return sum;
}

void new_burst(struct context *context) { context->burst = 0; }

double burst_factor(struct context *context) {
  if (context->burst) return context->burst;
  const struct costs *costs = &context->card->costs;
  context->burst = 1 + costs->noise * gauss(&context->random);
  if (context->burst < 0.1) context->burst = 0.1;
  if ((double)context->bursts++ < costs->cold_bursts) context->burst *= costs->cold_factor;
  return context->burst;
}

double device_factor(struct context *context) {
  return burst_factor(context) * throttle_slowdown(card_index(context->card));
}

double kernel_us(const struct card *card, const struct kernel *kernel, CUdeviceptr address, unsigned count) {
  if (kernel->work == FUSED_MEMORY) return card->costs.fused_memory_us * count;
  if (kernel->work == FUSED_REGISTER) return card->costs.fused_register_us * count;
  if (kernel->work == SPIN) return count / card->sm_clock_mhz;
  if (!kernel->counts) return 0;
  uint64_t page = address / (uint64_t)card->costs.page_bytes;
  page = (page ^ (page >> 15)) * 0x9e3779b97f4a7c15u;
  return card->costs.levels[(page >> 33) % (uint64_t)card->costs.level_count];
}

// The host opens a gate by writing to memory that the device sees, which is noticed at its next call. What was
// queued behind the gate then moves to where it would have been.
void open_gates(struct context *context) {
  for (struct stream *stream = context->streams; stream; stream = stream->next) {
    if (!stream->gate) continue;
    bool over = the_clock_us >= stream->gate_ends;
    if (!over && !*(volatile unsigned *)stream->gate) continue;
    double by = over ? 0 : stream->gate_ends - the_clock_us;
    struct timeline *timeline = &stream->timeline;
    for (size_t i = 0; i < timeline->count; ++i) {
      struct op *op = &timeline->ops[(timeline->first + i) % timeline->room];
      if (op->end >= stream->gate_ends) op->end -= by;
    }
    timeline->busy_until -= by;
    bring_forward_events(stream, stream->gate_ends, by);
    stream->gate = NULL;
  }
}

static double legacy_order(const struct stream *stream) {
  double after = 0;
  for (const struct stream *other = stream->context->streams; other; other = other->next) {
    bool ordered = stream->legacy ? !other->non_blocking : other->legacy && !stream->non_blocking;
    if (ordered && other->timeline.busy_until > after) after = other->timeline.busy_until;
  }
  return after;
}

void submit(struct stream *stream, struct op op, double duration) {
  struct context *context = stream->context;
  struct timeline *timeline = &stream->timeline;
  wait_until(the_clock_us);
  while (timeline->count >= (size_t)context->card->queue_depth) wait_until(first_op(timeline)->end);
  double start = the_clock_us, after = legacy_order(stream);
  if (timeline->busy_until > start) start = timeline->busy_until;
  if (after > start) start = after;
  op.end = timeline->busy_until = start + duration;
  op.context = context;
  push(timeline, op);
}
