/* From here on the code is the same for every scenario; numbers and tables stand above. */

typedef struct {
    const NAME_parameters *p;
    const NAME_phase *now;
    NAME_run *run;
    double in[INPUTS], out[OUTPUTS];
    double k[4][NY];  /* rates at the stages */
    double slope[NY]; /* rate at the end of the step */
    double next[NY], tried[NY], rate[NY];
    double commanded[DOFS]; /* generalised force without the inputs */
#if LAWS
    double answer[ANSWER]; /* of the law: commands, memory, levels, margins */
#endif
#if WATCHED
    double dense[3][NY]; /* cubic of the last step */
    double nodes[9][WATCHED];
    double g[WATCHED];
    int stopped[FRICTIONAL + 1];
#endif
} NAME_work;

static double NAME_value(const double *table, int channels, int powers, double local, int piece, int channel)
{
    const double *c = table + (piece * channels + channel) * powers;
    int power = powers - 1;
    double result = c[power];
    while (power-- > 0) result = result * local + c[power];
    return result;
}

static double NAME_signal(const NAME_phase *now, int piece, int channel, double t)
{
    return NAME_value(now->signals, now->channels, now->powers, t - now->breaks[piece], piece, channel);
}

#if NOISE
static unsigned long long NAME_mixed(unsigned long long x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* A number of the standard normal distribution, by seed, sample, time and channel: SplitMix64, Box and Muller. */
static double NAME_normal(
    unsigned long long seed, unsigned long long sample, unsigned long long at, unsigned long long channel)
{
    const unsigned long long key = NAME_mixed(NAME_mixed(NAME_mixed(NAME_mixed(seed) ^ sample) ^ at) ^ channel);
    const double first = (double)(NAME_mixed(key) >> 11);
    const double second = (double)(NAME_mixed(key ^ 1u) >> 11);
    return sqrt(-2.0 * log((first + 1.0) * 0x1p-53)) * cos(2.0 * 0x1.921fb54442d18p+1 * second * 0x1p-53);
}
#endif

#if LAWS
/* The law's answer to this state; it acts from then on. */
static void NAME_ask(NAME_work *w, double t, const double *y)
{
    const NAME_phase *now = w->now;
    const NAME_law *law = &NAME_laws[now->law - 1];
    const double local = t - now->breaks[w->run->piece];
    const double *memory = now->period > 0 ? w->run->memory + law->first : y + NX + law->first;
    double in[LAW_INPUTS];
    int i;
    memcpy(in, y, NX * sizeof *in);
    in[NX] = t;
    for (i = 0; i < now->references; ++i) {
        in[now->read[i]] = NAME_value(now->follow, now->references, now->follow_powers, local, w->run->piece, i);
    }
    for (i = 0; i < law->remembers; ++i) in[law->memory + i] = memory[i];
    for (i = 0; i < law->numbers; ++i) in[law->model + i] = law->own[i];
#if NOISE
    for (i = 0; i < law->drawn; ++i) {
        const unsigned long long at =
            law->once[i] ? ~0ull : (unsigned long long)floor((w->run->began + t) * MOMENTS + AFTER);
        in[law->model + law->numbers + i] = NAME_normal(law->seed, law->draw, at, law->channels[i]);
    }
#endif
    for (i = 0; i < now->feels; ++i) in[law->model + law->numbers + law->drawn + i] = w->in[now->felt[i]];
    law->call(in, w->answer);
    for (i = 0; i < law->actions; ++i) w->run->action[i] = w->answer[i];
    for (i = 0; i < law->remembers && now->period > 0; ++i) w->run->memory[law->first + i] = w->answer[law->actions + i];
}
#endif

#if PUSHED
/* Whether a thruster fires or a wrench acts. */
static int NAME_pushes(const NAME_run *run)
{
    int i;
#if THRUSTERS
    for (i = 0; i < THRUSTERS; ++i) {
        if (run->thruster[i] != 0) return 1;
    }
#endif
#if WRENCHES
    for (i = 0; i < WRENCHES; ++i) {
        if (run->wrench[i] != 0) return 1;
    }
#endif
    return 0;
}
#endif

/* The rate of the state y at t; inputs and outputs of the motion are left in the work. */
static void NAME_rates(NAME_work *w, double t, const double *y, double *dy)
{
    const NAME_phase *now = w->now;
    double *in = w->in;
    int i;
    memset(in, 0, sizeof w->in);
    for (i = 0; i < NX; ++i) in[i] = y[i];
    for (i = 0; i < DOFS; ++i) in[MODE + i] = now->mode[i];
#if FRICTIONAL
    for (i = 0; i < now->frictional; ++i) {
        const int j = now->rub[i], status = w->run->status[i];
        in[MODE + j] = status == 0;
        in[FRICTION + j] = -status * w->p->coulomb_friction[j];
    }
#endif
    for (i = 0; i < now->channels; ++i) in[now->targets[i]] = NAME_signal(now, w->run->piece, i, t);
#if LAWS
    if (now->law && now->period == 0) NAME_ask(w, t, y);
    for (i = 0; i < now->actions; ++i) in[now->acts[i]] += w->run->action[i];
#endif
#if FED
    NAME_feed(w->run->began + t, in);
#endif
    memcpy(w->commanded, in + FORCE, sizeof w->commanded);
    /* Left alone where nothing is given: 0.0 would change the sign of -0.0. */
    for (i = 0; i < DOFS; ++i) {
        if (w->run->force[i] != 0) in[FORCE + i] += w->run->force[i];
    }
#if PUSHED
    if (NAME_pushes(w->run)) {
        double pushed[DOFS];
        NAME_push(w->run, y, pushed);
        for (i = 0; i < DOFS; ++i) in[FORCE + i] += pushed[i];
    }
#endif
    NAME_motion(w->p, in, w->out);
    for (i = 0; i < NX; ++i) dy[i] = w->out[i];
#if NY > NX
    for (i = NX; i < NY; ++i) dy[i] = 0;
    if (now->law && now->period == 0) {
        const NAME_law *law = &NAME_laws[now->law - 1];
        for (i = 0; i < law->remembers; ++i) dy[NX + law->first + i] = w->answer[law->actions + i];
    }
#endif
    for (i = 0; i < DOFS; ++i) {
        if (in[MODE + i] != 0) dy[NAME_speed[i]] = in[DRIVE + i];
    }
}

/* Quaternions of length one, driven joints on their paths. */
static void NAME_project(const NAME_work *w, double t, double *y)
{
    const NAME_phase *now = w->now;
    int i, k;
    for (k = 0; k < QUATERNIONS; ++k) {
        double *q = y + NAME_quaternion[k];
        const double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        for (i = 0; i < 4; ++i) q[i] /= norm;
    }
    for (i = 0; i < now->channels; ++i) {
        if (now->targets[i] < NX) y[now->targets[i]] = NAME_signal(now, w->run->piece, i, t);
    }
}

static int NAME_finite(const double *y)
{
    double total = 0;
    int i;
    for (i = 0; i < NY; ++i) total += fabs(y[i]);
    return total - total == 0;
}

/* One step of RK4 from the state, whose rate is in k[0], to w->next. */
static void NAME_take(NAME_work *w, double t, double h)
{
    const double *y = w->run->state;
    int i, stage;
    for (stage = 1; stage < 4; ++stage) {
        const double part = stage == 3 ? h : 0.5 * h;
        for (i = 0; i < NY; ++i) w->tried[i] = y[i] + part * w->k[stage - 1][i];
        NAME_rates(w, t + part, w->tried, w->k[stage]);
    }
    for (i = 0; i < NY; ++i) {
        w->next[i] = y[i] + h / 6.0 * (w->k[0][i] + 2.0 * (w->k[1][i] + w->k[2][i]) + w->k[3][i]);
    }
}

#if FRICTIONAL
/* Dry friction: which of the joints at rest stay, and which way the others go; 0 where no answer was found. */
static int NAME_settle(NAME_work *w, double t, const double *y)
{
    const NAME_phase *now = w->now;
    int *status = w->run->status;
    const int count = now->frictional;
    int attempt, rounds, i;
    for (attempt = 0; attempt < 2; ++attempt) {
        for (rounds = attempt ? 20 * count * count + 20 : 3 * count + 5; rounds > 0; --rounds) {
            double worst = 1.0 + SLACK;
            int change = -1;
            NAME_rates(w, t, y, w->rate);
            for (i = 0; i < count; ++i) {
                const int j = now->rub[i], at = NAME_speed[j];
                if (y[at] != 0) continue;
                if (status[i] != 0) {
                    if (!(status[i] * w->rate[at] > 0)) {
                        change = i;
                        break;
                    }
                } else {
                    double bound = w->p->static_friction[j], load;
                    if (attempt) {
                        const double least = 1e-9 * bound;
                        bound = w->p->coulomb_friction[j] > least ? w->p->coulomb_friction[j] : least;
                    }
                    load = fabs(w->out[REACTION + j]) / bound;
                    if (load > worst) {
                        change = i;
                        if (attempt) break;
                        worst = load;
                    }
                }
            }
            if (change < 0) return 1;
            /* The reaction holds against the other forces: without it they push the other way. */
            status[change] = status[change] ? 0 : w->out[REACTION + now->rub[change]] > 0 ? -1 : 1;
        }
    }
    return 0;
}

/* Stop what has come to rest, and resolve friction. */
static int NAME_rest(NAME_work *w, double t)
{
    const NAME_phase *now = w->now;
    int i;
    for (i = 0; i < now->frictional; ++i) {
        const int at = NAME_speed[now->rub[i]], status = w->run->status[i];
        const double speed = status * w->run->state[at];
        if (status != 0 && (w->stopped[i] || (speed > 0 && speed <= -status * w->slope[at] * TOGETHER))) {
            w->run->state[at] = 0;
            w->run->status[i] = 0;
        }
    }
    return now->frictional == 0 || NAME_settle(w, t, w->run->state);
}
#endif

#if WATCHED
/* Functions whose sign is watched: friction, then levels, then margins of a continuous law. */
static void NAME_functions(NAME_work *w, double t, const double *y, double *g)
{
    const NAME_phase *now = w->now;
    int i, evaluated = now->margins > 0;
#if FRICTIONAL
    for (i = 0; i < now->frictional; ++i) evaluated = evaluated || w->run->status[i] == 0;
#endif
    if (evaluated) NAME_rates(w, t, y, w->rate);
#if FRICTIONAL
    for (i = 0; i < now->frictional; ++i) {
        const int j = now->rub[i], status = w->run->status[i];
        if (status == 0) *g++ = w->p->static_friction[j] * (1.0 + SLACK) - fabs(w->out[REACTION + j]);
        else *g++ = status * y[NAME_speed[j]];
    }
#endif
    for (i = 0; i < now->levels; ++i) *g++ = y[now->component[i]] - now->level[i];
#if LAWS
    for (i = 0; i < now->margins; ++i) *g++ = w->answer[NAME_laws[now->law - 1].margin + i];
#endif
}

static int NAME_direction(const NAME_work *w, int i)
{
    return i < w->now->frictional ? -1 : w->now->direction[i - w->now->frictional];
}

static int NAME_crossed(int before, double value, int direction)
{
    return (before > 0 && value < 0 && direction <= 0) || (before < 0 && value > 0 && direction >= 0);
}

static int NAME_side(double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

/* The side from which each level starts, as the phase before left it. */
static void NAME_sides(NAME_work *w)
{
    const NAME_phase *now = w->now;
    const double *y = w->run->state;
    int i, c, before[WATCHED];
    memcpy(before, w->run->sign, sizeof before);
    for (i = 0; i < now->levels + now->margins; ++i) {
        int side = now->from[i] < 0 ? 0 : before[now->from[i]];
        if (i < now->levels && now->inside[i] && !(now->from[i] >= 0 && !now->ends[i])) {
            const int inside = now->inside[i];
            double position = y[now->component[i]], rate = y[now->rate[i]], beyond, slack;
            for (c = 0; c < now->channels; ++c) {
                if (now->targets[c] == now->component[i]) position = NAME_signal(now, 0, c, 0);
                if (now->targets[c] == now->rate[i]) rate = NAME_signal(now, 0, c, 0);
            }
            beyond = -inside * (position - now->level[i]);
            slack = ROUNDING * (fabs(position) + fabs(now->level[i]));
            if (beyond > slack) side = w->run->phase > 0 ? inside : 0;
            else if (beyond >= -slack) side = beyond > 0 && !(-inside * rate > 0) ? -inside : inside;
            else side = 0;
        }
        w->run->sign[now->frictional + i] = side;
    }
}

/* Sides at the start of a smooth stretch; one that is known stays. */
static void NAME_signs(NAME_work *w, double t, int opening)
{
    const int count = w->now->frictional;
    int i, *sign = w->run->sign;
    double *g = w->nodes[0];
    NAME_functions(w, t, w->run->state, g);
    for (i = 0; i < w->now->watched; ++i) {
        if (i < count) sign[i] = 1;
        else if (sign[i] == 0) {
            sign[i] = NAME_side(g[i]);
            if (sign[i] == 0 && opening) sign[i] = w->now->inside[i - count];
        }
        if (i >= count && opening) w->run->opening[i - count] = g[i];
    }
}

/* Functions on the cubic of the last step. */
static void NAME_at(NAME_work *w, double t, double h, double theta, double *g)
{
    int i;
    for (i = 0; i < NY; ++i) {
        double value = w->dense[2][i] * theta;
        value = (value + w->dense[1][i]) * (1.0 - theta);
        value = (value + w->dense[0][i]) * theta;
        w->tried[i] = w->run->state[i] + value;
    }
    NAME_project(w, t + theta * h, w->tried);
    NAME_functions(w, t + theta * h, w->tried, g);
}

/* Where function i, nearest to zero at node k, has crossed between its neighbours; -1 if it has not. */
static double NAME_dip(NAME_work *w, double t, double h, int i, int k)
{
    const double sign = w->nodes[k][i] > 0 ? 1 : -1;
    double low = NAME_nodes[k - 1], high = NAME_nodes[k + 1];
    const double left = sign * w->nodes[k - 1][i], middle = sign * w->nodes[k][i], right = sign * w->nodes[k + 1][i];
    const double a = NAME_nodes[k] - low, b = high - NAME_nodes[k];
    const double before = (middle - left) / a, after = (right - middle) / b;
    const double curvature = (after - before) / (a + b), slope = (before * b + after * a) / (a + b);
    int round;
    if (curvature <= 0 || middle - slope * slope / (4.0 * curvature) > 0.5 * middle) return -1;
    for (round = 0; round < 40; ++round) {
        const double x1 = low + 0.381966 * (high - low), x2 = high - 0.381966 * (high - low);
        double g1, g2;
        NAME_at(w, t, h, x1, w->g);
        g1 = sign * w->g[i];
        if (g1 < 0) return x1;
        NAME_at(w, t, h, x2, w->g);
        g2 = sign * w->g[i];
        if (g2 < 0) return x2;
        if (g1 < g2) high = x2;
        else low = x1;
        if (high - low < 1e-7) break;
    }
    return -1;
}

/* The first stretch of the step, as fractions, in which a function crosses: its number, or -1. */
static int NAME_scan(NAME_work *w, double t, double h, double *low, double *high)
{
    const int size = w->now->watched;
    const int *sign = w->run->sign;
    int i, k, m;
    for (k = 1; k < 9; ++k) NAME_at(w, t, h, NAME_nodes[k], w->nodes[k]);
    for (i = 0; i < size; ++i) {
        if (sign[i] * w->nodes[0][i] < 0) w->nodes[0][i] = 0;
    }
    for (k = 1; k < 9; ++k) {
        for (i = 0; i < size; ++i) {
            const int direction = NAME_direction(w, i);
            const double here = w->nodes[k][i];
            int before = sign[i];
            for (m = 1; m < k; ++m) {
                if (w->nodes[m][i] != 0) before = w->nodes[m][i] > 0 ? 1 : -1;
            }
            *low = NAME_nodes[k - 1];
            *high = NAME_nodes[k];
            if (NAME_crossed(before, here, direction)) return i;
            if (k < 8 && before * here > 0 && before * direction <= 0) {
                const double left = fabs(w->nodes[k - 1][i]), middle = fabs(here), right = fabs(w->nodes[k + 1][i]);
                if (middle <= left && middle <= right && before * w->nodes[k + 1][i] > 0) {
                    const double theta = NAME_dip(w, t, h, i, k);
                    if (theta > 0) {
                        *high = theta;
                        return i;
                    }
                }
            }
        }
    }
    return -1;
}

/* A step of length h to w->next, and the functions there. */
static double NAME_trial(NAME_work *w, double t, double h, int i, double sign)
{
    NAME_take(w, t, h);
    NAME_project(w, t + h, w->next);
    NAME_functions(w, t + h, w->next, w->g);
    return sign * w->g[i];
}

/* Length of the step after which function i has just crossed, between low and high; -1 if it does not. */
static double NAME_locate(NAME_work *w, double t, int i, double low, double high)
{
    const int direction = NAME_direction(w, i);
    const double tolerance = TIME_TOLERANCE + ROUNDING * (fabs(t) + fabs(w->run->began));
    double sign = direction > 0 ? -1 : 1, f_high, f_low = 0, a, fa, b, fb, c, fc, share = 0.5;
    int round;
    if (direction == 0) {
        sign = w->run->sign[i] > 0 ? 1 : -1;
        if (w->run->sign[i] == 0) sign = NAME_trial(w, t, low, i, 1) > 0 ? 1 : -1;
    }
    f_high = NAME_trial(w, t, high, i, sign);
    if (!(f_high < 0)) return -1;
    if (low > 0) {
        f_low = NAME_trial(w, t, low, i, sign);
        if (f_low < 0) {
            high = low;
            f_high = f_low;
            low = 0;
        }
    }
    if (low == 0) f_low = fabs(w->nodes[0][i]);
    a = high, fa = f_high, b = low, fb = f_low;
    for (round = 0; round < 100; ++round) {
        const double x = a + share * (b - a), fx = NAME_trial(w, t, x, i, sign);
        double width, least, xi, phi;
        if ((fx < 0) == (fa < 0)) {
            c = a, fc = fa;
        } else {
            c = b, fc = fb;
            b = a, fb = fa;
        }
        a = x, fa = fx;
        width = fabs(b - a);
        if (width <= tolerance) break;
        least = 0.5 * tolerance / width;
        xi = (a - b) / (c - b);
        phi = (fa - fb) / (fc - fb);
        share = 0.5;
        if (phi * phi < xi && (1.0 - phi) * (1.0 - phi) < 1.0 - xi) {
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb);
        }
        share = share > least ? share : least;
        share = share < 1.0 - least ? share : 1.0 - least;
    }
    return fa < 0 ? a : b;
}

/* Length after which the first event of the step has just happened, or -1; which function; whether steps were tried. */
static double NAME_first(NAME_work *w, double t, double h, int *first, int *tried)
{
    double low, high, found;
    int round, i;
    *first = NAME_scan(w, t, h, &low, &high);
    *tried = *first >= 0;
    if (*first < 0) return -1;
    found = NAME_locate(w, t, *first, low * h, high * h);
    if (found < 0 && high < 1) found = NAME_locate(w, t, *first, low * h, h);
    if (found < 0) return -1;
    for (round = 0; round < w->now->watched + 1; ++round) {
        double earlier;
        int other = -1;
        NAME_trial(w, t, found, *first, 1);
        for (i = 0; i < w->now->watched && other < 0; ++i) {
            if (i != *first && NAME_crossed(w->run->sign[i], w->g[i], NAME_direction(w, i))) other = i;
        }
        if (other < 0) break;
        earlier = NAME_locate(w, t, other, 0, found);
        if (earlier < 0 || earlier >= found - 1e-13) break;
        found = earlier;
        *first = other;
    }
    NAME_trial(w, t, found, *first, 1);
    return found;
}

/* Whether anything can happen within the step. */
static int NAME_reach(const NAME_work *w, double h)
{
    const NAME_phase *now = w->now;
    int i, stage;
    if (now->frictional > 0 || now->margins > 0) return 1;
    for (i = 0; i < now->levels; ++i) {
        const int at = now->component[i], sign = w->run->sign[i];
        const double away = w->run->state[at] - now->level[i];
        double fastest = fabs(w->slope[at]);
        if (sign == 0 || sign * away <= 0) return 1;
        for (stage = 0; stage < 4; ++stage) {
            if (fabs(w->k[stage][at]) > fastest) fastest = fabs(w->k[stage][at]);
        }
        if (!(fabs(away) > 2.0 * h * fastest)) return 1;
    }
    return 0;
}

#if LAWS
/* Another command than the law's, until the next of its own ticks. */
static void NAME_command(NAME_work *w, int which, double value)
{
    const NAME_law *law = &NAME_laws[w->now->law - 1];
    w->run->action[which] = value;
    w->run->braking[which] = value != 0;
    if (law->slow && law->slow[3 * which] > 1) w->run->memory[law->first + law->slow[3 * which + 2]] = value;
}

/* Whether the tick that was just answered is one of the command's own. */
static int NAME_answered(const NAME_work *w, int which)
{
    const NAME_law *law = &NAME_laws[w->now->law - 1];
    return !law->slow || law->slow[3 * which] <= 1 || w->run->memory[law->first + law->slow[3 * which + 1]] == 1;
}
#endif

/* What has crossed: 1 where that ends the phase, 2 where it ends the run. */
static int NAME_log(NAME_work *w, int number)
{
#if LAWS
    if (number < w->now->bounded && w->now->bounds[number] >= 0) {
        const int which = w->now->bounds[number];
        if (w->now->brakes[number] != 0) {
            /* Back at the limit: brake no more. */
            if (w->run->braking[which]) NAME_command(w, which, 0);
            return 0;
        }
        if (!(w->run->action[which] * w->now->direction[number] > 0)) return 0;
        NAME_command(w, which, 0);
    }
#endif
    w->run->event = number;
    return w->now->ends[number];
}

static int NAME_more(int a, int b) { return a > b ? a : b; }

/* An event after hit seconds: change what it changes; as NAME_log, or -1. */
static int NAME_happen(NAME_work *w, double hit, int first, double end)
{
    const NAME_phase *now = w->now;
    NAME_run *run = w->run;
    const int count = now->frictional;
    int i, ended = 0;
    const double t = run->since + hit < end ? run->since + hit : end;
    run->since = t;
    memcpy(run->state, w->next, sizeof run->state);
    for (i = 0; i < now->watched; ++i) {
        const int spent = i == first || NAME_crossed(run->sign[i], w->g[i], NAME_direction(w, i));
#if FRICTIONAL
        if (i < count) {
            w->stopped[i] = spent && run->status[i] != 0;
            continue;
        }
#endif
        if (spent) {
            ended = NAME_more(ended, NAME_log(w, i - count));
            run->sign[i] = 0;
        } else if (w->g[i] != 0) {
            run->sign[i] = NAME_side(w->g[i]);
        }
    }
#if FRICTIONAL
    if (!NAME_rest(w, t)) return -1;
#endif
    for (i = 0; i < now->levels; ++i) {
        int *sign = run->sign + count + i;
        if (w->g[count + i] != 0 && run->state[now->component[i]] == now->level[i]) {
            if (*sign != 0 && *sign * now->direction[i] <= 0) ended = NAME_more(ended, NAME_log(w, i));
            *sign = 0;
        }
    }
    if (ended) return ended;
    run->stalled = hit <= NO_PROGRESS ? run->stalled + 1 : 0;
    if (run->stalled > BURST_EVENTS) return -1;
    NAME_rates(w, t, run->state, w->k[0]);
    NAME_signs(w, t, 0);
    return 0;
}

/* Events that are met at the very end of the phase; as NAME_log. */
static int NAME_met(NAME_work *w, double t)
{
    const NAME_phase *now = w->now;
    NAME_run *run = w->run;
    const double width = TIME_TOLERANCE + ROUNDING * (fabs(t) + fabs(run->began));
    int n, ended = 0;
    if (now->levels + now->margins == 0) return 0;
    NAME_functions(w, t, run->state, w->g);
    for (n = 0; n < now->levels + now->margins; ++n) {
        const int i = now->frictional + n, sign = run->sign[i];
        const double left = w->g[i];
        double slack = 0, drift = 0;
        if (sign == 0 || sign * now->direction[n] > 0 || sign * left < 0) continue;
        if (n < now->levels) {
            const int at = now->component[n];
            slack = ROUNDING * (fabs(now->level[n]) + fabs(run->state[at]));
            drift = width * w->k[0][at];
        }
        if (fabs(run->opening[n]) > slack && sign * (left + drift) <= slack) {
            ended = NAME_more(ended, NAME_log(w, n));
            if (sign * (left + drift) < 0) run->sign[i] = -sign;
            else if (left == 0) run->sign[i] = 0;
        }
    }
    return ended;
}

/* Go on from the end of a step in which nothing happened. */
static void NAME_accept(NAME_work *w, int watching)
{
    const int count = w->now->frictional;
    int i;
    w->run->stalled = 0;
    for (i = 0; i < w->now->watched; ++i) {
        double value;
        if (watching) value = w->nodes[8][i];
        else value = w->run->state[w->now->component[i]] - w->now->level[i];
        w->nodes[0][i] = value;
        if (i >= count && value != 0) w->run->sign[i] = NAME_side(value);
    }
}

/* Look for the first event of a step of length h to w->next; its length or -1. */
static double NAME_observe(NAME_work *w, double t, double h, int *first, int *watching)
{
    double hit = -1;
    int i, tried;
    NAME_rates(w, t + h, w->next, w->slope);
    *watching = w->now->watched > 0 && NAME_reach(w, h);
    if (!*watching) return -1;
    for (i = 0; i < NY; ++i) {
        const double rise = w->next[i] - w->run->state[i];
        w->dense[0][i] = rise;
        w->dense[1][i] = h * w->k[0][i] - rise;
        w->dense[2][i] = 2.0 * rise - h * (w->slope[i] + w->k[0][i]);
    }
    hit = NAME_first(w, t, h, first, &tried);
    if (tried) {
        const double length = hit >= 0 ? hit : h;
        NAME_take(w, t, length);
        NAME_project(w, t + length, w->next);
        NAME_rates(w, t + length, w->next, w->slope);
    }
    return hit;
}
#endif

/* A phase begins: what is locked rests, what has friction sticks or slips. */
static void NAME_open(NAME_work *w)
{
    int i;
    for (i = 0; i < w->now->locked; ++i) w->run->state[w->now->still[i]] = 0;
#if FRICTIONAL
    for (i = 0; i < w->now->frictional; ++i) w->run->status[i] = NAME_side(w->run->state[NAME_speed[w->now->rub[i]]]);
#endif
#if WATCHED
    NAME_sides(w);
#endif
}

#if LAWS
static int NAME_due(const NAME_work *w, double t)
{
    return w->now->period > 0 && t >= w->run->tick + w->run->ticks * w->now->period - SAME_TICK * (1.0 + t);
}

static void NAME_tick(NAME_work *w, double t)
{
#if WATCHED
    int i;
#endif
    if (w->now->feels > 0) NAME_rates(w, t, w->run->state, w->rate);
    NAME_ask(w, t, w->run->state);
#if WATCHED
    for (i = 0; i < w->now->actions; ++i) {
        if (NAME_answered(w, i)) w->run->braking[i] = 0;
    }
    /* Drives brake, until they are back, where joints are beyond their rate limits. */
    for (i = 0; i < w->now->bounded; ++i) {
        const double brake = w->now->brakes[i], most = w->now->level[i];
        const int which = w->now->bounds[i], direction = -w->now->direction[i];
        if (which < 0 || brake == 0 || !NAME_answered(w, which)) continue;
        if (!((w->run->state[w->now->component[i]] - most) * direction > AT_LIMIT * fabs(most))) continue;
        if (!((w->run->action[which] - brake) * direction > 0)) continue;
        NAME_command(w, which, brake);
    }
#endif
    ++w->run->ticks;
    w->run->fresh = 1;
}
#endif

/* Inputs may have jumped: state on its paths, friction, rate, sides of the functions; 0 where that fails. */
static int NAME_begin(NAME_work *w, double t)
{
    NAME_run *run = w->run;
    NAME_project(w, t, run->state);
    if (!NAME_finite(run->state)) return 0;
#if FRICTIONAL
    memset(w->stopped, 0, sizeof w->stopped);
    memset(w->slope, 0, sizeof w->slope);
    if (!NAME_rest(w, t)) return 0;
#endif
    NAME_rates(w, t, run->state, w->k[0]);
#if WATCHED
    if (w->now->watched > 0) NAME_signs(w, t, run->opened);
#endif
    run->opened = run->fresh = 0;
    return NAME_finite(w->k[0]);
}

/* The instant up to which inputs are smooth: the end of the piece or a tick, s since the phase began. */
static double NAME_until(const NAME_work *w)
{
    double end = w->now->breaks[w->run->piece + 1];
#if LAWS
    const double tick = w->run->tick + w->run->ticks * w->now->period;
    if (w->now->period > 0 && tick < end - SAME_TICK * (1.0 + end)) end = tick;
#endif
    return end;
}

/* On to the next phase, or to the end. */
static void NAME_leave(NAME_work *w, int ended)
{
    NAME_run *run = w->run;
#if LAWS
    /* A law that goes on keeps its ticks; else the first is where the phase begins, and what is momentary begins anew. */
    const NAME_phase *next = run->phase + 1 < PHASES && ended < 2 ? w->now + 1 : 0;
    if (next && next->law && next->law == w->now->law && next->period > 0) {
        run->tick += run->ticks * next->period - run->since;
        if (!(run->tick > SAME_INSTANT * next->period)) run->tick = 0;
    } else {
        run->tick = 0;
        memset(run->action, 0, sizeof run->action);
        memset(run->braking, 0, sizeof run->braking);
        if (next && next->law) {
            const NAME_law *law = &NAME_laws[next->law - 1];
            int i;
            for (i = 0; i < law->renewed; ++i) {
                const int at = law->first + law->momentary[i];
                run->memory[at] = NAME_memory[at];
            }
        }
    }
    run->ticks = 0;
#endif
    run->phase = ended > 1 ? PHASES : run->phase + 1;
    run->began += run->since;
    run->since = 0;
    run->piece = 0;
    run->opened = run->fresh = 1;
}

/* One step, but not beyond limit, s since the phase began. */
static int NAME_advance(const NAME_parameters *p, NAME_run *run, double limit, double longest)
{
    NAME_work w;
    double left, parts, h, t, end;
    int last, ended = 0;
    if (run->phase >= PHASES) return 0;
    w.p = p, w.run = run, w.now = &NAME_phases[run->phase];
#if WATCHED
    memcpy(w.nodes[0], run->nodes, sizeof run->nodes);
    run->event = -1;
#endif
    if (run->opened) NAME_open(&w);
    t = run->since;
#if LAWS
    if (NAME_due(&w, t)) NAME_tick(&w, t);
#endif
    if (!run->fresh) NAME_rates(&w, t, run->state, w.k[0]);
    else if (!NAME_begin(&w, t)) return -1;
    end = NAME_until(&w);
    if (limit < end) end = limit;
    left = end - t;
    parts = ceil(left / longest - 1e-9);
    h = left < INFINITY ? left / (parts > 1 ? parts : 1) : longest;
    last = h >= left;
    NAME_take(&w, t, h);
    NAME_project(&w, t + h, w.next);
    if (!NAME_finite(w.next)) return -1;
#if WATCHED
    {
        int first = -1, watching;
        const double hit = NAME_observe(&w, t, h, &first, &watching);
        if (hit >= 0) {
            ended = NAME_happen(&w, hit, first, end);
            if (ended < 0) return -1;
        } else {
            memcpy(run->state, w.next, sizeof run->state);
            memcpy(w.k[0], w.slope, sizeof w.slope);
            run->since = last ? end : t + h;
            NAME_accept(&w, watching);
        }
    }
#else
    memcpy(run->state, w.next, sizeof run->state);
    run->since = last ? end : t + h;
#endif
    run->time = run->began + run->since;
    if (!ended && run->since >= w.now->breaks[run->piece + 1]) {
        run->fresh = 1;
        if (run->piece + 1 < w.now->pieces) ++run->piece;
        else {
            ended = 1;
#if WATCHED
            ended = NAME_more(ended, NAME_met(&w, run->since));
#endif
        }
    }
#if WATCHED
    memcpy(run->nodes, w.nodes[0], sizeof run->nodes);
#endif
    if (ended) NAME_leave(&w, ended);
    return 1;
}

void NAME_start(NAME_run *run)
{
    memset(run, 0, sizeof *run);
    memcpy(run->state, NAME_state, sizeof run->state);
    run->opened = run->fresh = 1;
#if WATCHED
    run->event = -1;
#endif
#if LAWS
    memcpy(run->memory, NAME_memory, sizeof run->memory);
#endif
}

int NAME_step(const NAME_parameters *p, NAME_run *run)
{
    return NAME_advance(p, run, INFINITY, STEP);
}

/* Instants that are nearer to each other than this share of them are one. */
#define INSTANT 1e-12

/* As far as this time, s since the start; shift: of the caller's clock, s. Inputs may have jumped. */
static int NAME_go(const NAME_parameters *p, NAME_run *run, double time, double longest, double shift)
{
    const double near = INSTANT * (1.0 + fabs(time) + fabs(shift));
    int done = 1;
    run->fresh = 1;
    while (done > 0 && time - run->time > near) done = NAME_advance(p, run, time - run->began, longest);
    return done;
}

int NAME_step_to(const NAME_parameters *p, NAME_run *run, double time)
{
    return time - time == 0 ? NAME_go(p, run, time, STEP, 0) : -1;
}
