// The few calls of the CUDA runtime that exercise 4 of the stand-alone program makes, on the driver API of the virtual
// GPU. It is for a test of that program's host code: nvcc's own runtime cannot run there.
#ifndef LAUNCHBENCH_CUDA_RUNTIME_H
#define LAUNCHBENCH_CUDA_RUNTIME_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
typedef unsigned long long CUdeviceptr;
int cuInit(unsigned);
int cuDeviceGet(int *, int);
int cuDeviceGetUuid(char (*)[16], int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuLibraryLoadData(void **, const void *, void *, void *, unsigned, void *, void *, unsigned);
int cuLibraryGetKernel(void **, void *, const char *);
int cuKernelGetFunction(void **, void *);
int cuStreamCreate(void **, unsigned);
int cuStreamDestroy(void *);
int cuStreamSynchronize(void *);
int cuStreamBeginCapture(void *, int);
int cuStreamEndCapture(void *, void **);
int cuMemAlloc(CUdeviceptr *, size_t);
int cuMemFree(CUdeviceptr);
int cuMemsetD32Async(CUdeviceptr, unsigned, size_t, void *);
int cuMemcpyDtoH(void *, CUdeviceptr, size_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                   void **);
int cuGraphInstantiate(void **, void *, unsigned long long);
int cuGraphLaunch(void *, void *);
int cuGraphExecDestroy(void *);
int cuGraphDestroy(void *);
int cuGetErrorName(int, const char **);
}

typedef int cudaError_t;
typedef void *cudaStream_t, *cudaGraph_t, *cudaGraphExec_t;
struct cudaDeviceProp {
  struct {
    char bytes[16];
  } uuid;
};
enum { cudaSuccess, cudaStreamNonBlocking = 1, cudaStreamCaptureModeGlobal = 0, cudaMemcpyDeviceToHost = 2 };

static void *kernel_of_tiny;
static cudaError_t last_error;

static CUdeviceptr device_address(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// The first call of the program: it makes the context and loads the kernels of the fatbin that LAUNCHBENCH_FATBIN names.
static cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  std::vector<char> image(1 << 24);
  std::FILE *file = std::fopen(std::getenv("LAUNCHBENCH_FATBIN"), "rb");
  if (!file || !std::fread(image.data(), 1, image.size(), file)) std::abort();
  std::fclose(file);
  int handle = 0, code = 0;
  void *context, *library, *kernel;
  (code = cuInit(0)) || (code = cuDeviceGet(&handle, device)) ||
      (code = cuDeviceGetUuid(&properties->uuid.bytes, handle)) ||
      (code = cuDevicePrimaryCtxRetain(&context, handle)) || (code = cuCtxSetCurrent(context)) ||
      (code = cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0)) ||
      (code = cuLibraryGetKernel(&kernel, library, "tiny")) || (code = cuKernelGetFunction(&kernel_of_tiny, kernel));
  return code;
}

static void launch_tiny(cudaStream_t stream, float *buffer) {
  CUdeviceptr address = device_address(buffer);
  void *arguments[] = {&address};
  last_error = cuLaunchKernel(kernel_of_tiny, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
}

static cudaError_t cudaGetLastError() { return last_error; }
static const char *cudaGetErrorName(cudaError_t code) {
  const char *name = nullptr;
  cuGetErrorName(code, &name);
  return name;
}
static cudaError_t cudaMalloc(float **buffer, size_t bytes) {
  return cuMemAlloc(reinterpret_cast<CUdeviceptr *>(buffer), bytes);
}
static cudaError_t cudaFree(float *buffer) { return cuMemFree(device_address(buffer)); }
static cudaError_t cudaMemsetAsync(float *buffer, int value, size_t bytes, cudaStream_t stream) {
  return cuMemsetD32Async(device_address(buffer), static_cast<unsigned>(value), bytes / 4, stream);
}
static cudaError_t cudaMemcpy(float *host, const float *buffer, size_t bytes, int) {
  return cuMemcpyDtoH(host, device_address(buffer), bytes);
}
static cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cuStreamCreate(stream, flags);
}
static cudaError_t cudaStreamDestroy(cudaStream_t stream) { return cuStreamDestroy(stream); }
static cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cuStreamSynchronize(stream); }
static cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode) { return cuStreamBeginCapture(stream, mode); }
static cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  return cuStreamEndCapture(stream, graph);
}
static cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
  return cuGraphInstantiate(exec, graph, flags);
}
static cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) { return cuGraphLaunch(exec, stream); }
static cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return cuGraphExecDestroy(exec); }
static cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return cuGraphDestroy(graph); }

#endif
