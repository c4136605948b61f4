// Reads LAUNCHBENCH_VIRTUAL_GPU: the text itself, or the path of a file that holds it. README.md has the format.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "virtual_gpu.h"

static struct config the_config;

static const struct card default_card = {
    .name = "launchbench virtual GPU",
    .pci = "",
    .major = 7,
    .minor = 5,
    .processors = 40,
    .memory_mb = 16384,
    .used_mb = 300,
    .queue_depth = 1024,
    .costs =
        {
            .issue_us = 4.5,
            .issue_ex_us = 5.5,
            .pace_us = 1.5,
            .event_us = 1,
            .sync_us = 2,
            .capture_us = 1,
            .instantiate_us = 100,
            .instantiate_node_us = 2,
            .upload_us = 20,
            .upload_node_us = 0.5,
            .graph_launch_us = 3,
            .graph_launch_node_us = 0,
            .graph_fixed_us = 4,
            .node_us = 0.5,
            .dependent_pace_us = 1.25,
            .dependent_node_us = 0.375,
            .fused_memory_us = 0.25,
            .fused_register_us = 0.00390625,
            .graph_node_bytes = 1024,
            .levels = {0.2},
            .level_count = 1,
            .page_bytes = 4096,
            .cold_factor = 1,
        },
    .sm_clock_mhz = 1500,
    .max_sm_clock_mhz = 1590,
    .memory_clock_mhz = 5000,
    .power_limit_w = 70,
    .power_default_w = 70,
    .power_w = 30,
    .temperature_c = 40,
    .pcie_generation = 3,
    .pcie_width = 16,
    .vbios = "90.04.38.00.03",
    .ecc = true,
    .persistence = true,
};

static void complain(const char *what, const char *line) {
  fprintf(stderr, "launchbench virtual GPU: %s in LAUNCHBENCH_VIRTUAL_GPU: %s\n", what, line);
  _exit(70);  // not exit: destructors would ask for the configuration
}

static int hex_digit(char digit) {
  const char *digits = "0123456789abcdef", *at = strchr(digits, digit);
  return digit && at ? (int)(at - digits) : -1;
}

// Copies text; \xNN stands for any byte, so that names can be what no encoding allows.
static void copy_text(char *to, size_t room, const char *from) {
  size_t length = 0;
  while (*from && length + 1 < room) {
    if (from[0] == '\\' && from[1] == 'x' && hex_digit(from[2]) >= 0 && hex_digit(from[3]) >= 0) {
      to[length++] = (char)(hex_digit(from[2]) * 16 + hex_digit(from[3]));
      from += 4;
    } else {
      to[length++] = *from++;
    }
  }
  to[length] = 0;
}

struct field {
  const char *key;
  enum { TEXT, NUMBER, INTEGER, FLAG, BIG } type;
  size_t offset, room;
};

#define FIELD(of, key, type) \
  { #key, type, offsetof(struct of, key), sizeof(((struct of *)0)->key) }
#define COST(key) \
  { #key, NUMBER, offsetof(struct card, costs.key), 0 }

static const struct field global_fields[] = {
    FIELD(config, nvml_driver_version, TEXT), FIELD(config, seed, BIG),  FIELD(config, spend, FLAG),
    FIELD(config, own_pid, INTEGER),          FIELD(config, trace, TEXT), {NULL, TEXT, 0, 0},
};

static const struct field card_fields[] = {
    FIELD(card, name, TEXT),
    FIELD(card, nvml_name, TEXT),
    FIELD(card, uuid, TEXT),
    FIELD(card, parent, TEXT),
    FIELD(card, pci, TEXT),
    FIELD(card, vbios, TEXT),
    FIELD(card, processors, INTEGER),
    FIELD(card, queue_depth, INTEGER),
    FIELD(card, memory_mb, NUMBER),
    FIELD(card, used_mb, NUMBER),
    FIELD(card, sm_clock_mhz, NUMBER),
    FIELD(card, max_sm_clock_mhz, NUMBER),
    FIELD(card, memory_clock_mhz, NUMBER),
    FIELD(card, power_limit_w, NUMBER),
    FIELD(card, power_default_w, NUMBER),
    FIELD(card, power_w, NUMBER),
    FIELD(card, temperature_c, NUMBER),
    FIELD(card, utilization, NUMBER),
    FIELD(card, pcie_generation, NUMBER),
    FIELD(card, pcie_width, NUMBER),
    FIELD(card, ecc, FLAG),
    FIELD(card, persistence, FLAG),
    FIELD(card, reasons, BIG),
    COST(issue_us),
    COST(issue_ex_us),
    COST(pace_us),
    COST(event_us),
    COST(sync_us),
    COST(capture_us),
    COST(instantiate_us),
    COST(instantiate_node_us),
    COST(upload_us),
    COST(upload_node_us),
    COST(graph_launch_us),
    COST(graph_launch_node_us),
    COST(graph_fixed_us),
    COST(node_us),
    COST(dependent_pace_us),
    COST(dependent_node_us),
    COST(fused_memory_us),
    COST(fused_register_us),
    COST(graph_node_bytes),
    COST(page_bytes),
    COST(noise),
    COST(cold_factor),
    COST(cold_bursts),
    {NULL, TEXT, 0, 0},
};

static const struct field fault_fields[] = {
    FIELD(fault, call, TEXT),  FIELD(fault, card, INTEGER), FIELD(fault, from, BIG),     FIELD(fault, count, BIG),
    FIELD(fault, result, INTEGER), FIELD(fault, sticky, FLAG),  FIELD(fault, hang, FLAG), FIELD(fault, missing, FLAG),
    {NULL, TEXT, 0, 0},
};

static const struct field process_fields[] = {
    FIELD(process, pid, INTEGER), FIELD(process, card, INTEGER),  FIELD(process, memory_mb, NUMBER),
    FIELD(process, from, BIG),    {NULL, TEXT, 0, 0},
};

static const struct field throttle_fields[] = {
    FIELD(throttle, card, INTEGER), FIELD(throttle, from, BIG),        FIELD(throttle, until, BIG),
    FIELD(throttle, mask, BIG),     FIELD(throttle, slowdown, NUMBER), FIELD(throttle, sm_clock_mhz, NUMBER),
    {NULL, TEXT, 0, 0},
};

static bool set_field(const struct field *fields, void *object, const char *key, const char *value) {
  for (const struct field *field = fields; field->key; ++field) {
    if (strcmp(field->key, key) != 0) continue;
    char *at = (char *)object + field->offset, *end = NULL;
    switch (field->type) {
      case TEXT:
        copy_text(at, field->room, value);
        return true;
      case NUMBER:
        *(double *)at = strtod(value, &end);
        break;
      case INTEGER:
        *(int *)at = (int)strtol(value, &end, 0);
        break;
      case FLAG:
        *(bool *)at = strtol(value, &end, 0) != 0;
        break;
      case BIG:
        *(uint64_t *)at = strtoull(value, &end, 0);
        break;
    }
    return end != value && *end == 0;
  }
  return false;
}

// Entries that are not simply a field: versions and lists.
static bool set_special(const char *section, void *object, const char *key, char *value) {
  if (!*section && strcmp(key, "driver_version") == 0) {
    int major = 0, minor = 0;
    if (sscanf(value, "%d.%d", &major, &minor) != 2) return false;
    ((struct config *)object)->driver_version = major * 1000 + minor * 10;
    return true;
  }
  if (strcmp(section, "card") == 0 && strcmp(key, "compute_capability") == 0) {
    struct card *card = object;
    return sscanf(value, "%d.%d", &card->major, &card->minor) == 2;
  }
  if (strcmp(section, "card") == 0 && strcmp(key, "levels_us") == 0) {
    struct card *card = object;
    card->costs.level_count = 0;
    for (char *part = strtok(value, ", "); part && card->costs.level_count < MAX_LEVELS; part = strtok(NULL, ", "))
      card->costs.levels[card->costs.level_count++] = strtod(part, NULL);
    return card->costs.level_count > 0;
  }
  if (strcmp(section, "fault") == 0 && strcmp(key, "value") == 0) {
    struct fault *fault = object;
    fault->value = strtod(value, NULL);
    return fault->has_value = true;
  }
  return false;
}

static void *begin_section(struct config *config, const char *name, const struct field **fields, const char *line) {
  if (strcmp(name, "card") == 0 && config->card_count < MAX_CARDS) {
    *fields = card_fields;
    config->cards[config->card_count] = default_card;
    return &config->cards[config->card_count++];
  }
  if (strcmp(name, "fault") == 0 && config->fault_count < MAX_FAULTS) {
    *fields = fault_fields;
    config->faults[config->fault_count] = (struct fault){.card = -1, .from = 1, .count = ALWAYS};
    return &config->faults[config->fault_count++];
  }
  if (strcmp(name, "process") == 0 && config->process_count < MAX_PROCESSES) {
    *fields = process_fields;
    config->processes[config->process_count] = (struct process){.memory_mb = 500, .from = 1};
    return &config->processes[config->process_count++];
  }
  if (strcmp(name, "throttle") == 0) {
    *fields = throttle_fields;
    config->throttle.from = 1;
    config->throttle.until = ALWAYS;
    config->throttle.card = -1;
    return &config->throttle;
  }
  complain("unknown or too many sections", line);
  return NULL;
}

static char *trimmed(char *text) {
  while (*text == ' ' || *text == '\t') ++text;
  char *end = text + strlen(text);
  while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) *--end = 0;
  return text;
}

static void parse(struct config *config, char *text) {
  char section[32] = "", *rest = NULL;
  const struct field *fields = global_fields;
  void *object = config;
  for (char *raw = strtok_r(text, "\n", &rest); raw; raw = strtok_r(NULL, "\n", &rest)) {
    char *line = trimmed(raw), shown[MAX_TEXT];
    snprintf(shown, sizeof shown, "%s", line);
    if (!*line || *line == '#') continue;
    size_t length = strlen(line);
    if (line[0] == '[' && line[length - 1] == ']') {
      snprintf(section, sizeof section, "%.*s", (int)length - 2, line + 1);
      object = begin_section(config, section, &fields, shown);
      continue;
    }
    char *equals = strchr(line, '=');
    if (!equals) complain("line without '='", shown);
    *equals = 0;
    char *key = trimmed(line), *value = trimmed(equals + 1);
    if (!set_special(section, object, key, value) && !set_field(fields, object, key, value))
      complain("unknown key or bad value", shown);
  }
}

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) complain("file cannot be read", path);
  size_t room = 1 << 20, length;
  char *text = calloc(1, room);
  length = fread(text, 1, room - 1, file);
  text[length] = 0;
  fclose(file);
  return text;
}

static uint64_t hash_text(const char *text) {
  uint64_t hash = 1469598103934665603u;
  for (; *text; ++text) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

// What the configuration leaves out must still be stable and distinct.
static void complete_card(struct card *card, int index) {
  uint64_t one = hash_text(card->name) * (uint64_t)(2 * index + 3);
  uint64_t two = one * 6364136223846793005u + 1442695040888963407u;
  if (!*card->uuid)
    snprintf(card->uuid, sizeof card->uuid, "%s-%08x-%04x-%04x-%04x-%012llx", *card->parent ? "MIG" : "GPU",
             (unsigned)(one >> 32), (unsigned)(one >> 16) & 0xffff, (unsigned)one & 0xffff, (unsigned)(two >> 48),
             (unsigned long long)(two & 0xffffffffffff));
  if (!*card->pci) snprintf(card->pci, sizeof card->pci, "00000000:%02X:00.0", 0x10 + index);
  if (!*card->nvml_name) memcpy(card->nvml_name, card->name, sizeof card->nvml_name);
}

static void load(void) {
  struct config *config = &the_config;
  config->driver_version = 13000;
  config->spend = true;
  config->throttle.from = ALWAYS;
  config->throttle.slowdown = 1;
  snprintf(config->nvml_driver_version, sizeof config->nvml_driver_version, "580.00.00");
  const char *given = getenv("LAUNCHBENCH_VIRTUAL_GPU");
  if (given) {
    char *text = *given == '/' ? read_file(given) : strdup(given);
    parse(config, text);
    free(text);
  } else {
    config->cards[config->card_count++] = default_card;
  }
  for (int i = 0; i < config->card_count; ++i) {
    // By this name, and nothing else, a record knows that it is of no card.
    if (strncmp(config->cards[i].name, "launchbench virtual", strlen("launchbench virtual")) != 0)
      complain("a name that does not begin with 'launchbench virtual'", config->cards[i].name);
    complete_card(&config->cards[i], i);
  }
}

struct config *config(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return &the_config;
}
