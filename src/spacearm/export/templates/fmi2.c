
/* FMI 2.0 */
typedef struct {
    int again, ends, nominals, values, event;
    double time;
} event_info;

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }
EXPORT int fmi2SetDebugLogging(void *m) { (void)m; return OK; }

typedef struct {
    logger log;
    void *(*allocate)(size_t, size_t);
    void (*release)(void *);
    void (*finished)(void *, int);
    void *environment;
} callback_functions;

EXPORT void *fmi2Instantiate(const char *name, int type, const char *token, const char *resources,
                             const callback_functions *call, int visible, int logging)
{
    (void)type, (void)resources, (void)visible, (void)logging;
    return make(name, token, call ? call->log : 0, call ? call->environment : 0);
}

EXPORT void fmi2FreeInstance(void *m) { discard(m); }

EXPORT int fmi2SetupExperiment(void *m, int given, double tolerance, double start, int stops, double stop)
{
    (void)given, (void)tolerance, (void)stops, (void)stop;
    ((model *)m)->time = ((model *)m)->origin = start;
    return OK;
}

EXPORT int fmi2EnterInitializationMode(void *m) { (void)m; return OK; }
EXPORT int fmi2ExitInitializationMode(void *m) { return ready((model *)m) ? OK : ERROR; }
EXPORT int fmi2EnterEventMode(void *m) { (void)m; return OK; }
EXPORT int fmi2EnterContinuousTimeMode(void *m) { (void)m; return OK; }
EXPORT int fmi2Terminate(void *m) { (void)m; return OK; }
EXPORT int fmi2Reset(void *m) { reset((model *)m); return OK; }

EXPORT int fmi2GetReal(void *m, const uint32_t *which, size_t count, double *values)
{
    return get((model *)m, which, count, values);
}

EXPORT int fmi2SetReal(void *m, const uint32_t *which, size_t count, const double *values)
{
    return set((model *)m, which, count, values);
}

EXPORT int fmi2NewDiscreteStates(void *instance, event_info *info)
{
    model *m = (model *)instance;
    double before[NY];
    int known;
    memcpy(before, m->run.state, sizeof before);
    known = update(m);
    info->again = info->nominals = 0;
    info->ends = m->run.phase >= PHASES;
    info->values = memcmp(before, m->run.state, sizeof before) != 0;
    info->time = next_event(m);
    info->event = info->time < INFINITY;
    return known ? OK : tell(m, BROKEN);
}

EXPORT int fmi2CompletedIntegratorStep(void *m, int kept, int *event, int *ends)
{
    (void)kept;
    completed((model *)m);
    *event = *ends = 0;
    return OK;
}

EXPORT int fmi2SetTime(void *m, double time) { set_time((model *)m, time); return OK; }

EXPORT int fmi2SetContinuousStates(void *m, const double *x, size_t n)
{
    if (n != NY) return ERROR;
    memcpy(((model *)m)->run.state, x, NY * sizeof *x);
    return OK;
}

EXPORT int fmi2GetContinuousStates(void *m, double *x, size_t n)
{
    if (n != NY) return ERROR;
    memcpy(x, ((model *)m)->run.state, NY * sizeof *x);
    return OK;
}

EXPORT int fmi2GetDerivatives(void *m, double *dx, size_t n)
{
    const int status = evaluate((model *)m);
    if (n != NY) return ERROR;
    memcpy(dx, ((model *)m)->rate, NY * sizeof *dx);
    return status;
}

EXPORT int fmi2GetEventIndicators(void *m, double *z, size_t n)
{
    const int status = evaluate((model *)m);
    if (n != WATCHED) return ERROR;
    memcpy(z, ((model *)m)->watched, WATCHED * sizeof *z);
    return status;
}

EXPORT int fmi2GetNominalsOfContinuousStates(void *m, double *x, size_t n)
{
    (void)m;
    while (n-- > 0) x[n] = 1;
    return OK;
}

EXPORT int fmi2DoStep(void *m, double now, double length, int kept)
{
    bool ends;
    double reached;
    int status;
    (void)kept;
    status = advance((model *)m, now, length, &ends, &reached);
    return status == OK && ends ? DISCARD : status;
}

EXPORT int fmi2GetRealStatus(void *m, int kind, double *value)
{
    *value = ((model *)m)->time;
    return kind == 2 ? OK : DISCARD; /* last successful time */
}

EXPORT int fmi2GetBooleanStatus(void *m, int kind, int *value)
{
    *value = ((model *)m)->run.phase >= PHASES;
    return kind == 3 ? OK : DISCARD; /* terminated */
}

EXPORT int fmi2GetFMUstate(void *m, void **kept) { return keep((model *)m, kept); }
EXPORT int fmi2SetFMUstate(void *m, void *kept) { memcpy(m, kept, sizeof(model)); return OK; }
EXPORT int fmi2FreeFMUstate(void *m, void **kept) { (void)m; free(*kept); *kept = 0; return OK; }
EXPORT int fmi2SerializedFMUstateSize(void *m, void *kept, size_t *n)
{
    (void)m, (void)kept;
    *n = sizeof(model);
    return OK;
}

EXPORT int fmi2SerializeFMUstate(void *m, void *kept, char *bytes, size_t n)
{
    (void)m;
    if (n < sizeof(model)) return ERROR;
    memcpy(bytes, kept, sizeof(model));
    return OK;
}

EXPORT int fmi2DeSerializeFMUstate(void *m, const char *bytes, size_t n, void **kept)
{
    (void)m;
    return n < sizeof(model) ? ERROR : keep((const model *)(const void *)bytes, kept);
}

EXPORT int fmi2GetDirectionalDerivative(void *m, const uint32_t *unknown, size_t wanted, const uint32_t *known,
                                        size_t given, const double *seed, double *found)
{
    return change((const model *)m, unknown, wanted, known, given, seed, found);
}

#define UNSUPPORTED(name) EXPORT int name(void *m) { (void)m; return ERROR; }
UNSUPPORTED(fmi2GetInteger) UNSUPPORTED(fmi2SetInteger) UNSUPPORTED(fmi2GetBoolean) UNSUPPORTED(fmi2SetBoolean)
UNSUPPORTED(fmi2GetString) UNSUPPORTED(fmi2SetString)
UNSUPPORTED(fmi2SetRealInputDerivatives) UNSUPPORTED(fmi2GetRealOutputDerivatives) UNSUPPORTED(fmi2CancelStep)
UNSUPPORTED(fmi2GetStatus) UNSUPPORTED(fmi2GetIntegerStatus) UNSUPPORTED(fmi2GetStringStatus)
