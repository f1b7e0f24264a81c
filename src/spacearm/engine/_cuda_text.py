"""CUDA text of the loop of a roll-out, and of the functions that roll-outs and batches share.

The texts are templates for ``str.format``; :mod:`spacearm.engine.cuda` fills in the statements of a robot's step. All
loops over steps and pieces are kept as loops (``unroll 1``): written out, the text of a step would fill the instruction
cache many times over.
"""

from __future__ import annotations

#: Sine and cosine in single precision, reduced by multiples of pi/2 in three parts: no conversions, no slow path for
#: large arguments, which would take local memory (Cephes' polynomials on |r| <= pi/4, S. L. Moshier).
#: Adding 1.5 * 2^23 leaves the nearest integer in the low bits, as in :mod:`spacearm.engine.llvm`.
SINGLE_SINE = """__device__ __forceinline__ void sa_sine_cosine(float x, float *sine, float *cosine)
{
    const float shifted = fmaf(x, 0.636619772f, 12582912.0f), turns = shifted - 12582912.0f;
    float r = fmaf(turns, -0x1.921fb6p+0f, x), z, s, c, t;
    unsigned quadrant, bits;
    memcpy(&quadrant, &shifted, sizeof quadrant);
    r = fmaf(turns, 0x1.777a5cp-25f, r);
    r = fmaf(turns, 0x1.ee59dap-50f, r);
    z = r * r;
    s = fmaf(r * z, fmaf(z, fmaf(z, -1.9515295891e-4f, 8.3321608736e-3f), -1.6666654611e-1f), r);
    c = fmaf(z * z, fmaf(z, fmaf(z, 2.443315711809948e-5f, -1.388731625493765e-3f), 4.166664568298827e-2f),
             fmaf(z, -0.5f, 1.0f));
    if (quadrant & 1u) { t = s; s = c; c = t; }
    memcpy(&bits, &s, sizeof bits);
    bits ^= (quadrant << 30) & 0x80000000u;
    memcpy(sine, &bits, sizeof bits);
    memcpy(&bits, &c, sizeof bits);
    bits ^= ((quadrant + 1u) << 30) & 0x80000000u;
    memcpy(cosine, &bits, sizeof bits);
}
"""

#: As :mod:`spacearm.engine.noise`; in double precision always.
NORMAL = """__device__ __forceinline__ unsigned long long sa_mixed(unsigned long long x)
{
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}
__device__ __forceinline__ double sa_normal(long long seed, long long sample, long long at, unsigned long long channel)
{
    const unsigned long long run = sa_mixed(seed) ^ (unsigned long long)sample;
    const unsigned long long key = sa_mixed(sa_mixed(sa_mixed(run) ^ (unsigned long long)at) ^ channel);
    const double first = (double)(sa_mixed(key) >> 11);
    const double second = (double)(sa_mixed(key ^ 1ull) >> 11);
    const double size = sqrt(-2.0 * log((first + 1.0) * 0x1p-53));
    return size * cos(2.0 * 3.141592653589793 * second * 0x1p-53);
}
"""

# The loop of fixed_step.roll for one thread. ``part`` and ``weight`` as there; inputs that move are renewed for the
# stages 1 and 3 only, since 1 and 2 are at the same time. ``looking`` is the extra evaluation by which an observer sees
# the end of a piece. At the end 0 * x summed over the state is NaN exactly if a number is not finite. The casts to void
# silence warnings about what a robot's text does not use.
ROLLOUT = """
__constant__ double uniform[{uniform}];

SA_EXTERN __global__ void __launch_bounds__({bounds}) rollout(
    const double *__restrict__ start, const double *__restrict__ each, const long long *__restrict__ cases,
    const double *__restrict__ force, long long force_sample, long long force_step, long long force_entry,
    double *__restrict__ result, double *__restrict__ ends, int *__restrict__ bad,
    long long samples, long long before, long long seed, int every, int hold, int pieces,
    const int *__restrict__ counts, const int *__restrict__ ask, const long long *__restrict__ moments,
    const double *__restrict__ steps, const double *__restrict__ begins,
    const double *__restrict__ reference_table, int reference_powers,
    const double *__restrict__ channel_table, int channel_powers, long long records)
{{
    const long long sample = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    {shared}double {local};
    int i, number, piece, k, done = 0, tick = 0;
    if (sample >= samples) return;
    const long long which = cases ? cases[sample] : 0;
    {begin}
    (void)each, (void)force, (void)ends, (void)before, (void)hold, (void)seed, (void)begins, (void)which;
    (void)ask, (void)tick, (void)moments;
    (void)reference_table, (void)reference_powers, (void)channel_table, (void)channel_powers;
    #pragma unroll 1
    for (piece = 0; piece < pieces; ++piece) {{
        const double step = steps[piece];
        #pragma unroll 1
        for (k = 0; k < counts[piece] + {observed}; ++k) {{
            const int looking = {observed} && k == counts[piece];
            const double *now = force + sample * force_sample + done * force_step;
            double local = (double)k * step;
            const double time = begins[piece] + local, ticked = local;
            (void)time, (void)now, (void)ticked;
            {now}
            {law}
            #pragma unroll {unroll}
            for (number = 0; number < (looking ? 1 : 4); ++number) {{
                const double part = number == 0 ? 0 : number == 3 ? step : 0.5 * step;
                const double weight = looking ? 0 : number == 1 || number == 2 ? 2 : 1;
                {later}
                {stage}
                {observe}
            }}
            if (looking) break;
            {{
                {finish}
            }}
            ++done;
            if (done % every == 0) {{
                double *row = result + (sample * records + (done / every - 1)) * {row};
                {record}
            }}
        }}
    }}
    double *end = ends + sample * {end}, sum = 0;
    {keep}
    (void)end;
    #pragma unroll
    for (i = 0; i < {nx}; ++i) sum += 0 * {state};
    if (!(sum == 0)) *bad = 1;
}}
"""

#: A law is asked at every so-many-th step; what it follows and draws is new then.
LAW = """if (!looking && k % hold == ask[piece]) {{
    {follow}
    {drawn}
    {law}
    ++tick;
}}"""

#: Draws one random number.
DRAW = "noise_[{entry}] = sa_normal({schedule}, {at}, {channel}ull);"


def polynomials(name: str, size: int, table: str, width: int | None = None, at: int = 0) -> str:
    """Values of polynomials ``local`` seconds into a piece, into a thread's own numbers; tables of each case, unless
    all references are alike."""
    # Tables are (cases, powers, pieces, width); Horner's rule from the highest power, as on the processor.
    case = "" if width is None else f"which * {table}_powers * pieces + "
    width = size if width is None else width
    return f"""{{
    const double *base = {table}_table + ({case}piece) * {width} + {at};
    #pragma unroll
    for (i = 0; i < {size}; ++i) {{
        int power = {table}_powers - 1;
        double value = base[power * pieces * {width} + i];
        while (power-- > 0) value = value * local + base[power * pieces * {width} + i];
        {name}_[i] = value;
    }}
}}"""
