// Libraries and kernels. A kernel exists when its code is in the image that was handed in, for this card.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "virtual_gpu.h"

// A fat binary, as nvcc writes it: a header, then entries with machine code (ELF) or PTX for one architecture.
struct fatbin {
  uint32_t magic;
  uint16_t version, header_size;
  uint64_t size;
};

struct entry {
  uint16_t kind, version;
  uint32_t header_size;
  uint64_t size;
  uint32_t packed_size, unknown;
  uint16_t minor, major;
  uint32_t architecture;
};

enum { FATBIN_MAGIC = 0xba55ed50u, PTX = 1, MACHINE_CODE = 2 };

struct library {
  enum kind kind;
  char *image;
  size_t size;
  struct kernel *kernels;
};

static bool contains(const struct library *library, const char *text, size_t length) {
  for (size_t i = 0; i + length <= library->size; ++i)
    if (library->image[i] == text[0] && memcmp(library->image + i, text, length) == 0) return true;
  return false;
}

// Machine code runs on the same major architecture from its minor one on; PTX on all from its own on.
static bool runs_on(const struct entry *entry, const struct card *card) {
  unsigned have = (unsigned)(card->major * 10 + card->minor), built = entry->architecture;
  if (entry->kind == PTX) return have >= built;
  return entry->kind == MACHINE_CODE && built / 10 == have / 10 && built <= have;
}

// CUDA version that made the machine code, from the note in it; 0 = it does not say.
static int toolkit_of(const struct library *library) {
  const char *mark = "Cuda compilation tools, release ";
  size_t length = strlen(mark);
  for (size_t i = 0; i + length + 8 <= library->size; ++i) {
    int major = 0, minor = 0;
    if (library->image[i] != 'C' || memcmp(library->image + i, mark, length) != 0) continue;
    if (sscanf(library->image + i + length, "%d.%d", &major, &minor) == 2) return major * 1000 + minor * 10;
  }
  return 0;
}

static CUresult fits_driver(const struct library *library, bool compiles_ptx) {
  int made_by = toolkit_of(library), driver = config()->driver_version;
  bool too_old = compiles_ptx ? made_by > driver : made_by / 1000 > driver / 1000;
  return too_old ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION : CUDA_SUCCESS;
}

static CUresult find_code(const struct library *library, const struct card *card) {
  struct fatbin header;
  bool ptx = false, machine_code = false;
  memcpy(&header, library->image, sizeof header);
  for (size_t at = header.header_size; at + sizeof(struct entry) <= library->size;) {
    struct entry entry;
    memcpy(&entry, library->image + at, sizeof entry);
    if (runs_on(&entry, card)) *(entry.kind == PTX ? &ptx : &machine_code) = true;
    at += entry.header_size + entry.size;
  }
  if (!ptx && !machine_code) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  return fits_driver(library, !machine_code);
}

static CUresult load(struct library **loaded, const void *code) {
  struct fatbin header;
  if (!code) return CUDA_ERROR_INVALID_VALUE;
  memcpy(&header, code, sizeof header);
  // The driver reads an image when it needs a kernel of it: one that is none is found out then.
  bool is_image = header.magic == FATBIN_MAGIC;
  struct library *library = calloc(1, sizeof *library);
  library->kind = LIBRARY;
  library->size = is_image ? header.header_size + header.size : 0;
  library->image = malloc(library->size);
  memcpy(library->image, code, library->size);
  *loaded = library;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, void *jit_options, void *jit_values,
                                  unsigned jit_count, void *options, void *values, unsigned count) {
  PLAIN_CALL(cuLibraryLoadData);
  (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  CUresult result = load(library, code);
  return !result && (*library)->size && current() ? find_code(*library, current()->card) : result;
}

EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  PLAIN_CALL(cuLibraryUnload);
  if (!alive(library, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
  for (struct kernel *kernel = library->kernels; kernel; kernel = kernel->next) kernel->kind = DEAD;
  free(library->image);
  library->kind = DEAD;
  return CUDA_SUCCESS;
}

// In machine code the section of a kernel is named after it; in PTX that is not compressed it is an entry.
static bool has_kernel(const struct library *library, const char *name) {
  char section[MAX_TEXT], entry[MAX_TEXT];
  int length = snprintf(section, sizeof section, "%c.text.%s", 0, name);
  if (length >= (int)sizeof section) return false;
  if (contains(library, section, (size_t)length + 1)) return true;
  length = snprintf(entry, sizeof entry, ".entry %s(", name);
  return contains(library, entry, (size_t)length);
}

// What the kernels of graphs.cu do; any other does nothing.
static void describe(struct kernel *kernel) {
  static const struct kernel known[] = {
      {.name = "tiny", .counts = true},
      {.name = "tiny_dependent", .counts = true, .dependent = true},
      {.name = "empty_dependent", .dependent = true},
      {.name = "fused_memory", .counts = true, .work = FUSED_MEMORY},
      {.name = "fused_register", .counts = true, .work = FUSED_REGISTER},
      {.name = "spin", .counts = true, .work = SPIN},
      {.name = "gate", .work = GATE},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (strcmp(kernel->name, known[i].name) != 0) continue;
    kernel->counts = known[i].counts;
    kernel->dependent = known[i].dependent;
    kernel->work = known[i].work;
  }
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *found, CUlibrary library, const char *name) {
  PLAIN_CALL(cuLibraryGetKernel);
  if (!alive(library, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
  for (struct kernel *kernel = library->kernels; kernel; kernel = kernel->next) {
    if (strcmp(kernel->name, name) != 0) continue;
    *found = kernel;
    return CUDA_SUCCESS;
  }
  if (!has_kernel(library, name)) return CUDA_ERROR_NOT_FOUND;
  struct kernel *kernel = calloc(1, sizeof *kernel);
  *kernel = (struct kernel){.kind = KERNEL, .library = library, .name = strdup(name), .next = library->kernels};
  describe(kernel);
  library->kernels = kernel;
  *found = kernel;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  CONTEXT_CALL(cuKernelGetFunction);
  if (!alive(kernel, KERNEL)) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = find_code(kernel->library, current()->card);
  *function = kernel;
  return result;
}
