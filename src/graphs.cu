// Launch overhead of a stream loop against replay of the same sequence as a CUDA graph.
//
// One source, three products:
//   graphs             stand-alone program:  nvcc -O2 -arch=sm_90a -o graphs graphs.cu  (any architecture)
//   graphs.fatbin      the kernels, loaded through the driver API
//   liblaunchloops.so  native issue loops (-DLAUNCHBENCH_LIBRARY), called once per N with the caller's
//                      stream and buffer
//
// `graphs --help` lists what the program can be asked for.

#include <cuda_runtime.h>

// Deliberately tiny: what remains is the cost of launching it.
extern "C" __global__ void tiny(float* d) { d[0] += 1.0f; }

// The control: same parameter, no memory access.
extern "C" __global__ void empty(float*) {}

// Both for launches that depend by program: the next one may be set up at once, and each waits until its
// predecessor has ended and its writes are visible, so the count stays exact. Below sm_90 there is no such
// launch, and these are never used.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

extern "C" __global__ void tiny_dependent(float* d) {
  wait_for_predecessor();
  d[0] += 1.0f;
}

extern "C" __global__ void empty_dependent(float*) { wait_for_predecessor(); }

// The floor: the increments of a whole loop in one launch, through memory each time, and in a register
// (nvcc makes one load and one store of that loop).
extern "C" __global__ void fused_memory(float* d, unsigned count) {
  volatile float* seen = d;
  for (unsigned i = 0; i < count; ++i) seen[0] = seen[0] + 1.0f;
}

extern "C" __global__ void fused_register(float* d, unsigned count) {
  for (unsigned i = 0; i < count; ++i) d[0] += 1.0f;
}

__device__ __forceinline__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Runs for so many cycles of its multiprocessor's clock, then counts: a kernel of a chosen length.
extern "C" __global__ void spin(float* d, unsigned long long cycles) {
  const unsigned long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
  d[0] += 1.0f;
}

// Holds its stream until the host sets words[0], or for limit_ns; words[1] says that it was for limit_ns.
extern "C" __global__ void gate(volatile unsigned* words, unsigned long long limit_ns) {
  const unsigned long long begin = nanoseconds();
  while (!words[0]) {
    if (nanoseconds() - begin > limit_ns) {
      words[1] = 1;
      return;
    }
  }
}

#ifdef LAUNCHBENCH_LIBRARY

#include <cuda.h>
#include <dlfcn.h>
#include <time.h>

// One timed interval: the caller's events on its stream, and the host clock in nanoseconds.
struct Interval {
  CUevent first, second;
  CUstream stream;
  long long begin_ns, issued_ns;
  int recorded;  // CUresult of the events
};

// The host clock of intervals.
extern "C" long long launchbench_host_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

namespace {

using LaunchKernel = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                  CUstream, void**, void**);
using LaunchKernelEx = CUresult (*)(const CUlaunchConfig*, CUfunction, void**, void**);
using GraphLaunch = CUresult (*)(CUgraphExec, CUstream);
using RecordEvent = CUresult (*)(CUevent, CUstream);
using SetNode = CUresult (*)(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*);

// Looked up in the driver that the process has loaded already, so that building needs no driver and no stub.
template <typename Function>
Function find(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver ? reinterpret_cast<Function>(dlsym(driver, name)) : nullptr;
}

// Issues between the two events, with nothing of the caller's language in between; returns what `issue` returns.
template <typename... Arguments>
int timed(Interval* interval, int (*issue)(Arguments...), Arguments... arguments) {
  static RecordEvent record = nullptr;
  if (!record && !(record = find<RecordEvent>("cuEventRecord"))) return CUDA_ERROR_NOT_INITIALIZED;
  interval->recorded = record(interval->first, interval->stream);
  if (interval->recorded != CUDA_SUCCESS) return CUDA_SUCCESS;
  interval->begin_ns = launchbench_host_ns();
  const int status = issue(arguments...);
  interval->issued_ns = launchbench_host_ns();
  if (status != CUDA_SUCCESS) return status;
  interval->recorded = record(interval->second, interval->stream);
  return CUDA_SUCCESS;
}

}  // namespace

// Issues `count` launches of `function` <<<1,1>>> with the one argument `buffer`; returns the first CUresult
// that is not CUDA_SUCCESS, or CUDA_ERROR_NOT_INITIALIZED where no driver is loaded.
extern "C" int launchbench_issue_driver(CUfunction function, CUstream stream, CUdeviceptr buffer, unsigned count) {
  static LaunchKernel launch = nullptr;
  if (!launch && !(launch = find<LaunchKernel>("cuLaunchKernel"))) return CUDA_ERROR_NOT_INITIALIZED;
  void* arguments[] = {&buffer};
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = launch(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// The same, each launch dependent by program on the one before (programmatic stream serialization); `function` has
// to wait for its predecessor itself.
extern "C" int launchbench_issue_dependent(CUfunction function, CUstream stream, CUdeviceptr buffer, unsigned count) {
  static LaunchKernelEx launch = nullptr;
  if (!launch && !(launch = find<LaunchKernelEx>("cuLaunchKernelEx"))) return CUDA_ERROR_NOT_INITIALIZED;
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* arguments[] = {&buffer};
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = launch(&config, function, arguments, nullptr);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// One launch that does the work of a whole loop.
extern "C" int launchbench_issue_fused(CUfunction function, CUstream stream, CUdeviceptr buffer, unsigned count) {
  static LaunchKernel launch = nullptr;
  if (!launch && !(launch = find<LaunchKernel>("cuLaunchKernel"))) return CUDA_ERROR_NOT_INITIALIZED;
  void* arguments[] = {&buffer, &count};
  return launch(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
}

// A loop of `spin`.
extern "C" int launchbench_issue_spin(CUfunction function, CUstream stream, CUdeviceptr buffer, unsigned count,
                                      unsigned long long cycles) {
  static LaunchKernel launch = nullptr;
  if (!launch && !(launch = find<LaunchKernel>("cuLaunchKernel"))) return CUDA_ERROR_NOT_INITIALIZED;
  void* arguments[] = {&buffer, &cycles};
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = launch(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// Points `count` kernel nodes of an executable graph at `buffer`; `nodes` are those of the graph it was made from,
// each a launch of `function` <<<1,1>>> with that one argument.
extern "C" int launchbench_set_nodes(CUgraphExec executable, CUgraphNode* nodes, CUfunction function, CUdeviceptr buffer,
                                     unsigned count) {
  static SetNode set = nullptr;
  if (!set && !(set = find<SetNode>("cuGraphExecKernelNodeSetParams_v2"))) return CUDA_ERROR_NOT_INITIALIZED;
  void* arguments[] = {&buffer};
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = function;
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = set(executable, nodes[i], &parameters);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// `count` launches through the runtime's <<<>>>; returns a cudaError_t.
extern "C" int launchbench_issue_runtime_tiny(cudaStream_t stream, float* buffer, unsigned count) {
  for (unsigned i = 0; i < count; ++i) tiny<<<1, 1, 0, stream>>>(buffer);
  return cudaGetLastError();
}

extern "C" int launchbench_issue_runtime_empty(cudaStream_t stream, float* buffer, unsigned count) {
  for (unsigned i = 0; i < count; ++i) empty<<<1, 1, 0, stream>>>(buffer);
  return cudaGetLastError();
}

// `count` launches of one executable graph.
extern "C" int launchbench_issue_replay(CUgraphExec executable, CUstream stream, unsigned count) {
  static GraphLaunch launch = nullptr;
  if (!launch && !(launch = find<GraphLaunch>("cuGraphLaunch"))) return CUDA_ERROR_NOT_INITIALIZED;
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = launch(executable, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// The same as the functions above, timed.
extern "C" int launchbench_time_driver(Interval* interval, CUfunction function, CUstream stream, CUdeviceptr buffer,
                                       unsigned count) {
  return timed(interval, launchbench_issue_driver, function, stream, buffer, count);
}

extern "C" int launchbench_time_dependent(Interval* interval, CUfunction function, CUstream stream, CUdeviceptr buffer,
                                          unsigned count) {
  return timed(interval, launchbench_issue_dependent, function, stream, buffer, count);
}

extern "C" int launchbench_time_fused(Interval* interval, CUfunction function, CUstream stream, CUdeviceptr buffer,
                                      unsigned count) {
  return timed(interval, launchbench_issue_fused, function, stream, buffer, count);
}

extern "C" int launchbench_time_spin(Interval* interval, CUfunction function, CUstream stream, CUdeviceptr buffer,
                                     unsigned count, unsigned long long cycles) {
  return timed(interval, launchbench_issue_spin, function, stream, buffer, count, cycles);
}

extern "C" int launchbench_time_runtime_tiny(Interval* interval, cudaStream_t stream, float* buffer, unsigned count) {
  return timed(interval, launchbench_issue_runtime_tiny, stream, buffer, count);
}

extern "C" int launchbench_time_runtime_empty(Interval* interval, cudaStream_t stream, float* buffer, unsigned count) {
  return timed(interval, launchbench_issue_runtime_empty, stream, buffer, count);
}

extern "C" int launchbench_time_replay(Interval* interval, CUgraphExec executable, CUstream stream, unsigned count) {
  return timed(interval, launchbench_issue_replay, executable, stream, count);
}

#else  // stand-alone program

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#define CUDA_CHECK(call)                                                                          \
  do {                                                                                            \
    cudaError_t cuda_check_error = (call);                                                        \
    if (cuda_check_error != cudaSuccess) {                                                        \
      std::fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call,                     \
                   cudaGetErrorString(cuda_check_error), cudaGetErrorName(cuda_check_error));     \
      std::exit(1);                                                                               \
    }                                                                                             \
  } while (0)

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// One timed interval, microseconds.
struct Sample {
  double gpu;    // between the events, on the device
  double issue;  // host clock until the last launch call returned
  double total;  // host clock until the stream was synchronized
};

enum class Kernel { kTiny, kEmpty };

void issue_loop(Kernel kernel, cudaStream_t stream, float* buffer, unsigned count) {
  if (kernel == Kernel::kTiny) {
    for (unsigned i = 0; i < count; ++i) tiny<<<1, 1, 0, stream>>>(buffer);
  } else {
    for (unsigned i = 0; i < count; ++i) empty<<<1, 1, 0, stream>>>(buffer);
  }
  CUDA_CHECK(cudaGetLastError());
}

// Counts increments in float32, which is exact only up to 2^24: verified and set back to zero before that.
class Counter {
 public:
  Counter(float* buffer, Kernel kernel, cudaStream_t stream) : buffer_(buffer), kernel_(kernel), stream_(stream) {
    reset();
  }

  void expect(unsigned launches) {
    if (pending_ + launches > kExact) verify();
    pending_ += launches;
    total_ += launches;
  }

  // Ends the program when the buffer does not hold exactly what was launched since the last check.
  void verify() {
    float seen = -1.0f;
    CUDA_CHECK(cudaMemcpyAsync(&seen, buffer_, sizeof seen, cudaMemcpyDeviceToHost, stream_));
    CUDA_CHECK(cudaStreamSynchronize(stream_));
    const float expected = kernel_ == Kernel::kTiny ? static_cast<float>(pending_) : 0.0f;
    if (seen != expected) {
      std::fprintf(stderr, "wrong count: d[0] = %.1f, expected %.1f\n", seen, expected);
      std::exit(1);
    }
    reset();
  }

  unsigned long long total() const { return total_; }

 private:
  static constexpr unsigned long long kExact = 1ull << 24;

  void reset() {
    CUDA_CHECK(cudaMemsetAsync(buffer_, 0, sizeof(float), stream_));
    CUDA_CHECK(cudaStreamSynchronize(stream_));
    pending_ = 0;
  }

  float* buffer_;
  Kernel kernel_;
  cudaStream_t stream_;
  unsigned long long pending_ = 0;
  unsigned long long total_ = 0;
};

// The stream and the two events that everything is timed on: one of each for the whole program, as launchbench
// has them. When they were destroyed and made anew between two N, graphs of the later N replayed slower (H200,
// driver 580.159.04: 0.68 instead of 0.51 us per empty node).
class Timer {
 public:
  Timer() {
    // Non-blocking, as cuda-python makes its streams: no implicit order with the legacy default stream.
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&start_));
    CUDA_CHECK(cudaEventCreate(&stop_));
  }

  ~Timer() {
    CUDA_CHECK(cudaEventDestroy(stop_));
    CUDA_CHECK(cudaEventDestroy(start_));
    CUDA_CHECK(cudaStreamDestroy(stream_));
  }

  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  cudaStream_t stream() const { return stream_; }

  template <typename Work>
  Sample time(Work work) {
    CUDA_CHECK(cudaEventRecord(start_, stream_));
    const auto begin = Clock::now();
    work();
    const auto issued = Clock::now();
    CUDA_CHECK(cudaEventRecord(stop_, stream_));
    CUDA_CHECK(cudaStreamSynchronize(stream_));
    const auto done = Clock::now();
    float milliseconds = 0.0f;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return {milliseconds * 1e3, microseconds(begin, issued), microseconds(begin, done)};
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

// The captured, instantiated and uploaded graph of one loop.
class Graph {
 public:
  Graph(Kernel kernel, float* buffer, unsigned n, cudaStream_t stream) {
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    issue_loop(kernel, stream, buffer, n);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph_));
    CUDA_CHECK(cudaGraphInstantiate(&exec_, graph_, 0));
    CUDA_CHECK(cudaGraphUpload(exec_, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }

  ~Graph() {
    CUDA_CHECK(cudaGraphExecDestroy(exec_));
    CUDA_CHECK(cudaGraphDestroy(graph_));
  }

  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const { CUDA_CHECK(cudaGraphLaunch(exec_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

// Exercise 4: what does a replay do after the buffer that it was captured with has been freed? One scenario a
// process, since one of them loses the context. Every call is printed with its code and none after the capture ends
// the program: what follows an error is the answer. The lines are those of launchbench.pointers.lines.
class Scenario {
 public:
  explicit Scenario(const std::string& name) : name_(name) { std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12); }

  // Exit status: 0 when the scenario came to its end, whatever the calls said, 1 when it did not come about.
  int run() {
    const bool came_about = set_up() && free_and_replace();
    if (came_about) {
      step("replay");
      replay();
      step("after");
      look();
      step("release");
      release();
    }
    // The last line, and only where all before it was done.
    if (came_about) std::printf("complete %s 0\n", name_.c_str());
    return came_about ? 0 : 1;
  }

 private:
  static constexpr size_t kSmall = sizeof(float);
  static constexpr size_t kLarge = size_t(64) << 20;  // mapped alone, unmapped when it is freed

  void step(const char* name) { std::printf("step %s\n", name); }

  bool ok(const char* call, cudaError_t code) {
    std::printf("call %s %d %s\n", call, static_cast<int>(code), cudaGetErrorName(code));
    return code == cudaSuccess;
  }

  bool allocate(const char* name, float** buffer, size_t bytes = kSmall) {
    if (!ok("cudaMalloc", cudaMalloc(buffer, bytes))) return false;
    std::printf("address %s %#llx\n", name, static_cast<unsigned long long>(reinterpret_cast<size_t>(*buffer)));
    return ok("cudaMemsetAsync", cudaMemsetAsync(*buffer, 0, sizeof(float), stream_)) && synchronize();
  }

  bool synchronize() { return ok("cudaStreamSynchronize", cudaStreamSynchronize(stream_)); }

  bool replay() {
    const bool launched = ok("cudaGraphLaunch", cudaGraphLaunch(exec_, stream_));
    return synchronize() && launched;
  }

  bool read(const char* name, const float* buffer) {
    float value = -1.0f;
    if (!ok("cudaMemcpy", cudaMemcpy(&value, buffer, sizeof value, cudaMemcpyDeviceToHost))) return false;
    std::printf("value %s %.9g\n", name, value);
    return true;
  }

  bool set_up() {
    step("prepare");
    cudaDeviceProp properties;
    if (!ok("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, 0))) return false;
    std::printf("device GPU-");
    for (int i = 0; i < 16; ++i) {
      const bool hyphen = i == 4 || i == 6 || i == 8 || i == 10;
      std::printf("%s%02x", hyphen ? "-" : "", static_cast<unsigned char>(properties.uuid.bytes[i]));
    }
    std::printf("\n");
    if (!ok("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking))) return false;
    if (!allocate("d", &d_, name_ == "unmapped" ? kLarge : kSmall)) return false;
    const bool d2_first = name_ == "unowned" || name_ == "unmapped" || name_ == "control";
    if (d2_first && !allocate("d2", &d2_)) return false;
    step("capture");
    if (!ok("cudaStreamBeginCapture", cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal))) return false;
    tiny<<<1, 1, 0, stream_>>>(d_);  // the address of d is baked into the graph here
    if (!ok("cudaLaunchKernel", cudaGetLastError())) return false;
    if (!ok("cudaStreamEndCapture", cudaStreamEndCapture(stream_, &graph_))) return false;
    if (!ok("cudaGraphInstantiate", cudaGraphInstantiate(&exec_, graph_, 0))) return false;
    step("first-replay");
    return replay() && read("captured", d_);
  }

  bool free_and_replace() {
    step("free");
    if (name_ != "control" && !ok("cudaFree", cudaFree(d_))) return false;
    if (name_ == "victim" && !allocate("victim", &victim_)) return false;
    return d2_ || allocate("d2", &d2_);
  }

  void look() {
    if (name_ == "control") read("d", d_);
    read("d2", d2_);
    if (victim_) read("victim", victim_);
    allocate("probe", &probe_);
  }

  void release() {
    for (float* buffer : {name_ == "control" ? d_ : nullptr, d2_, victim_, probe_}) {
      if (buffer) ok("cudaFree", cudaFree(buffer));
    }
    ok("cudaGraphExecDestroy", cudaGraphExecDestroy(exec_));
    ok("cudaGraphDestroy", cudaGraphDestroy(graph_));
    ok("cudaStreamDestroy", cudaStreamDestroy(stream_));
  }

  const std::string name_;
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  float *d_ = nullptr, *d2_ = nullptr, *victim_ = nullptr, *probe_ = nullptr;
};

struct Options {
  std::string pointers;  // the scenario of exercise 4, empty for the other exercises
  std::vector<unsigned> counts{8, 64, 512, 4096};
  unsigned repetitions = 50;
  unsigned warmup = 5;
  unsigned warmup_ms = 200;
  Kernel kernel = Kernel::kTiny;
  unsigned offsets = 1;
  bool csv = false;
};

struct Series {
  std::vector<Sample> loop, replay;
};

// Loop and replay alternate, so drift of clocks or host load hits both.
Series measure(const Options& options, Timer& timer, float* buffer, unsigned n) {
  const cudaStream_t stream = timer.stream();
  Counter counter(buffer, options.kernel, stream);
  // Once outside the capture: kernels are loaded lazily, at their first launch.
  counter.expect(n);
  issue_loop(options.kernel, stream, buffer, n);
  const Graph graph(options.kernel, buffer, n, stream);
  Series series;
  const auto round = [&] {
    counter.expect(2 * n);
    const Sample loop = timer.time([&] { issue_loop(options.kernel, stream, buffer, n); });
    return std::make_pair(loop, timer.time([&] { graph.launch(stream); }));
  };
  const auto begin = Clock::now();
  for (unsigned i = 0; i < options.warmup || microseconds(begin, Clock::now()) < options.warmup_ms * 1e3; ++i) round();
  for (unsigned i = 0; i < options.repetitions; ++i) {
    const std::pair<Sample, Sample> samples = round();
    series.loop.push_back(samples.first);
    series.replay.push_back(samples.second);
  }
  counter.verify();
  if (!options.csv) {
    std::printf("N = %-5u correct: %llu increments counted\n", n, counter.total());
  }
  return series;
}

double median(const std::vector<Sample>& samples, double Sample::* field) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*field);
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void print_exercises(const Options& options, Timer& timer, float* buffer) {
  std::vector<Series> all;
  for (unsigned n : options.counts) all.push_back(measure(options, timer, buffer, n));
  std::printf("\nExercises 1 to 3: medians of %u repetitions, GPU time by events\n", options.repetitions);
  std::printf("%6s %12s %12s %9s %14s %12s\n", "N", "loop_us", "replay_us", "speedup", "us_per_launch", "us_per_node");
  for (size_t i = 0; i < all.size(); ++i) {
    const unsigned n = options.counts[i];
    const double loop = median(all[i].loop, &Sample::gpu), replay = median(all[i].replay, &Sample::gpu);
    std::printf("%6u %12.2f %12.2f %9.2f %14.3f %12.3f\n", n, loop, replay, loop / replay, loop / n, replay / n);
  }
  std::printf("\nExercise 5: the same loop by two clocks (us)\n");
  std::printf("%6s %14s %16s %18s\n", "N", "gpu (events)", "cpu, no sync", "cpu, with sync");
  for (size_t i = 0; i < all.size(); ++i) {
    const double gpu = median(all[i].loop, &Sample::gpu), issue = median(all[i].loop, &Sample::issue);
    std::printf("%6u %14.2f %16.2f %18.2f   %s\n", options.counts[i], gpu, issue,
                median(all[i].loop, &Sample::total),
                issue < 0.9 * gpu ? "the host was done before the device" : "issuing took as long as the device");
  }
  std::printf("Without a synchronize the CPU clock reads the time of issuing; with it, issuing and execution.\n");
}

void print_csv(const Options& options, Timer& timer, float* buffer, size_t offset_bytes) {
  const char* kernel = options.kernel == Kernel::kTiny ? "tiny" : "empty";
  for (unsigned n : options.counts) {
    const Series series = measure(options, timer, buffer, n);
    for (size_t i = 0; i < series.loop.size(); ++i) {
      for (const bool replay : {false, true}) {
        const Sample& sample = replay ? series.replay[i] : series.loop[i];
        std::printf("%u,%s,%zu,%s,%zu,%.4f,%.4f,%.4f\n", n, kernel, offset_bytes, replay ? "replay" : "loop", i,
                    sample.gpu, sample.issue, sample.total);
      }
    }
  }
}

constexpr unsigned kMaxCount = 1u << 20;
constexpr size_t kBufferBytes = size_t(64) << 20;

[[noreturn]] void usage(int status) {
  std::fprintf(status ? stderr : stdout,
               "usage: graphs [--n N[,N...]] [--repetitions R] [--warmup W] [--warmup-ms M]\n"
               "              [--kernel tiny|empty] [--offsets K] [--csv]\n"
               "       graphs --pointers control|recycled|victim|unowned|unmapped\n"
               "Without options: exercises 1, 2, 3 and 5 for N = 8, 64, 512, 4096.\n"
               "  --n            launches per loop and nodes per graph, 1 to %u\n"
               "  --repetitions  timed repetitions of each (50)\n"
               "  --warmup       untimed rounds before (5)\n"
               "  --warmup-ms    and for at least so many milliseconds, 0 to 60000 (200)\n"
               "  --offsets      repeat at K evenly spaced offsets of one 64 MiB buffer, 1 to 4096 (needs --csv)\n"
               "  --csv          one row a repetition instead of tables\n"
               "  --pointers     exercise 4: replay after the captured buffer was freed, a line a call\n",
               kMaxCount);
  std::exit(status);
}

unsigned parse_number(const std::string& text, unsigned maximum, unsigned minimum = 1) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  if (text.empty() || text[0] < '0' || text[0] > '9' || *end || value < minimum || value > maximum) {
    std::fprintf(stderr, "graphs: got '%s'; expected a whole number from %u to %u\n", text.c_str(), minimum, maximum);
    usage(2);
  }
  return static_cast<unsigned>(value);
}

bool is_scenario(const std::string& name) {
  const auto known = {"control", "recycled", "victim", "unowned", "unmapped"};
  return std::find(known.begin(), known.end(), name) != known.end();
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") usage(0);
    if (name == "--csv") {
      options.csv = true;
      continue;
    }
    if (i + 1 == argc) usage(2);
    const std::string value = argv[++i];
    if (name == "--n") {
      options.counts.clear();
      for (size_t from = 0; from <= value.size();) {
        const size_t comma = std::min(value.find(',', from), value.size());
        options.counts.push_back(parse_number(value.substr(from, comma - from), kMaxCount));
        from = comma + 1;
      }
    } else if (name == "--repetitions") {
      options.repetitions = parse_number(value, 1000000);
    } else if (name == "--warmup") {
      options.warmup = parse_number(value, 1000000);
    } else if (name == "--warmup-ms") {
      options.warmup_ms = parse_number(value, 60000, 0);
    } else if (name == "--offsets") {
      options.offsets = parse_number(value, 4096);
    } else if (name == "--pointers" && is_scenario(value)) {
      options.pointers = value;
    } else if (name == "--kernel" && (value == "tiny" || value == "empty")) {
      options.kernel = value == "tiny" ? Kernel::kTiny : Kernel::kEmpty;
    } else {
      std::fprintf(stderr, "graphs: unknown option %s %s\n", name.c_str(), value.c_str());
      usage(2);
    }
  }
  if (options.offsets > 1 && !options.csv) usage(2);
  return options;
}

void run(const Options& options) {
  const size_t bytes = options.offsets > 1 ? kBufferBytes : sizeof(float);
  float* buffer = nullptr;
  CUDA_CHECK(cudaMalloc(&buffer, bytes));
  Timer timer;
  if (options.csv) {
    std::printf("launch_count,kernel,offset_bytes,mode,repetition,gpu_us,issue_us,total_us\n");
    for (unsigned i = 0; i < options.offsets; ++i) {
      const size_t offset = bytes / options.offsets * i / 256 * 256;
      print_csv(options, timer, buffer + offset / sizeof(float), offset);
    }
  } else {
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("%s, compute capability %d.%d\n", properties.name, properties.major, properties.minor);
    print_exercises(options, timer, buffer);
  }
  CUDA_CHECK(cudaFree(buffer));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!options.pointers.empty()) return Scenario(options.pointers).run();
  run(options);
  return 0;
}

#endif  // LAUNCHBENCH_LIBRARY
