"""First lateral slosh mode in a tank of revolution by finite elements: no formula and no code of spacearm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import splu

from spacearm.typing import Array


def slosh_mode(wall: Callable[[Array], Array], surface: float, count: int = 24) -> tuple[float, float]:
    """w^2 R / g and slosh mass / (density R^3) of an ideal liquid below z = ``surface`` (in units of R).

    ``wall`` gives (r, z) of the wetted meridian for 0 (on the axis) to 1 (at the surface). Biquadratic elements between
    the surface's centre and the wall; the potential is f(r, z) cos(azimuth).
    """
    # Finer towards the contact line, where the wall and the surface meet at an angle.
    along = 1.0 - (1.0 - np.linspace(0.0, 1.0, 2 * count + 1)) ** 2
    out = np.linspace(0.0, 1.0, 2 * count + 1)
    edge = wall(along)
    r = out[:, None] * edge[None, :, 0]
    z = surface + out[:, None] * (edge[None, :, 1] - surface)
    index = np.arange(r.size).reshape(r.shape)
    points, weights = np.polynomial.legendre.leggauss(4)
    shape = np.array([[0.5 * x * (x - 1.0), 1.0 - x * x, 0.5 * x * (x + 1.0)] for x in points])
    slope = np.array([[x - 0.5, -2.0 * x, x + 0.5] for x in points])
    first, second = np.meshgrid(np.arange(0, 2 * count, 2), np.arange(0, 2 * count, 2), indexing="ij")
    local = np.array([[i, j] for i in range(3) for j in range(3)])
    nodes = index[first.ravel()[:, None] + local[:, 0], second.ravel()[:, None] + local[:, 1]]
    re, ze = r.ravel()[nodes], z.ravel()[nodes]
    stiffness = np.zeros((len(nodes), 9, 9))
    for a in range(4):
        for b in range(4):
            n = np.outer(shape[a], shape[b]).ravel()
            da, db = np.outer(slope[a], shape[b]).ravel(), np.outer(shape[a], slope[b]).ravel()
            ra, rb, za, zb, here = re @ da, re @ db, ze @ da, ze @ db, re @ n
            volume = ra * zb - rb * za
            by_r = (zb[:, None] * da - za[:, None] * db) / volume[:, None]
            by_z = (ra[:, None] * db - rb[:, None] * da) / volume[:, None]
            around = n / here[:, None]
            parts = sum(np.einsum("ei,ej->eij", x, x) for x in (by_r, by_z, around))
            stiffness += (weights[a] * weights[b] * np.abs(volume) * here)[:, None, None] * parts
    rows, columns = np.repeat(nodes, 9, axis=1).ravel(), np.tile(nodes, (1, 9)).ravel()
    whole = coo_matrix((np.pi * stiffness.ravel(), (rows, columns))).tocsc()
    top = index[1:, -1]  # the surface, without the axis, where f is zero
    free = np.flatnonzero(r.ravel() > 1e-12)
    place = np.full(r.size, -1)
    place[free] = np.arange(free.size)
    mass, first_moment = np.zeros((2 * count + 1, 2 * count + 1)), np.zeros(2 * count + 1)
    line = r[:, -1]
    for e in range(0, 2 * count, 2):
        own = slice(e, e + 3)
        for a in range(4):
            here, length = line[own] @ shape[a], abs(line[own] @ slope[a])
            mass[own, own] += np.pi * weights[a] * length * here * np.outer(shape[a], shape[a])
            first_moment[own] += np.pi * weights[a] * length * here**2 * shape[a]
    solver = splu(whole[free][:, free])
    unit = np.zeros((free.size, top.size))
    unit[place[top], np.arange(top.size)] = 1.0
    # Pressed at the surface alone: its own flexibility has the inverse eigenvalues.
    flexible = solver.solve(unit)[place[top]]
    values, shapes = eigh(0.5 * (flexible + flexible.T), np.linalg.inv(mass[1:, 1:]))
    value, f = 1.0 / float(values[-1]), np.linalg.solve(mass[1:, 1:], shapes[:, -1])
    return value, float(value * (first_moment[1:] @ f) ** 2 / (f @ mass[1:, 1:] @ f))
