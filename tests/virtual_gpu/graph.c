// Graphs, their nodes, and executable graphs with update and replay. Addresses are those of the capture.
#include <stdlib.h>
#include <string.h>

#include "virtual_gpu.h"

struct user_object {
  enum kind kind;
  unsigned references;
  void *object;
  void (*destroy)(void *object);
};

struct exec {
  enum kind kind;
  struct context *context;
  struct program *program;
  struct node **sources;  // nodes of the graph it was made from, in the order of the program
  struct user_object **objects;
  size_t object_count;
  bool uploaded;
};

// ---------------------------------------------------------------- graphs and nodes

struct graph *new_graph(void) {
  struct graph *graph = calloc(1, sizeof *graph);
  graph->kind = GRAPH;
  return graph;
}

struct node *add_node(struct graph *graph, int type, struct node *const *dependencies, size_t count) {
  if (graph->node_count == graph->room) {
    graph->room = graph->room ? 2 * graph->room : 16;
    graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
  }
  struct node *node = calloc(1, sizeof *node);
  *node = (struct node){.kind = NODE, .type = type, .graph = graph, .index = graph->node_count};
  node->dependencies = malloc((count + 1) * sizeof *node->dependencies);
  if (count) memcpy(node->dependencies, dependencies, count * sizeof *node->dependencies);
  node->dependency_count = count;
  graph->nodes[graph->node_count++] = node;
  return node;
}

void set_kernel(struct node *node, struct kernel *kernel, CUdeviceptr address, const CUlaunchConfig *how) {
  node->kernel = kernel;
  node->address = address;
  node->how = *how;
}

static void release_object(struct user_object *object, unsigned count) {
  if (object->references > count) {
    object->references -= count;
    return;
  }
  object->kind = DEAD;
  if (object->destroy) call_later(object->destroy, object->object);
}

void kill_graph(struct graph *graph) {
  if (!alive(graph, GRAPH)) return;
  invalidate(capture_into(graph));
  for (size_t i = 0; i < graph->node_count; ++i) {
    free(graph->nodes[i]->dependencies);
    free(graph->nodes[i]);
  }
  for (size_t i = 0; i < graph->object_count; ++i) release_object(graph->objects[i], 1);
  free(graph->nodes);
  free(graph->objects);
  *graph = (struct graph){.kind = DEAD};
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  PLAIN_CALL(cuGraphDestroy);
  if (!alive(graph, GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  kill_graph(graph);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  PLAIN_CALL(cuGraphGetNodes);
  if (!alive(graph, GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; nodes && i < *count; ++i) nodes[i] = i < graph->node_count ? graph->nodes[i] : NULL;
  if (!nodes || *count > graph->node_count) *count = graph->node_count;
  return CUDA_SUCCESS;
}

static CUlaunchConfig launch_of(const CUDA_KERNEL_NODE_PARAMS *from) {
  return (CUlaunchConfig){from->gridDimX,  from->gridDimY,       from->gridDimZ, from->blockDimX, from->blockDimY,
                          from->blockDimZ, from->sharedMemBytes, NULL,           NULL,            0};
}

// Changes a kernel node to these parameters.
static CUresult apply(struct node *node, const CUDA_KERNEL_NODE_PARAMS *from) {
  struct kernel *kernel = from->func ? from->func : from->kern;
  CUlaunchConfig how = launch_of(from);
  CUdeviceptr address = 0;
  unsigned count = 1;
  if (node->type != CU_GRAPH_NODE_TYPE_KERNEL || !alive(kernel, KERNEL)) return CUDA_ERROR_INVALID_VALUE;
  if (!from->gridDimX || !from->blockDimX || from->extra) return CUDA_ERROR_INVALID_VALUE;
  if (kernel->counts) {
    if (!from->kernelParams) return CUDA_ERROR_INVALID_VALUE;
    memcpy(&address, from->kernelParams[0], sizeof address);
    if (kernel->work != PLAIN) memcpy(&count, from->kernelParams[1], sizeof count);
  }
  set_kernel(node, kernel, address, &how);
  node->value = count;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *to) {
  PLAIN_CALL(cuGraphKernelNodeGetParams);
  if (!alive(node, NODE) || node->type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
  node->parameter = &node->address;
  *to = (CUDA_KERNEL_NODE_PARAMS){.func = node->kernel,
                                  .gridDimX = node->how.gridDimX,
                                  .gridDimY = node->how.gridDimY,
                                  .gridDimZ = node->how.gridDimZ,
                                  .blockDimX = node->how.blockDimX,
                                  .blockDimY = node->how.blockDimY,
                                  .blockDimZ = node->how.blockDimZ,
                                  .sharedMemBytes = node->how.sharedMemBytes,
                                  .kernelParams = &node->parameter};
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *to) ALIAS(cuGraphKernelNodeGetParams_v2);

EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *from) {
  PLAIN_CALL(cuGraphKernelNodeSetParams);
  return alive(node, NODE) ? apply(node, from) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *from)
    ALIAS(cuGraphKernelNodeSetParams_v2);

// ---------------------------------------------------------------- user objects: what a graph keeps alive

EXPORT CUresult cuUserObjectCreate(CUuserObject *object, void *pointer, void (*destroy)(void *), unsigned references,
                                   unsigned flags) {
  PLAIN_CALL(cuUserObjectCreate);
  (void)flags;
  struct user_object *created = calloc(1, sizeof *created);
  *created = (struct user_object){USER_OBJECT, references, pointer, destroy};
  *object = created;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  PLAIN_CALL(cuUserObjectRelease);
  if (!alive(object, USER_OBJECT)) return CUDA_ERROR_INVALID_VALUE;
  release_object(object, count);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  PLAIN_CALL(cuGraphRetainUserObject);
  const unsigned move = 1;
  if (!alive(graph, GRAPH) || !alive(object, USER_OBJECT)) return CUDA_ERROR_INVALID_VALUE;
  if (!(flags & move)) object->references += count;
  graph->objects = realloc(graph->objects, (graph->object_count + count) * sizeof *graph->objects);
  for (unsigned i = 0; i < count; ++i) graph->objects[graph->object_count++] = object;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  PLAIN_CALL(cuGraphReleaseUserObject);
  if (!alive(graph, GRAPH) || !alive(object, USER_OBJECT)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = graph->object_count; i-- > 0 && count;) {
    if (graph->objects[i] != object) continue;
    graph->objects[i] = graph->objects[--graph->object_count];
    release_object(object, 1);
    --count;
  }
  return count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// ---------------------------------------------------------------- executable graphs

static struct program *program_of(const struct graph *graph) {
  struct program *program = calloc(1, sizeof *program);
  *program = (struct program){1, calloc(graph->node_count + 1, sizeof(struct node)), graph->node_count};
  for (size_t i = 0; i < graph->node_count; ++i) program->nodes[i] = *graph->nodes[i];
  return program;
}

void release_program(struct program *program) {
  if (!program || --program->references) return;
  free(program->nodes);
  free(program);
}

// The program, for a change: replays that are on their way keep the one they were started with.
static struct program *own_program(struct exec *exec) {
  struct program *old = exec->program;
  if (old->references == 1) return old;
  struct program *copy = calloc(1, sizeof *copy);
  *copy = (struct program){1, calloc(old->node_count + 1, sizeof(struct node)), old->node_count};
  memcpy(copy->nodes, old->nodes, old->node_count * sizeof *copy->nodes);
  --old->references;
  return exec->program = copy;
}

static struct node **sources_of(const struct graph *graph) {
  struct node **sources = malloc((graph->node_count + 1) * sizeof *sources);
  memcpy(sources, graph->nodes, graph->node_count * sizeof *sources);
  return sources;
}

// An executable graph keeps alive what its graph does.
static void retain_objects(struct exec *exec, const struct graph *graph) {
  exec->object_count = graph->object_count;
  exec->objects = malloc((graph->object_count + 1) * sizeof *exec->objects);
  for (size_t i = 0; i < graph->object_count; ++i) {
    exec->objects[i] = graph->objects[i];
    ++exec->objects[i]->references;
  }
}

static double upload_us(const struct exec *exec) {
  const struct costs *costs = &exec->context->card->costs;
  return costs->upload_us + costs->upload_node_us * (double)exec->program->node_count;
}

static void upload(struct exec *exec, struct stream *stream) {
  if (!exec->uploaded) stream->timeline.busy_until = clock_us() + upload_us(exec) * device_factor(stream->context);
  exec->uploaded = true;
}

static double graph_bytes(const struct exec *exec) {
  return exec->context->card->costs.graph_node_bytes * (double)exec->program->node_count;
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph) {
  if (!alive(graph, GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  struct exec *created = calloc(1, sizeof *created);
  *created = (struct exec){
      .kind = EXEC, .context = current(), .program = program_of(graph), .sources = sources_of(graph)};
  retain_objects(created, graph);
  created->context->graph_bytes += graph_bytes(created);
  const struct costs *costs = &created->context->card->costs;
  spend_us((costs->instantiate_us + costs->instantiate_node_us * (double)graph->node_count) *
           burst_factor(created->context));
  *exec = created;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  CONTEXT_CALL(cuGraphInstantiate);
  (void)flags;
  return instantiate(exec, graph);
}
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
    ALIAS(cuGraphInstantiateWithFlags);

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *how) {
  CONTEXT_CALL(cuGraphInstantiateWithParams);
  struct stream *stream;
  CUresult result = find_stream(how->hUploadStream, &stream);
  if (result) return result;
  result = instantiate(exec, graph);
  how->result_out = result ? 1 : 0;
  how->hErrNode_out = NULL;
  if (!result && how->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) upload(*exec, stream);
  return result;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  PLAIN_CALL(cuGraphExecDestroy);
  if (!alive(exec, EXEC)) return CUDA_ERROR_INVALID_VALUE;
  exec->context->graph_bytes -= graph_bytes(exec);
  release_program(exec->program);
  for (size_t i = 0; i < exec->object_count; ++i) release_object(exec->objects[i], 1);
  free(exec->objects);
  free(exec->sources);
  exec->kind = DEAD;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
  CONTEXT_CALL(cuGraphUpload);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (!alive(exec, EXEC)) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) {
    invalidate(stream->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  upload(exec, stream);
  return CUDA_SUCCESS;
}

static void replay(struct op *op) {
  for (size_t i = 0; i < op->program->node_count && !op->context->lost; ++i) {
    const struct node *node = &op->program->nodes[i];
    if (node->type == CU_GRAPH_NODE_TYPE_MEMSET) fill_node(op, node);
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL && node->kernel->counts)
      count_up(op, node->address, node->kernel->work == SPIN ? 1 : node->value);
  }
}

static double replay_us(const struct card *card, const struct program *program) {
  double time = card->costs.graph_fixed_us;
  for (size_t i = 0; i < program->node_count; ++i) {
    const struct node *node = &program->nodes[i];
    time += node->dependent ? card->costs.dependent_node_us : card->costs.node_us;
    if (node->kernel) time += kernel_us(card, node->kernel, node->address, node->value);
  }
  return time;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  CONTEXT_CALL(cuGraphLaunch);
  struct stream *stream;
  CUresult result = find_stream(handle, &stream);
  if (result) return result;
  if (!alive(exec, EXEC)) return CUDA_ERROR_INVALID_VALUE;
  if ((result = capturing_allowed(stream))) return result;
  if (stream->capture) return CUDA_ERROR_NOT_SUPPORTED;
  const struct card *card = stream->context->card;
  struct program *program = exec->program;
  spend_us((card->costs.graph_launch_us + card->costs.graph_launch_node_us * (double)program->node_count) *
           burst_factor(stream->context));
  upload(exec, stream);
  ++program->references;
  submit(stream, (struct op){.effect = replay, .program = program},
         replay_us(card, program) * device_factor(stream->context));
  return CUDA_SUCCESS;
}

// Why a graph cannot be put in the place of a program; 0 when it can.
static int misfit(const struct program *program, struct graph *graph, CUgraphNode *at) {
  *at = NULL;
  if (program->node_count != graph->node_count) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (size_t i = 0; i < graph->node_count; ++i) {
    *at = graph->nodes[i];
    if (program->nodes[i].type != graph->nodes[i]->type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (program->nodes[i].dependency_count != graph->nodes[i]->dependency_count)
      return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  }
  *at = NULL;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  CONTEXT_CALL(cuGraphExecUpdate);
  if (!alive(exec, EXEC) || !alive(graph, GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNode at;
  int reason = misfit(exec->program, graph, &at);
  *info = (CUgraphExecUpdateResultInfo){reason, at, NULL};
  if (reason) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  struct program *program = own_program(exec);
  for (size_t i = 0; i < graph->node_count; ++i) program->nodes[i] = *graph->nodes[i];
  return CUDA_SUCCESS;
}
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
    ALIAS(cuGraphExecUpdate_v2);

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS *from) {
  CONTEXT_CALL(cuGraphExecKernelNodeSetParams);
  if (!alive(exec, EXEC) || !node) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < exec->program->node_count; ++i)
    if (exec->sources[i] == node) return apply(&own_program(exec)->nodes[i], from);
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *from)
    ALIAS(cuGraphExecKernelNodeSetParams_v2);

