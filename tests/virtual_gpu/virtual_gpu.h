// What the parts of the virtual GPU share. Times are microseconds.
#ifndef LAUNCHBENCH_VIRTUAL_GPU_H
#define LAUNCHBENCH_VIRTUAL_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"

#define MAX_CARDS 32
#define MAX_FAULTS 64
#define MAX_PROCESSES 32
#define MAX_LEVELS 32
#define MAX_TEXT 256
#define ALWAYS UINT64_MAX

// ---------------------------------------------------------------- config.c: what the environment asks for

// Cost model of a card; README.md says what each figure does.
struct costs {
  double issue_us;         // host, one cuLaunchKernel
  double issue_ex_us;      // host, one cuLaunchKernelEx
  double pace_us;          // device, one launch
  double event_us;         // host, one cuEventRecord
  double sync_us;          // host, after the device is done
  double capture_us;       // host, one captured launch
  double instantiate_us, instantiate_node_us;
  double upload_us, upload_node_us;
  double graph_launch_us, graph_launch_node_us;  // host
  double graph_fixed_us, node_us;                // device
  double dependent_pace_us, dependent_node_us;   // device, instead of pace_us and node_us, from compute capability 9.0
  double fused_memory_us, fused_register_us;     // device, one increment of a fused kernel
  double graph_node_bytes;                       // device memory of an executable graph
  double levels[MAX_LEVELS];                     // device, added to each `tiny`, by the page of its address
  int level_count;
  double page_bytes;
  double noise;  // relative standard deviation of a whole burst between two synchronizations
  double cold_factor, cold_bursts;
};

struct card {
  char name[MAX_TEXT], nvml_name[MAX_TEXT];
  char uuid[64];      // GPU-... or MIG-...
  char parent[64];    // of a MIG slice: UUID of its GPU
  char pci[32];       // domain:bus:device.function
  int major, minor, processors;
  double memory_mb, used_mb;
  int queue_depth;
  struct costs costs;
  double sm_clock_mhz, max_sm_clock_mhz, memory_clock_mhz, power_limit_w, power_default_w, power_w;
  double temperature_c, utilization, pcie_generation, pcie_width;
  char vbios[64];
  bool ecc, persistence;
  uint64_t reasons;  // clock event mask
};

struct fault {
  char call[64];  // function without version suffix, or "*"
  int card;       // CUDA's index in the configuration; -1 = any
  uint64_t from, count;
  int result;
  bool sticky, hang, missing, has_value;
  double value;
  uint64_t seen;
};

struct process {
  unsigned pid;
  int card;
  double memory_mb;  // < 0: NVML does not say
  uint64_t from;     // first process query that lists it
};

struct throttle {
  int card;
  uint64_t from;   // state queries before it starts; ALWAYS = never
  uint64_t until;  // state queries after which it has ended
  uint64_t mask;
  double slowdown, sm_clock_mhz;
};

struct config {
  int driver_version;  // as cuDriverGetVersion returns it
  char nvml_driver_version[64];
  uint64_t seed;
  bool spend;              // whether calls take their time in reality as well
  unsigned own_pid;        // as NVML reports this process; 0 = its real one
  char trace[4096];        // file that gets the calls of this process; empty = none
  struct card cards[MAX_CARDS];
  int card_count;
  struct fault faults[MAX_FAULTS];
  int fault_count;
  struct process processes[MAX_PROCESSES];
  int process_count;
  struct throttle throttle;
};

struct config *config(void);

// ---------------------------------------------------------------- calls.c: what every entry point begins with

struct site {
  const char *name;
  uint64_t calls;
  struct site *next;
};

struct call {
  double entered_us, clock_us;
  bool locked;
};

CUresult call_begin(struct call *call, struct site *site, bool needs_context);
void call_end(struct call *call);
int nvml_begin(struct call *call, struct site *site, int card);
void call_later(void (*function)(void *), void *argument);  // without the lock, before the entry point returns
struct fault *lying_value(const char *name);
bool is_missing(const char *name);
void lose_card(int card, CUresult result);
CUresult card_loss(int card);

// Takes the one lock until the function returns, and then spends its modelled time.
#define ENTRY(name, needs_context)                                       \
  static struct site site = {#name, 0, NULL};                            \
  struct call call __attribute__((cleanup(call_end))) = {0, 0, false};   \
  CUresult refused = call_begin(&call, &site, needs_context);            \
  if (refused) return refused
#define PLAIN_CALL(name) ENTRY(name, false)
#define CONTEXT_CALL(name) ENTRY(name, true)
#define EXPORT __attribute__((visibility("default")))
#define ALIAS(old) __attribute__((visibility("default"), alias(#old)))

struct node;

// ---------------------------------------------------------------- timeline.c: host clock and device time

double clock_us(void);           // the modelled host clock
void spend_us(double time);      // the host is busy
void wait_until(double time);    // the host waits for the device; effects up to then become visible
void count_host_time(void);      // for polling: what the host did since its last call counts as well
double real_us(void);

struct op {
  double end;
  void (*effect)(struct op *op);
  struct context *context;
  struct kernel *kernel;
  struct program *program;
  CUdeviceptr address, source;
  unsigned value;
  size_t count;
  unsigned *gate;  // the two words of a gate
};

struct timeline {
  struct op *ops;  // ring buffer, in order of their ends
  size_t first, count, room;
  double busy_until;
};

void submit(struct stream *stream, struct op op, double duration);
double burst_factor(struct context *context);   // on every cost, of the host and of the device
double device_factor(struct context *context);  // on what the device does: the burst and throttling
void new_burst(struct context *context);
double kernel_us(const struct card *card, const struct kernel *kernel, CUdeviceptr address, unsigned count);
void drop_timeline(struct timeline *timeline);

// ---------------------------------------------------------------- device.c, context.c

enum kind { DEAD = 0, CONTEXT = 0x10c0, STREAM, EVENT, LIBRARY, KERNEL, GRAPH, NODE, EXEC, USER_OBJECT };

int visible_count(void);
struct card *card_of(CUdevice device);  // NULL for an invalid ordinal
int card_index(const struct card *card);

struct context {
  enum kind kind;
  CUdevice device;
  struct card *card;
  int retained;
  struct stream *streams;  // all of them
  struct stream *legacy;
  CUresult lost;
  double lost_from;
  double burst;  // factor of the present burst; 0 = not drawn yet
  uint64_t bursts, random;
  struct range *memory;
  double owned_bytes, graph_bytes;
};

struct context *current(void);
CUresult lost_now(const struct context *context);  // what an illegal access has left behind by now
bool alive(const void *handle, enum kind kind);
bool card_has_context(int card);

// ---------------------------------------------------------------- stream.c, event.c

struct capture;

struct stream {
  enum kind kind;
  struct context *context;
  bool non_blocking, legacy;
  int priority;
  uint64_t id;
  struct timeline timeline;
  struct capture *capture;  // NULL = not capturing
  struct node **leaves;     // of the capture, the nodes that the next one depends on
  size_t leaf_count;
  unsigned *gate;    // closed so far; NULL = none
  double gate_ends;  // when it opens by itself
  CUgraphEdgeData *edges;  // as many, for cuStreamGetCaptureInfo
  struct stream *next;
};

void open_gates(struct context *context);  // those whose word the host has set
void bring_forward_events(const struct stream *stream, double from, double by);

struct stream *new_stream(struct context *context, bool non_blocking, int priority);
void kill_stream(struct stream *stream);
CUresult find_stream(CUstream handle, struct stream **stream);

struct event {
  enum kind kind;
  struct context *context;
  bool timing, recorded;
  double time;
  struct stream *stream;  // recorded on
  struct event *next;     // all events of this process
  uint64_t capture_id;  // of the capture it was last recorded in; 0 = none
  struct node **leaves;
  size_t leaf_count;
};

// ---------------------------------------------------------------- nvml.c

double throttle_slowdown(int card);

// ---------------------------------------------------------------- memory.c

void *mapped_bytes(struct context *context, CUdeviceptr address, size_t size);  // owned or not; NULL: unmapped
void *owned_bytes(struct context *context, CUdeviceptr address, size_t size);   // NULL: not inside an allocation
void drop_memory(struct context *context);
void count_up(struct op *op, CUdeviceptr address, unsigned times);  // d[0] += 1.0f
void fill_node(struct op *op, const struct node *node);

// ---------------------------------------------------------------- module.c

struct kernel {
  enum kind kind;
  struct library *library;
  char *name;
  bool counts;     // d[0] += 1.0f: `tiny`, and the fused kernels as often as they are told
  bool dependent;  // waits for its predecessor itself
  enum work { PLAIN, FUSED_MEMORY, FUSED_REGISTER, SPIN, GATE } work;
  struct kernel *next;
};

// ---------------------------------------------------------------- capture.c, graph.c

struct node {
  enum kind kind;
  struct graph *graph;
  int type;  // CU_GRAPH_NODE_TYPE_...
  struct kernel *kernel;
  CUdeviceptr address;  // the kernel's parameter, or of a memset
  CUlaunchConfig how;
  bool dependent;  // by a programmatic edge
  unsigned value;  // of a memset, the increments of a fused kernel, or the cycles of `spin`
  size_t count;
  struct node **dependencies;
  size_t dependency_count;
  size_t index;
  void *parameter;  // what cuGraphKernelNodeGetParams points to
};

struct graph {
  enum kind kind;
  struct node **nodes;
  size_t node_count, room;
  struct user_object **objects;
  size_t object_count;
};

struct graph *new_graph(void);
void kill_graph(struct graph *graph);
void set_kernel(struct node *node, struct kernel *kernel, CUdeviceptr address, const CUlaunchConfig *how);
struct node *add_node(struct graph *graph, int type, struct node *const *dependencies, size_t count);

// What an executable graph runs: shared by it and by its replays that are still on their way.
struct program {
  int references;
  struct node *nodes;  // copies
  size_t node_count;
};

void release_program(struct program *program);

struct capture {
  uint64_t id;
  int mode;
  bool invalidated;
  struct stream *origin;
  struct graph *graph;
  uint64_t thread;
  struct capture *next;
};

// Whether a call that may not happen during captures is allowed now; it invalidates those that forbid it.
CUresult unsafe_call(void);
// The same for what synchronizes or queries the whole context, or works on the legacy stream.
CUresult context_wide_call(struct context *context);
CUresult legacy_stream_call(struct context *context);
void invalidate(struct capture *capture);
struct capture *find_capture(uint64_t id);  // NULL when it has ended
struct capture *capture_into(const struct graph *graph);
void abandon_capture(struct stream *stream);  // the stream is about to go
CUresult capturing_allowed(struct stream *stream);  // for what may be captured: 901 when invalidated
struct node *capture_node(struct stream *stream, int type);

#endif
