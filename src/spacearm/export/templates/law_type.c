typedef struct {
    void (*call)(const double *in, double *out);
    int actions, remembers, first, memory, model, numbers, drawn, margin;
    unsigned long long seed, draw; /* of random numbers */
    const double *own;             /* numbers of its model */
    const unsigned long long *channels; /* of random numbers */
    const int *once;                    /* 1: drawn once for the run */
    const int *momentary;               /* what of its memory begins anew after a pause */
    const int *slow; /* of each command: one in how many ticks is its own, its count in the memory, where it is held */
    int renewed;
} NAME_law;

