
/* FMI 3.0 */
EXPORT const char *fmi3GetVersion(void) { return "3.0"; }

EXPORT void *fmi3InstantiateModelExchange(const char *name, const char *token, const char *resources, bool visible,
                                          bool logging, void *environment, logger log)
{
    (void)resources, (void)visible, (void)logging;
    return make(name, token, log, environment);
}

EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, bool visible,
                                         bool logging, bool events, bool early, const uint32_t *wanted, size_t count,
                                         void *environment, logger log, void *update_)
{
    (void)resources, (void)visible, (void)logging, (void)events, (void)early, (void)wanted, (void)count, (void)update_;
    return make(name, token, log, environment);
}

EXPORT void *fmi3InstantiateScheduledExecution(void) { return 0; }
EXPORT void fmi3FreeInstance(void *m) { discard(m); }
EXPORT int fmi3SetDebugLogging(void *m) { (void)m; return OK; }

EXPORT int fmi3EnterInitializationMode(void *m, bool given, double tolerance, double start, bool stops, double stop)
{
    (void)given, (void)tolerance, (void)stops, (void)stop;
    ((model *)m)->time = ((model *)m)->origin = start;
    return OK;
}

EXPORT int fmi3ExitInitializationMode(void *m) { return ready((model *)m) ? OK : ERROR; }
EXPORT int fmi3EnterEventMode(void *m) { (void)m; return OK; }
EXPORT int fmi3EnterStepMode(void *m) { (void)m; return OK; }
EXPORT int fmi3EnterContinuousTimeMode(void *m) { (void)m; return OK; }
EXPORT int fmi3EvaluateDiscreteStates(void *m) { (void)m; return OK; }
EXPORT int fmi3Terminate(void *m) { (void)m; return OK; }
EXPORT int fmi3Reset(void *m) { reset((model *)m); return OK; }

EXPORT int fmi3GetFloat64(void *m, const uint32_t *which, size_t count, double *values, size_t room)
{
    return room < count ? ERROR : get((model *)m, which, count, values);
}

EXPORT int fmi3SetFloat64(void *m, const uint32_t *which, size_t count, const double *values, size_t room)
{
    return room < count ? ERROR : set((model *)m, which, count, values);
}

EXPORT int fmi3UpdateDiscreteStates(void *instance, bool *again, bool *ends, bool *nominals, bool *values, bool *event,
                                    double *time)
{
    model *m = (model *)instance;
    double before[NY];
    int known;
    memcpy(before, m->run.state, sizeof before);
    known = update(m);
    *again = *nominals = false;
    *ends = m->run.phase >= PHASES;
    *values = memcmp(before, m->run.state, sizeof before) != 0;
    *time = next_event(m);
    *event = *time < INFINITY;
    return known ? OK : tell(m, BROKEN);
}

EXPORT int fmi3CompletedIntegratorStep(void *m, bool kept, bool *event, bool *ends)
{
    (void)kept;
    completed((model *)m);
    *event = *ends = false;
    return OK;
}

EXPORT int fmi3SetTime(void *m, double time) { set_time((model *)m, time); return OK; }

EXPORT int fmi3SetContinuousStates(void *m, const double *x, size_t n)
{
    if (n != NY) return ERROR;
    memcpy(((model *)m)->run.state, x, NY * sizeof *x);
    return OK;
}

EXPORT int fmi3GetContinuousStates(void *m, double *x, size_t n)
{
    if (n != NY) return ERROR;
    memcpy(x, ((model *)m)->run.state, NY * sizeof *x);
    return OK;
}

EXPORT int fmi3GetContinuousStateDerivatives(void *m, double *dx, size_t n)
{
    const int status = evaluate((model *)m);
    if (n != NY) return ERROR;
    memcpy(dx, ((model *)m)->rate, NY * sizeof *dx);
    return status;
}

EXPORT int fmi3GetNominalsOfContinuousStates(void *m, double *x, size_t n)
{
    (void)m;
    while (n-- > 0) x[n] = 1;
    return OK;
}

EXPORT int fmi3GetNumberOfEventIndicators(void *m, size_t *n) { (void)m; *n = WATCHED; return OK; }
EXPORT int fmi3GetNumberOfContinuousStates(void *m, size_t *n) { (void)m; *n = NY; return OK; }

EXPORT int fmi3GetEventIndicators(void *m, double *z, size_t n)
{
    const int status = evaluate((model *)m);
    if (n != WATCHED) return ERROR;
    memcpy(z, ((model *)m)->watched, WATCHED * sizeof *z);
    return status;
}

EXPORT int fmi3DoStep(void *m, double now, double length, bool kept, bool *handle, bool *ends, bool *early,
                      double *reached)
{
    (void)kept;
    *handle = *early = false;
    return advance((model *)m, now, length, ends, reached);
}

EXPORT int fmi3GetFMUState(void *m, void **kept) { return keep((model *)m, kept); }
EXPORT int fmi3SetFMUState(void *m, void *kept) { memcpy(m, kept, sizeof(model)); return OK; }
EXPORT int fmi3FreeFMUState(void *m, void **kept) { (void)m; free(*kept); *kept = 0; return OK; }
EXPORT int fmi3SerializedFMUStateSize(void *m, void *kept, size_t *n)
{
    (void)m, (void)kept;
    *n = sizeof(model);
    return OK;
}

EXPORT int fmi3SerializeFMUState(void *m, void *kept, uint8_t *bytes, size_t n)
{
    (void)m;
    if (n < sizeof(model)) return ERROR;
    memcpy(bytes, kept, sizeof(model));
    return OK;
}

EXPORT int fmi3DeserializeFMUState(void *m, const uint8_t *bytes, size_t n, void **kept)
{
    (void)m;
    return n < sizeof(model) ? ERROR : keep((const model *)(const void *)bytes, kept);
}

EXPORT int fmi3GetDirectionalDerivative(void *m, const uint32_t *unknown, size_t wanted, const uint32_t *known,
                                        size_t given, const double *seed, size_t seeds, double *found, size_t room)
{
    return seeds < given || room < wanted ? ERROR : change((const model *)m, unknown, wanted, known, given, seed, found);
}

#define UNSUPPORTED(name) EXPORT int name(void *m) { (void)m; return ERROR; }
#define TYPE(kind) UNSUPPORTED(fmi3Get##kind) UNSUPPORTED(fmi3Set##kind)
TYPE(Float32) TYPE(Int8) TYPE(UInt8) TYPE(Int16) TYPE(UInt16) TYPE(Int32) TYPE(UInt32) TYPE(Int64) TYPE(UInt64)
TYPE(Boolean) TYPE(String) TYPE(Binary) TYPE(Clock) TYPE(IntervalDecimal) TYPE(IntervalFraction) TYPE(ShiftDecimal)
TYPE(ShiftFraction)
UNSUPPORTED(fmi3GetNumberOfVariableDependencies) UNSUPPORTED(fmi3GetVariableDependencies)
UNSUPPORTED(fmi3GetAdjointDerivative)
UNSUPPORTED(fmi3EnterConfigurationMode) UNSUPPORTED(fmi3ExitConfigurationMode)
UNSUPPORTED(fmi3GetOutputDerivatives) UNSUPPORTED(fmi3ActivateModelPartition)
