/* What random streams of calls share: a seed, which a failure prints with the step, and numbers drawn from it. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed, state;
static long step;
static const char *doing = "beginning";

#define CHECK(holds)                                                                                          \
    do {                                                                                                      \
        if (!(holds)) {                                                                                       \
            fprintf(stderr, "seed %lu step %ld, %s, line %d: %s: %s\n", (unsigned long)seed, step, doing,     \
                    __LINE__, #holds, strerror(errno));                                                       \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

static uint64_t number(void) {
    uint64_t mixed = state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

static uint64_t below(uint64_t bound) { return number() % bound; }
