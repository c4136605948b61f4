// The same cards through NVML. The same library answers under both names, so NVML knows what this process does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "virtual_gpu.h"

typedef int nvmlReturn_t;
typedef struct card *nvmlDevice_t;

enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_CLOCK_MEM = 2,
};

typedef struct {
  unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
  unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

static int initialized;
static uint64_t state_queries[MAX_CARDS], process_queries[MAX_CARDS];

// Index of the card a handle stands for, or -1.
static int index_of(nvmlDevice_t device) {
  for (int i = 0; i < config()->card_count; ++i)
    if (device == &config()->cards[i]) return i;
  return -1;
}

#define NVML_CALL(name, device)                                         \
  static struct site site = {#name, 0, NULL};                           \
  struct call call __attribute__((cleanup(call_end))) = {0, 0, false};  \
  nvmlReturn_t refused = nvml_begin(&call, &site, device);              \
  if (refused) return refused

#define SYSTEM_CALL(name) \
  NVML_CALL(name, -1);    \
  if (!initialized) return NVML_ERROR_UNINITIALIZED

#define DEVICE_CALL(name)                            \
  NVML_CALL(name, index_of(device));                 \
  if (!initialized) return NVML_ERROR_UNINITIALIZED; \
  if (index_of(device) < 0) return NVML_ERROR_INVALID_ARGUMENT

// What only a whole GPU answers.
#define GPU_CALL(name) \
  DEVICE_CALL(name);   \
  if (device->parent[0]) return NVML_ERROR_NOT_SUPPORTED

static bool throttled(int card) {
  const struct throttle *throttle = &config()->throttle;
  if (throttle->from == ALWAYS) return false;
  uint64_t asked = state_queries[card];
  return (throttle->card < 0 || throttle->card == card) && asked >= throttle->from && asked < throttle->until;
}

double throttle_slowdown(int card) { return throttled(card) ? config()->throttle.slowdown : 1; }

static bool has_slices(const struct card *card) {
  for (int i = 0; i < config()->card_count; ++i)
    if (strcmp(config()->cards[i].parent, card->uuid) == 0) return true;
  return false;
}

static nvmlReturn_t give_text(const char *text, char *to, unsigned room) {
  if (strlen(text) + 1 > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(to, text, strlen(text) + 1);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
  NVML_CALL(nvmlInitWithFlags, -1);
  (void)flags;
  ++initialized;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlShutdown(void) {
  SYSTEM_CALL(nvmlShutdown);
  --initialized;
  return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t code) {
  static const char *const texts[] = {"Success",           "Uninitialized",      "Invalid Argument",
                                      "Not Supported",     "Insufficient Permissions", "Already Initialized",
                                      "Not Found",         "Insufficient Size",  "Insufficient External Power",
                                      "Driver Not Loaded", "Timeout",            "Interrupt Request Issue",
                                      "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM",
                                      "GPU is lost"};
  return code >= 0 && code < (int)(sizeof texts / sizeof *texts) ? texts[code] : "Unknown Error";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned room) {
  SYSTEM_CALL(nvmlSystemGetDriverVersion);
  return give_text(config()->nvml_driver_version, version, room);
}

// ---------------------------------------------------------------- finding devices, in the order of PCI addresses

static int by_pci(const void *one, const void *other) {
  return strcmp((*(const nvmlDevice_t *)one)->pci, (*(const nvmlDevice_t *)other)->pci);
}

static unsigned gpus_by_pci(nvmlDevice_t *gpus) {
  unsigned count = 0;
  for (int i = 0; i < config()->card_count; ++i)
    if (!config()->cards[i].parent[0]) gpus[count++] = &config()->cards[i];
  qsort(gpus, count, sizeof *gpus, by_pci);
  return count;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
  SYSTEM_CALL(nvmlDeviceGetCount);
  nvmlDevice_t gpus[MAX_CARDS];
  *count = gpus_by_pci(gpus);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  SYSTEM_CALL(nvmlDeviceGetHandleByIndex);
  nvmlDevice_t gpus[MAX_CARDS];
  if (index >= gpus_by_pci(gpus)) return NVML_ERROR_INVALID_ARGUMENT;
  *device = gpus[index];
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  SYSTEM_CALL(nvmlDeviceGetHandleByUUID);
  for (int i = 0; i < config()->card_count; ++i) {
    if (strcmp(config()->cards[i].uuid, uuid) != 0) continue;
    *device = &config()->cards[i];
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *parent) {
  DEVICE_CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle);
  if (!device->parent[0]) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < config()->card_count; ++i)
    if (strcmp(config()->cards[i].uuid, device->parent) == 0) *parent = &config()->cards[i];
  return NVML_SUCCESS;
}

// ---------------------------------------------------------------- what they are

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned room) {
  DEVICE_CALL(nvmlDeviceGetName);
  return give_text(device->nvml_name, name, room);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned room) {
  DEVICE_CALL(nvmlDeviceGetUUID);
  return give_text(device->uuid, uuid, room);
}

EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned room) {
  GPU_CALL(nvmlDeviceGetVbiosVersion);
  return give_text(device->vbios, version, room);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  DEVICE_CALL(nvmlDeviceGetMemoryInfo);
  memory->total = (unsigned long long)(device->memory_mb * 1048576);
  memory->used = (unsigned long long)(device->used_mb * 1048576);
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int which, unsigned *mhz) {
  GPU_CALL(nvmlDeviceGetMaxClockInfo);
  *mhz = (unsigned)(which == NVML_CLOCK_MEM ? device->memory_clock_mhz : device->max_sm_clock_mhz);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts) {
  GPU_CALL(nvmlDeviceGetEnforcedPowerLimit);
  *milliwatts = (unsigned)(device->power_limit_w * 1000);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned *milliwatts) {
  GPU_CALL(nvmlDeviceGetPowerManagementDefaultLimit);
  *milliwatts = (unsigned)(device->power_default_w * 1000);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *now, unsigned *pending) {
  GPU_CALL(nvmlDeviceGetEccMode);
  *now = *pending = device->ecc;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *pending) {
  GPU_CALL(nvmlDeviceGetMigMode);
  const int first_with_mig = 8;
  if (device->major < first_with_mig) return NVML_ERROR_NOT_SUPPORTED;
  *now = *pending = has_slices(device);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned *mode) {
  GPU_CALL(nvmlDeviceGetPersistenceMode);
  *mode = device->persistence;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *generation) {
  GPU_CALL(nvmlDeviceGetCurrPcieLinkGeneration);
  *generation = (unsigned)device->pcie_generation;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *generation) {
  GPU_CALL(nvmlDeviceGetMaxPcieLinkGeneration);
  *generation = (unsigned)device->pcie_generation;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *width) {
  GPU_CALL(nvmlDeviceGetCurrPcieLinkWidth);
  *width = (unsigned)device->pcie_width;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *width) {
  GPU_CALL(nvmlDeviceGetMaxPcieLinkWidth);
  *width = (unsigned)device->pcie_width;
  return NVML_SUCCESS;
}

// ---------------------------------------------------------------- what they do now

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *mask) {
  GPU_CALL(nvmlDeviceGetCurrentClocksEventReasons);
  int card = index_of(device);
  *mask = device->reasons | (throttled(card) ? config()->throttle.mask : 0);
  ++state_queries[card];
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int which, unsigned *mhz) {
  GPU_CALL(nvmlDeviceGetClockInfo);
  bool slow = throttled(index_of(device)) && config()->throttle.sm_clock_mhz > 0;
  double sm = slow ? config()->throttle.sm_clock_mhz : device->sm_clock_mhz;
  *mhz = (unsigned)(which == NVML_CLOCK_MEM ? device->memory_clock_mhz : sm);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, int *state) {
  GPU_CALL(nvmlDeviceGetPerformanceState);
  *state = 0;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius) {
  GPU_CALL(nvmlDeviceGetTemperature);
  if (sensor) return NVML_ERROR_INVALID_ARGUMENT;
  *celsius = (unsigned)device->temperature_c;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
  GPU_CALL(nvmlDeviceGetPowerUsage);
  *milliwatts = (unsigned)(device->power_w * 1000);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
  GPU_CALL(nvmlDeviceGetUtilizationRates);
  *rates = (nvmlUtilization_t){(unsigned)device->utilization, 0};
  return NVML_SUCCESS;
}

static unsigned list_processes(int card, nvmlProcessInfo_t *rows) {
  const unsigned no_instance = 0xffffffffu;
  const double context_mb = 400;
  unsigned count = 0;
  if (card_has_context(card)) {
    unsigned pid = config()->own_pid ? config()->own_pid : (unsigned)getpid();
    rows[count++] = (nvmlProcessInfo_t){pid, (unsigned long long)(context_mb * 1048576), no_instance, no_instance};
  }
  for (int i = 0; i < config()->process_count; ++i) {
    const struct process *process = &config()->processes[i];
    if (process->card != card || process_queries[card] < process->from) continue;
    unsigned long long used = process->memory_mb < 0 ? ~0ull : (unsigned long long)(process->memory_mb * 1048576);
    rows[count++] = (nvmlProcessInfo_t){process->pid, used, no_instance, no_instance};
  }
  return count;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                            nvmlProcessInfo_t *to) {
  DEVICE_CALL(nvmlDeviceGetComputeRunningProcesses);
  nvmlProcessInfo_t rows[MAX_PROCESSES + 1];
  int card = index_of(device);
  // A caller asks twice, first for the number: one query.
  if (!to) ++process_queries[card];
  unsigned found = list_processes(card, rows);
  if (found > *count) {
    *count = found;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  memcpy(to ? to : rows, rows, found * sizeof *rows);
  *count = found;
  return NVML_SUCCESS;
}
