
/* What FMI 2.0 and 3.0 share. */
#if defined(__FMA__) && defined(__GNUC__)
#include <cpuid.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
enum { OK = 0, DISCARD = 2, ERROR = 3 };

#define BROKEN "the motion cannot go on: its numbers are not finite, or events come without end"

typedef struct {
    double origin; /* time at the start, s */
    double time, step, phase;
    double rate[NY], watched[WATCHED + 1], command[DOFS], output[SEEN];
    int stale; /* numbers were set that are not yet checked with each other, and what follows from them is not known */
    NAME_parameters p;
    NAME_run run;
} model;

#if FMI == 2
typedef void (*logger)(void *environment, const char *instance, int status, const char *category, const char *text, ...);
#else
typedef void (*logger)(void *environment, int status, const char *category, const char *text);
#endif

/* A model, and who hears of its errors. */
typedef struct {
    model m; /* the first: a pointer to one is a pointer to the other */
    logger log;
    void *environment;
    char *name;
} instance;

static int tell(const model *m, const char *text)
{
    const instance *own = (const instance *)(const void *)m;
    if (!own->log) return ERROR;
#if FMI == 2
    own->log(own->environment, own->name, ERROR, "logStatusError", "%s", text);
#else
    own->log(own->environment, ERROR, "logStatusError", text);
#endif
    return ERROR;
}

/* Names are clipped where they are written into the table: the text has room for them. */
static int refuse(const model *m, const char *name, double value, const char *expected)
{
    char text[1024];
    snprintf(text, sizeof text, "%s is %.9g: expected %s", name, value, expected);
    return tell(m, text);
}

static void reset(model *m)
{
    memset(m, 0, sizeof *m);
    m->step = STEP;
    NAME_defaults(&m->p);
    NAME_start(&m->run);
}

/* Whether the processor has the fused multiply-adds that this was compiled for. */
static int able(void)
{
#if defined(__FMA__) && defined(__GNUC__)
    unsigned a, b, c = 0, d;
    const unsigned needed = 1u << 12 | 1u << 27 | 1u << 28; /* FMA, XSAVE in use, AVX */
    return __get_cpuid(1, &a, &b, &c, &d) && (c & needed) == needed;
#else
    return 1;
#endif
}

static void *make(const char *name, const char *token, logger log, void *environment)
{
    const char *known = name ? name : "";
    instance *own;
    if (strcmp(token, TOKEN) != 0 || !able()) return 0;
    own = (instance *)malloc(sizeof *own);
    if (!own) return 0;
    reset(&own->m);
    own->log = log, own->environment = environment;
    own->name = (char *)malloc(strlen(known) + 1);
    if (own->name) return strcpy(own->name, known), own;
    free(own);
    return 0;
}

static void discard(void *m)
{
    if (m) free(((instance *)m)->name);
    free(m);
}

/* What one number alone must be. */
static const char *bound(int rule, double value)
{
    if (!isfinite(value)) return "a finite number";
    if (rule == ABOVE && !(value > 0)) return "a number above 0";
    if (rule == LEAST && !(value >= 0)) return "0 or more";
    if (rule == SHARE && !(value >= 0 && value <= 1)) return "0 to 1";
    if (rule == ZERO && value != 0) return "0, as in the exported robot";
    return 0;
}

#ifdef AT_INERTIA
/* Whether ten numbers are those of a body: half the trace less the inertia about the mass centre is not negative,
 * which is the triangle inequality of the principal moments. */
static int solid(const double *p)
{
    const double hh = p[1] * p[1] + p[2] * p[2] + p[3] * p[3], trace = p[4] + p[5] + p[6];
    const double half = 0.5 * (trace - 2.0 * hh / p[0]), slack = TRIANGLE * (trace + hh / p[0]);
    const double a = half - p[4] + (hh - p[1] * p[1]) / p[0] + slack, d = -p[7] - p[1] * p[2] / p[0];
    const double b = half - p[5] + (hh - p[2] * p[2]) / p[0] + slack, e = -p[8] - p[1] * p[3] / p[0];
    const double c = half - p[6] + (hh - p[3] * p[3]) / p[0] + slack, f = -p[9] - p[2] * p[3] / p[0];
    return a > 0 && a * b - d * d > 0 && a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e) > 0;
}
#endif

/* Whether the numbers fit each other; what follows from them is known then. */
static int ready(model *m)
{
    const double *q = m->run.state + 3;
    const double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    if (!m->stale) return 1;
    if (!(fabs(length - 1.0) <= UNIT)) return refuse(m, "length of the quaternion", length, "1"), 0;
#ifdef AT_INERTIA
    {
        const unsigned count = sizeof m->p.inertia / (10 * sizeof *m->p.inertia);
        unsigned b, k;
        for (b = 0; b < count; ++b) {
            const double *own = m->p.inertia + 10 * b;
            const char *const *names = NAME_names + AT_INERTIA + 10 * b;
            for (k = 1; k < 10 && own[0] == 0; ++k) {
                if (own[k] != 0) return refuse(m, names[k], own[k], "0, since the mass is 0"), 0;
            }
            if (own[0] != 0 && !solid(own)) {
                refuse(m, names[4], own[4],
                       "with Iyy to Iyz, m and mx to mz the numbers of a body: about its mass centre no principal"
                       " moment is larger than the sum of the other two (triangle inequality)");
                return 0;
            }
        }
    }
#endif
#ifdef AT_STATIC
    {
        unsigned k;
        for (k = 0; k < DOFS; ++k) {
            const double most = m->p.static_friction[k];
            if (m->p.coulomb_friction[k] > most) {
                return refuse(m, NAME_names[AT_COULOMB + k], m->p.coulomb_friction[k],
                              "no more than the static friction of the joint"), 0;
            }
        }
    }
#endif
    DERIVE
    m->stale = 0;
    return 1;
}

static void prepare(model *m, NAME_work *w)
{
    memset(w, 0, sizeof *w);
    w->p = &m->p, w->run = &m->run;
    w->now = &NAME_phases[m->run.phase < PHASES ? m->run.phase : PHASES - 1];
#if WATCHED
    memcpy(w->nodes[0], m->run.nodes, sizeof m->run.nodes);
#endif
}

static void set_time(model *m, double time)
{
    m->time = time;
    if (m->run.phase >= PHASES) return;
    m->run.time = time - m->origin;
    m->run.since = m->run.time - m->run.began;
}

/* Events at this instant, whatever their kind; 0 where that fails. */
static int update(model *m)
{
    NAME_run *run = &m->run;
    NAME_work w;
    double end;
    int ended = 0;
    if (!ready(m)) return 0;
    prepare(m, &w);
    if (run->phase >= PHASES) return 1;
#if WATCHED
    if (!run->opened) {
        int i, first = -1;
        NAME_rates(&w, run->since, run->state, w.slope);
        NAME_functions(&w, run->since, run->state, w.g);
        for (i = 0; i < w.now->watched && first < 0; ++i) {
            if (run->sign[i] * w.g[i] <= 0 && run->sign[i] * NAME_direction(&w, i) <= 0 && run->sign[i]) first = i;
        }
        if (first >= 0) {
            memcpy(w.next, run->state, sizeof w.next);
            run->stalled = 0;
            ended = NAME_happen(&w, 0, first, INFINITY);
            if (ended < 0) return 0;
        }
    }
#endif
    end = NAME_until(&w);
    if (!ended && fabs(run->since - end) <= INSTANT * (1.0 + fabs(m->time) + fabs(m->origin))) run->since = end;
    if (!ended && run->since >= w.now->breaks[run->piece + 1]) {
        run->fresh = 1;
        if (run->piece + 1 < w.now->pieces) ++run->piece;
        else ended = 1;
    }
    if (ended) {
        NAME_leave(&w, ended);
        if (run->phase >= PHASES) return 1;
        w.now = &NAME_phases[run->phase];
    }
    if (run->opened) NAME_open(&w);
#if LAWS
    if (NAME_due(&w, run->since)) NAME_tick(&w, run->since);
#endif
    if (run->fresh && !NAME_begin(&w, run->since)) return 0;
#if WATCHED
    memcpy(run->nodes, w.nodes[0], sizeof run->nodes);
#endif
    return 1;
}

/* When the next event in time comes; INFINITY for never. */
static double next_event(model *m)
{
    NAME_work w;
    prepare(m, &w);
    return m->run.phase < PHASES ? m->origin + m->run.began + NAME_until(&w) : INFINITY;
}

/* Rates of the state, and what is watched. */
static int evaluate(model *m)
{
    NAME_run kept = m->run;
    NAME_work w;
    int i, known;
    if (!ready(m)) return ERROR;
    known = !m->run.opened || update(m); /* nothing has begun yet: as if it had */
    prepare(m, &w);
    memset(m->rate, 0, sizeof m->rate);
    memset(m->command, 0, sizeof m->command);
    for (i = 0; i <= WATCHED; ++i) m->watched[i] = 1;
    if (known && m->run.phase < PHASES) {
        NAME_rates(&w, m->run.since, m->run.state, m->rate);
        memcpy(m->command, w.commanded, sizeof m->command);
#if WATCHED
        NAME_functions(&w, m->run.since, m->run.state, m->watched);
#endif
    }
    m->phase = kept.phase;
    if (kept.opened) m->run = kept;
    return known ? OK : tell(m, BROKEN);
}

/* Sides of what was exactly at its level, once it has left it. */
static void completed(model *m)
{
#if WATCHED
    NAME_work w;
    int i, open = 0;
    if (!ready(m)) return;
    prepare(m, &w);
    if (m->run.phase >= PHASES || m->run.opened) return;
    for (i = w.now->frictional; i < w.now->watched; ++i) open = open || m->run.sign[i] == 0;
    if (!open) return;
    NAME_functions(&w, m->run.since, m->run.state, w.g);
    for (i = w.now->frictional; i < w.now->watched; ++i) {
        if (m->run.sign[i] == 0) m->run.sign[i] = NAME_side(w.g[i]);
    }
#else
    (void)m;
#endif
}

/* Co-simulation: steps as far as the communication point; the end of the scenario may come before. */
static int advance(model *m, double now, double length, bool *ends, double *reached)
{
    int done;
    *ends = false;
    *reached = m->time;
    if (!isfinite(now)) return refuse(m, "the communication point", now, "a finite number, s");
    if (!(isfinite(length) && length >= 0)) return refuse(m, "the communication step", length, "0 or more, s");
    if (!ready(m)) return ERROR;
    done = NAME_go(&m->p, &m->run, now + length - m->origin, m->step, m->origin);
    *ends = m->run.phase >= PHASES && !done;
    m->time = *reached = *ends ? m->origin + m->run.time : now + length;
    m->phase = m->run.phase;
    return done < 0 ? tell(m, BROKEN) : OK;
}

static double *place(model *m, uint32_t k)
{
    if (k == 0) return &m->time;
    if (k < AT_THRUSTER) return m->run.force + (k - 1);
#if THRUSTERS
    if (k < AT_WRENCH) return m->run.thruster + (k - AT_THRUSTER);
#endif
#if WRENCHES
    if (k < AT_STATE) return m->run.wrench + (k - AT_WRENCH);
#endif
    if (k < AT_RATE) return m->run.state + (k - AT_STATE);
    if (k < AT_WATCHED) return m->rate + (k - AT_RATE);
    if (k < AT_PHASE) return m->watched + (k - AT_WATCHED);
    if (k == AT_PHASE) return &m->phase;
    if (k < AT_OUTPUT) return m->command + (k - AT_COMMAND);
    if (k < AT_PARAMETER) return m->output + (k - AT_OUTPUT);
CASES
    return 0;
}

#if TANGENTS
/* How rates, states and outputs change where states and inputs change along the seed. */
static int change(const model *m, const uint32_t *unknown, size_t wanted, const uint32_t *known, size_t given,
                  const double *seed, double *found)
{
    instance copy = *(const instance *)(const void *)m; /* nothing of the model is changed by asking */
    double state[NY] = {0}, force[DOFS] = {0}, rate[NX], output[SEEN];
#if PUSHED
    double thruster[THRUSTERS + 1] = {0}, wrench[WRENCHES + 1] = {0}, pushed[DOFS];
#endif
    NAME_work w;
    size_t i;
    int j;
    for (i = 0; i < given; ++i) {
        const uint32_t k = known[i];
        if (k >= 1 && k < AT_THRUSTER) force[k - 1] = seed[i];
#if THRUSTERS
        else if (k >= AT_THRUSTER && k < AT_WRENCH) thruster[k - AT_THRUSTER] = seed[i];
#endif
#if WRENCHES
        else if (k >= AT_WRENCH && k < AT_STATE) wrench[k - AT_WRENCH] = seed[i];
#endif
        else if (k >= AT_STATE && k < AT_RATE) state[k - AT_STATE] = seed[i];
        else return refuse(m, "a known", k, "the value reference of a state or an input");
    }
    if (!ready(&copy.m) || (copy.m.run.opened && !update(&copy.m))) return ERROR;
    memset(rate, 0, sizeof rate);
    if (copy.m.run.phase < PHASES) {
        prepare(&copy.m, &w);
        NAME_rates(&w, copy.m.run.since, copy.m.run.state, copy.m.rate);
#if PUSHED
        NAME_push_tangent(&copy.m.run, copy.m.run.state, state, thruster, wrench, pushed);
        for (j = 0; j < DOFS; ++j) force[j] += pushed[j];
#endif
        NAME_motion_tangent(&copy.m.p, w.in, state, force, rate);
        for (j = 0; j < DOFS; ++j) {
            if (w.in[MODE + j] != 0) rate[NAME_speed[j]] = 0; /* locked, stuck, or on a path */
        }
    }
    NAME_outputs_tangent(&copy.m.p, copy.m.run.state, state, output);
    for (i = 0; i < wanted; ++i) {
        const uint32_t k = unknown[i];
        if (k >= AT_STATE && k < AT_RATE) found[i] = state[k - AT_STATE];
        else if (k >= AT_RATE && k < AT_WATCHED) found[i] = rate[k - AT_RATE];
        else if (k >= AT_PHASE && k < AT_OUTPUT) found[i] = 0;
        else if (k >= AT_OUTPUT && k < AT_PARAMETER) found[i] = output[k - AT_OUTPUT];
        else return refuse(m, "an unknown", k, "the value reference of a derivative or an output");
    }
    return OK;
}
#else
static int change(const model *m, const uint32_t *unknown, size_t wanted, const uint32_t *known, size_t given,
                  const double *seed, double *found)
{
    (void)unknown, (void)wanted, (void)known, (void)given, (void)seed, (void)found;
    return tell(m, "a scenario with force elements or continuous laws has no directional derivatives");
}
#endif

static int get(model *m, const uint32_t *which, size_t count, double *values)
{
    size_t i;
    int status = OK, known = 0, seen = 0;
    for (i = 0; i < count; ++i) {
        const double *at = place(m, which[i]);
        if (!at) return ERROR;
        if (!known && which[i] >= AT_RATE && which[i] < AT_OUTPUT) {
            status = evaluate(m);
            known = 1;
        } else if (!seen && which[i] >= AT_OUTPUT && which[i] < AT_PARAMETER) {
            if (!ready(m)) return ERROR;
            NAME_outputs(&m->p, m->run.state, m->output);
            seen = 1;
        }
        values[i] = *at;
    }
    return status;
}

static int set(model *m, const uint32_t *which, size_t count, const double *values)
{
    size_t i;
    for (i = 0; i < count; ++i) { /* all or none */
        const char *expected;
        if (!place(m, which[i])) return refuse(m, "a value reference", which[i], "one of the model description");
        if (which[i] >= AT_RATE && which[i] < AT_PARAMETER) {
            return refuse(m, NAME_names[which[i]], values[i], "no value: it is computed");
        }
        expected = bound(NAME_rules[which[i]], values[i]);
        if (expected) return refuse(m, NAME_names[which[i]], values[i], expected);
    }
    for (i = 0; i < count; ++i) {
        *place(m, which[i]) = values[i];
        if (which[i] >= AT_STATE) m->stale = 1;
    }
    return OK;
}

/* All of a model is one block without pointers. */
static int keep(const model *m, void **kept)
{
    if (!*kept) *kept = malloc(sizeof *m);
    if (!*kept) return ERROR;
    memcpy(*kept, m, sizeof *m);
    return OK;
}
