// Devices: which cards this process sees, after the rules of CUDA_VISIBLE_DEVICES, and what they are.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "virtual_gpu.h"

static struct card *visible[MAX_CARDS];
static int visible_cards;

int card_index(const struct card *card) { return (int)(card - config()->cards); }

static bool is_slice(const struct card *card) { return card->parent[0] != 0; }

static struct card *first_slice(const struct card *gpu) {
  for (int i = 0; i < config()->card_count; ++i)
    if (strcmp(config()->cards[i].parent, gpu->uuid) == 0) return &config()->cards[i];
  return NULL;
}

static int by_pci(const void *one, const void *other) {
  return strcmp((*(struct card *const *)one)->pci, (*(struct card *const *)other)->pci);
}

// Whole GPUs in CUDA's order: that of the configuration ("fastest first"), or of the PCI addresses on request.
static int gpus_in_order(struct card **gpus) {
  int count = 0;
  for (int i = 0; i < config()->card_count; ++i)
    if (!is_slice(&config()->cards[i])) gpus[count++] = &config()->cards[i];
  const char *order = getenv("CUDA_DEVICE_ORDER");
  if (order && strcmp(order, "PCI_BUS_ID") == 0) qsort(gpus, (size_t)count, sizeof *gpus, by_pci);
  return count;
}

// A GPU or slice by its whole UUID or by a beginning of it that only one has.
static struct card *by_uuid(const char *text) {
  struct card *found = NULL;
  if (strlen(text) <= strlen("GPU-")) return NULL;
  for (int i = 0; i < config()->card_count; ++i) {
    if (strncmp(config()->cards[i].uuid, text, strlen(text)) != 0) continue;
    if (found) return NULL;
    found = &config()->cards[i];
  }
  return found;
}

// MIG-GPU-<uuid>/<GPU instance>/<compute instance>, as older drivers name a slice; instances count from 1.
static struct card *by_instance(const char *text) {
  const char *slash = strchr(text, '/');
  int instance = 0, compute = 0;
  if (!slash || sscanf(slash, "/%d/%d", &instance, &compute) != 2 || compute != 0) return NULL;
  size_t length = (size_t)(slash - text) - strlen("MIG-");
  for (int i = 0; i < config()->card_count; ++i) {
    struct card *card = &config()->cards[i];
    if (strncmp(card->parent, text + strlen("MIG-"), length) == 0 && card->parent[length] == 0 && --instance == 0)
      return card;
  }
  return NULL;
}

static struct card *by_index(const char *text, struct card **gpus, int count) {
  char *end = NULL;
  long index = strtol(text, &end, 10);
  return end == text || index < 0 || index >= count ? NULL : gpus[index];
}

static struct card *named_by(const char *entry, struct card **gpus, int count) {
  while (*entry == ' ') ++entry;
  if (strncmp(entry, "MIG-GPU-", 8) == 0) return by_instance(entry);
  if (strncmp(entry, "GPU-", 4) == 0 || strncmp(entry, "MIG-", 4) == 0) return by_uuid(entry);
  return by_index(entry, gpus, count);
}

static bool is_visible(const struct card *card) {
  for (int i = 0; i < visible_cards; ++i)
    if (visible[i] == card) return true;
  return false;
}

// Reads the list up to its first entry that names nothing; an entry given twice empties it.
static void read_list(const char *list, struct card **gpus, int count) {
  char *copy = strdup(list), *rest = NULL;
  for (char *entry = strtok_r(copy, ",", &rest); entry; entry = strtok_r(NULL, ",", &rest)) {
    struct card *card = named_by(entry, gpus, count);
    if (!card) break;
    if (is_visible(card)) {
      visible_cards = 0;
      break;
    }
    visible[visible_cards++] = card;
  }
  free(copy);
}

// A GPU that is cut into slices shows its first one; a process sees at most one slice, and then no whole GPU.
static void apply_mig(void) {
  for (int i = 0; i < visible_cards; ++i) {
    struct card *slice = is_slice(visible[i]) ? visible[i] : first_slice(visible[i]);
    if (!slice) continue;
    visible[0] = slice;
    visible_cards = 1;
    return;
  }
}

static void find_visible(void) {
  struct card *gpus[MAX_CARDS];
  int count = gpus_in_order(gpus);
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  visible_cards = 0;
  if (list) {
    read_list(list, gpus, count);
  } else {
    memcpy(visible, gpus, sizeof gpus);
    visible_cards = count;
  }
  apply_mig();
}

int visible_count(void) { return visible_cards; }

struct card *card_of(CUdevice device) { return device >= 0 && device < visible_cards ? visible[device] : NULL; }

EXPORT CUresult cuInit(unsigned flags) {
  PLAIN_CALL(cuInit);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  find_visible();
  return visible_cards ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
  PLAIN_CALL(cuDriverGetVersion);
  *version = config()->driver_version;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
  PLAIN_CALL(cuDeviceGetCount);
  *count = visible_cards;
  return visible_cards ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  PLAIN_CALL(cuDeviceGet);
  if (!card_of(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  PLAIN_CALL(cuDeviceGetName);
  struct card *card = card_of(device);
  if (!card) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, (size_t)length, "%s", card->name);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  PLAIN_CALL(cuDeviceGetUuid);
  struct card *card = card_of(device);
  if (!card) return CUDA_ERROR_INVALID_DEVICE;
  const char *digit = card->uuid + strlen("GPU-");
  for (int i = 0; i < 16; ++i) {
    unsigned byte = 0;
    if (*digit == '-') ++digit;
    sscanf(digit, "%2x", &byte);
    uuid->bytes[i] = (char)byte;
    digit += 2;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) ALIAS(cuDeviceGetUuid_v2);

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
  PLAIN_CALL(cuDeviceGetPCIBusId);
  struct card *card = card_of(device);
  if (!card) return CUDA_ERROR_INVALID_DEVICE;
  // The driver writes a domain of four digits, NVML one of eight.
  snprintf(text, (size_t)length, "%s", card->pci + (strlen(card->pci) > strlen("0000:00:00.0") ? 4 : 0));
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  PLAIN_CALL(cuDeviceGetAttribute);
  struct card *card = card_of(device);
  unsigned domain = 0, bus = 0, slot = 0;
  if (!card) return CUDA_ERROR_INVALID_DEVICE;
  sscanf(card->pci, "%x:%x:%x", &domain, &bus, &slot);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      *value = 2147483647;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = card->processors;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      *value = (int)domain;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = (int)bus;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      *value = (int)slot;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = card->major;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = card->minor;
      return CUDA_SUCCESS;
    default:
      fprintf(stderr, "launchbench virtual GPU: device attribute %d is not implemented\n", attribute);
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
