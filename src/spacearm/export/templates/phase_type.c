typedef struct {
    int pieces, channels, powers, locked, law, actions, references, follow_powers, feels;
    int frictional, levels, margins, watched, bounded;
    double period;         /* s between two ticks of the law; 0: continuous, or none */
    const double *breaks;  /* pieces + 1, s since the phase began */
    const double *mode;    /* 1: a degree of freedom whose motion is given */
    const double *signals; /* of each piece, of each channel: coefficients, lowest power first */
    const int *targets;    /* place in the input of each channel */
    const int *still;      /* velocities of what is locked */
    const int *acts;       /* place in the input of each command of the law */
    const int *read;       /* place in the law's input of what it follows */
    const double *follow;  /* as signals */
    const int *felt;       /* place in the input of what the law feels */
    const int *rub;        /* degrees of freedom with dry friction */
    const int *component;  /* places in the state of what is watched, and the levels */
    const double *level;
    const int *rate;       /* place in the state of the rate of each */
    const int *direction;  /* of the crossing: 1, -1, 0 both */
    const int *inside;     /* side of a limit on which the joint may be */
    const int *ends;       /* 1: the phase, 2: the run */
    const int *bounds;     /* command of the law whose rate limit a level is, or -1 */
    const double *brakes;  /* the command beyond a level where braking ends; 0: a level where pushing ends */
    const int *from;       /* where the phase before has the side, or -1 */
} NAME_phase;
