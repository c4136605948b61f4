// How cuda.bindings finds functions, and what a function that is not implemented answers.
#define _GNU_SOURCE  // dladdr

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "virtual_gpu.h"

// cuda.bindings looks all functions up at once, so a look-up must succeed for what will never be called. Each
// missing name gets one of these, which says its name when it is called after all.
#define MOST_STUBS 1024
static const char *stub_names[MOST_STUBS];
static int stub_count;

static CUresult not_implemented(int number) {
  fprintf(stderr, "launchbench virtual GPU: %s is not implemented\n", stub_names[number]);
  return CUDA_ERROR_NOT_SUPPORTED;
}

#define STUB(n) \
  static CUresult stub_##n(void) { return not_implemented(0x##n); }
#define NAME(n) stub_##n,
#define TIMES_16(of, p) \
  of(p##0) of(p##1) of(p##2) of(p##3) of(p##4) of(p##5) of(p##6) of(p##7) of(p##8) of(p##9) of(p##a) of(p##b) of(p##c) \
      of(p##d) of(p##e) of(p##f)
#define TIMES_256(of, p)                                                                                        \
  TIMES_16(of, p##0) TIMES_16(of, p##1) TIMES_16(of, p##2) TIMES_16(of, p##3) TIMES_16(of, p##4)                 \
  TIMES_16(of, p##5) TIMES_16(of, p##6) TIMES_16(of, p##7) TIMES_16(of, p##8) TIMES_16(of, p##9)                 \
  TIMES_16(of, p##a) TIMES_16(of, p##b) TIMES_16(of, p##c) TIMES_16(of, p##d) TIMES_16(of, p##e) TIMES_16(of, p##f)
#define ALL_STUBS(of) TIMES_256(of, 0) TIMES_256(of, 1) TIMES_256(of, 2) TIMES_256(of, 3)
ALL_STUBS(STUB)
static CUresult (*const stubs[MOST_STUBS])(void) = {ALL_STUBS(NAME)};

static void *stub_for(const char *name) {
  for (int i = 0; i < stub_count; ++i)
    if (strcmp(stub_names[i], name) == 0) return (void *)stubs[i];
  if (stub_count == MOST_STUBS) return NULL;
  stub_names[stub_count] = strdup(name);
  return (void *)stubs[stub_count++];
}

static void *find(const char *name) {
  Dl_info self;
  static void *library;
  if (!library && dladdr((void *)find, &self)) library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return library ? dlsym(library, name) : NULL;
}

// One name, two signatures: the caller gets that of the version it was written for, or of the driver if that is older.
static const char *spelt_out(const char *name, int version) {
  int driver = config()->driver_version;
  if (strcmp(name, "cuStreamGetCaptureInfo") != 0) return name;
  return version < 12030 || driver < 12030 ? "cuStreamGetCaptureInfo_v2" : "cuStreamGetCaptureInfo_v3";
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  PLAIN_CALL(cuGetProcAddress);
  (void)flags;
  *function = is_missing(name) ? NULL : find(spelt_out(name, version));
  if (!*function && !is_missing(name)) *function = stub_for(name);
  int answer = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (status) *status = answer;
  return *function || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags, int *status)
    ALIAS(cuGetProcAddress_v2);
