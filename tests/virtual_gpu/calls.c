// What every entry point begins and ends with: the one lock, faults, lost contexts, the trace of calls.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "virtual_gpu.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct site *all_sites;
static struct later {
  void (*function)(void *);
  void *argument;
  struct later *next;
} *laters;
static CUresult losses[MAX_CARDS];
static bool initialized;
static double last_left_us;

double real_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void spin_until(double deadline_us) {
  const double awake_us = 300;  // a sleeping process comes back late by about this much at worst
  for (double left; (left = deadline_us - real_us()) > 0;) {
    if (left > 2 * awake_us) {
      struct timespec nap = {0, (long)((left < 500000 ? left - awake_us : 500000) * 1e3)};
      nanosleep(&nap, NULL);
    }
  }
}

static void count_call(struct site *site) {
  if (site->calls++ == 0) {
    site->next = all_sites;
    all_sites = site;
  }
}

static void hang(void) {
  pthread_mutex_unlock(&lock);
  for (;;) pause();
}

static bool fits(const struct fault *fault, const char *name, int card) {
  if (fault->missing) return false;
  if (fault->card >= 0 && fault->card != card) return false;
  if (strcmp(fault->call, "*") == 0) return strcmp(name, "cuGetProcAddress") != 0;
  return strcmp(fault->call, name) == 0;
}

// The fault that this call meets, if any; counts it for all that it fits.
static struct fault *find_fault(const char *name, int card, bool lying) {
  struct fault *found = NULL;
  for (int i = 0; i < config()->fault_count; ++i) {
    struct fault *fault = &config()->faults[i];
    if (fault->has_value != lying || !fits(fault, name, card)) continue;
    ++fault->seen;
    if (fault->seen >= fault->from && fault->seen - fault->from < fault->count && !found) found = fault;
  }
  return found;
}

void lose_card(int card, CUresult result) {
  for (int i = 0; i < MAX_CARDS; ++i)
    if (card < 0 || card == i) losses[i] = result;
}

CUresult card_loss(int card) { return card >= 0 && card < MAX_CARDS ? losses[card] : 0; }

static int meet_fault(const char *name, int card) {
  struct fault *fault = find_fault(name, card, false);
  if (!fault) return 0;
  if (fault->hang) hang();
  if (fault->sticky) lose_card(card, fault->result);
  return fault->result;
}

struct fault *lying_value(const char *name) {
  struct context *context = current();
  return find_fault(name, context ? card_index(context->card) : -1, true);
}

bool is_missing(const char *name) {
  for (int i = 0; i < config()->fault_count; ++i)
    if (config()->faults[i].missing && strcmp(config()->faults[i].call, name) == 0) return true;
  return false;
}

static CUresult usable(struct context *context) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->kind != CONTEXT) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (card_loss(card_index(context->card))) return card_loss(card_index(context->card));
  return lost_now(context);
}

CUresult call_begin(struct call *call, struct site *site, bool needs_context) {
  pthread_mutex_lock(&lock);
  call->locked = true;
  call->entered_us = real_us();
  call->clock_us = clock_us();
  count_call(site);
  struct context *context = current();
  if (context) open_gates(context);
  CUresult result = meet_fault(site->name, context ? card_index(context->card) : -1);
  if (result) return result;
  if (strcmp(site->name, "cuInit") == 0) initialized = true;
  return needs_context ? usable(context) : CUDA_SUCCESS;
}

int nvml_begin(struct call *call, struct site *site, int card) {
  pthread_mutex_lock(&lock);
  call->locked = true;
  call->clock_us = clock_us();
  count_call(site);
  const int gpu_is_lost = 15;
  int result = meet_fault(site->name, card);
  return result ? result : card_loss(card) ? gpu_is_lost : 0;
}

// Otherwise a loop that asks and sleeps would never see the device finish.
void count_host_time(void) {
  if (last_left_us) spend_us(real_us() - last_left_us);
  wait_until(clock_us());
}

void call_later(void (*function)(void *), void *argument) {
  struct later *later = malloc(sizeof *later);
  *later = (struct later){function, argument, laters};
  laters = later;
}

static void run_laters(struct later *later) {
  while (later) {
    struct later *next = later->next;
    later->function(later->argument);
    free(later);
    later = next;
  }
}

void call_end(struct call *call) {
  if (!call->locked) return;
  double spent_us = clock_us() - call->clock_us;
  last_left_us = call->entered_us + spent_us;
  struct later *mine = laters;
  laters = NULL;
  pthread_mutex_unlock(&lock);
  run_laters(mine);
  if (spent_us > 0 && config()->spend) spin_until(call->entered_us + spent_us);
}

__attribute__((destructor)) static void write_trace(void) {
  if (!all_sites || !*config()->trace) return;
  char text[16384];
  size_t length = 0;
  for (struct site *site = all_sites; site && length < sizeof text - 128; site = site->next)
    length += (size_t)snprintf(text + length, sizeof text - length, "%s\t%llu\n", site->name,
                               (unsigned long long)site->calls);
  int file = open(config()->trace, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file < 0 || write(file, text, length) != (ssize_t)length) perror("launchbench virtual GPU: trace");
  if (file >= 0) close(file);
}
