"""Hits with Coulomb friction, against the planar closed form, balls, a regularised law, and stiff contacts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm.errors import InputError
from spacearm.impact import Collision, FloatingSystem, build_system, collide, free_body
from spacearm.impact.contact import contact_convergence
from spacearm.impact.friction import frictional_hit
from spacearm.mechanics.shapes import Plane, Sphere
from spacearm.model import Body, Frame, Inertia, Pose, Robot
from spacearm.simulate import Contact, Dopri853, ShapeOnFrame, State, World, simulate

Z = np.array([0.0, 0.0, 1.0])


def planar(c: np.ndarray, w: np.ndarray, e: float, mu: float, hypothesis: str) -> tuple[np.ndarray, str]:
    """Routh's lines in a plane (tangent, normal): impulse, and what the surfaces do. Of slip to the right."""
    (a, b), (_, d) = c
    lines = []  # (dslip/dp, du/dp, friction) one after the other
    lines.append((-(b + mu * a), -(d + mu * b), mu))
    if abs(b / a) <= mu:
        lines.append((0.0, -(d - b * b / a), -b / a))
        word = "sticks"
    else:
        lines.append((-(b - mu * a), -(d - mu * b), -mu))
        word = "slides anew"
    stop = w[0] / (b + mu * a) if b + mu * a > 0 else np.inf
    u_stop = w[1] + lines[0][1] * stop if np.isfinite(stop) else -np.inf

    def u(p: float) -> float:
        return w[1] + lines[0][1] * p if p <= stop else u_stop + lines[1][1] * (p - stop)

    def work(p: float) -> float:
        first = min(p, stop)
        return 0.5 * (w[1] + u(first)) * first + (0.5 * (u(first) + u(p)) * (p - first) if p > stop else 0.0)

    top = 1.0
    while u(top) > -5.0 * w[1]:
        top *= 2.0

    def bisect(f: Any, low: float, high: float) -> float:
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if f(middle) > 0.0 else (low, middle)
        return high

    # u may rise before it falls (a jam): the last zero is the one where compression ends.
    turn = bisect(u, stop if u_stop > 0.0 else 0.0, top)
    end = {
        "newton": lambda: bisect(lambda p: u(p) + e * w[1], turn, top),
        "poisson": lambda: (1.0 + e) * turn,
        "energetic": lambda: bisect(lambda p: work(p) - (1.0 - e * e) * work(turn), turn, top),
    }[hypothesis]()
    along = mu * min(end, stop) + (lines[1][2] * (end - stop) if end > stop else 0.0)
    return np.array([along, end]), word if end > stop else "slides"


@pytest.mark.parametrize("hypothesis", ["newton", "poisson", "energetic"])
def test_planar_hits_are_rouths_closed_form(hypothesis: str) -> None:
    rng = np.random.default_rng(3)
    words = set()
    for _ in range(60):
        a, d = rng.uniform(0.3, 2.0, 2)
        c = np.array([[a, b := rng.uniform(-0.9, 0.9) * np.sqrt(a * d)], [b, d]])
        w, e, mu = rng.uniform([0.1, 0.5], [1.5, 1.5]), rng.uniform(0.0, 1.0), rng.uniform(0.05, 1.0)
        expected, word = planar(c, w, e, mu, hypothesis)
        whole = np.array([[a, 0, b], [0, 1.3, 0], [b, 0, d]])
        hit = frictional_hit(whole, np.array([w[0], 0.0, w[1]]), Z, e, mu, hypothesis)
        np.testing.assert_allclose(hit.impulse, [expected[0], 0.0, expected[1]], rtol=1e-9, atol=1e-11)
        assert np.isnan(hit.stopped) == (word == "slides")
        words.add(word)
    assert words == {"slides", "sticks", "slides anew"}


@pytest.mark.parametrize(("share", "word"), [(0.9, "slides"), (1.1, "sticks")])
def test_a_spinning_ball_on_a_wall_slides_or_rolls_off(share: float, word: str) -> None:
    """A solid ball needs a tangential impulse of 2/7 of m times its slip to roll; friction gives mu times the other."""
    mass, radius, e, mu = 1.5, 0.2, 0.6, 0.3
    ball = build_system(
        free_body(mass, [0.4 * mass * radius**2] * 3, contact=[0, 0, -radius]),
        "contact", velocity=[0.8, 0.3, -1.0], angular_velocity=[1.0, 2.0, 7.0],
    )  # fmt: skip
    slip = np.array([0.8, 0.3, 0.0]) + np.cross([1.0, 2.0, 7.0], [0, 0, -radius])
    mu = share * (2.0 / 7.0) * np.linalg.norm(slip[:2]) / (1.0 + e)
    wall = FloatingSystem(free_body(1.0, [1, 1, 1]), "contact", held=True).move_to_contact(ball)
    hit = collide(ball, wall, kind="friction", normal=Z, restitution=e, friction=mu)
    expected = mass * (1.0 + e) * Z
    along = -slip * [1, 1, 0] / np.linalg.norm(slip[:2])
    expected = expected + min(mu * mass * (1.0 + e), mass * (2.0 / 7.0) * np.linalg.norm(slip[:2])) * along
    np.testing.assert_allclose(hit.impulse[:3], expected, atol=1e-10)
    assert hit.sound
    assert hit.sliding is not None
    assert hit.sliding.words == word


def test_in_space_the_direction_of_slip_turns_as_a_regularised_law_says() -> None:
    c = np.array([[0.7, 0.1, -0.3], [0.1, 1.0, -0.25], [-0.3, -0.25, 1.2]])
    w, e, mu = np.array([-0.5, 0.4, 1.0]), 0.7, 0.25

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        push = np.append(mu * y[:2] / np.sqrt(y[:2] @ y[:2] + 1e-14), 1.0)
        return np.concatenate([-c @ push, push, [y[2]]])

    def turn(_: float, y: np.ndarray) -> float:
        return float(y[2])

    path = solve_ivp(rate, (0, 5), [*w, 0, 0, 0, 0], "Radau", rtol=1e-10, atol=1e-12, events=turn, dense_output=True)
    put_in = path.y_events[0][0][6]
    p = path.t_events[0][0] + np.linspace(0, 2, 200_001)
    end = p[np.argmax(path.sol(p)[6] <= (1 - e * e) * put_in)]
    hit = frictional_hit(c, w, Z, e, mu, "energetic")
    np.testing.assert_allclose(hit.impulse, path.sol(end)[3:6], atol=3e-5)


@pytest.mark.filterwarnings("error")
def test_slip_that_dies_out_slowly_ends() -> None:
    """Friction a little above what it takes to stick: sliding stops late, and with e = 0 nothing moves in the end."""
    c = np.array([[4.992, 0.047, 0.882], [0.047, 2.034, -0.622], [0.882, -0.622, 0.697]])
    w = np.array([-1.6e-4, 1.4e-5, 0.742])
    least = float(np.linalg.norm(np.linalg.solve(c[:2, :2], c[:2, 2])))
    for excess in (1e-1, 1e-2, 1e-3):
        hit = frictional_hit(c, w, Z, 0.0, least * (1.0 + excess), "energetic")
        np.testing.assert_allclose(hit.impulse, np.linalg.solve(c, w), rtol=1e-10)
        assert 0.0 < hit.stopped < 1.0


def test_in_space_the_direction_of_slip_turns_as_scipy_says_over_the_normal_impulse() -> None:
    c = np.array([[2.32723, 3.63147, 0.14183], [3.63147, 6.86337, -0.24175], [0.14183, -0.24175, 0.66975]])
    w, mu = np.array([-0.01774, 0.30164, 0.47610]), 0.76354

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        push = np.append(mu * y[:2] / np.hypot(*y[:2]), 1.0)
        return np.concatenate([-c @ push, push, [y[2]]])

    def over(p: float, y: np.ndarray) -> float:
        return float(y[6]) if p > 0.01 else 1.0

    over.terminal = True  # type: ignore[attr-defined]
    start = [*w, 0, 0, 0, 0]
    path = solve_ivp(rate, (0, 5), start, "DOP853", rtol=1e-13, atol=1e-16, max_step=0.01, events=over)
    hit = frictional_hit(c, w, Z, 1.0, mu, "energetic")
    np.testing.assert_allclose(hit.impulse, path.y[3:6, -1], rtol=1e-10)


def test_a_batch_is_hit_by_hit_and_newton_may_win_energy() -> None:
    rod = build_system(free_body(1.0, [0.02, 0.02, 0.02], contact=[0.2, 0, -0.2]), "contact", velocity=[0.3, 0, -1.0])
    wall = FloatingSystem(free_body(1.0, [1, 1, 1]), "contact", held=True).move_to_contact(rod)
    each = [0.1, 0.3, 0.9]
    whole = collide(rod, wall, kind="friction", normal=Z, restitution=1.0, friction=each)
    for k, mu in enumerate(each):
        one = collide(rod, wall, kind="friction", normal=Z, restitution=1.0, friction=mu)
        np.testing.assert_array_equal(one.impulse, whole.impulse[k])
    assert whole.sound
    backward = build_system(rod.robot, "contact", velocity=[-0.2, 0, -1.0])
    wall = wall.move_to_contact(backward)
    gained = [
        collide(backward, wall, kind="friction", normal=Z, restitution=1.0, friction=0.9, hypothesis=each)
        for each in ("newton", "energetic")
    ]
    assert gained[0].contact_work > 0.0
    assert not gained[0].sound
    assert gained[1].sound


def test_what_is_wrong_is_told() -> None:
    a = build_system(free_body(1.0, [1, 1, 1]), "contact", velocity=[0, 0, -1.0])
    b = FloatingSystem(free_body(1.0, [1, 1, 1]), "contact").move_to_contact(a)
    with pytest.raises(InputError, match="friction: is missing"):
        collide(a, b, kind="friction", normal=Z)
    with pytest.raises(InputError, match="friction: does not apply to kind 'normal'"):
        collide(a, b, normal=Z, friction=0.1)
    with pytest.raises(InputError, match="normal: is missing"):
        collide(a, b, kind="friction", friction=0.1)
    with pytest.raises(InputError, match="no friction law"):
        contact_convergence(a, b, [100.0], kind="friction", normal=Z)


def test_a_plastic_hit_that_sticks_is_that_of_a_point_which_restitution_tends_to_in_proportion() -> None:
    a = build_system(
        free_body(2.0, [0.02, 0.05, 0.06], contact=[0.05, 0.02, -0.1]), "contact", velocity=[0.3, 0.1, -1.0]
    )
    b = FloatingSystem(free_body(30.0, [1.0, 2.0, 1.5], contact=[0.1, 0.05, 0.2]), "contact").move_to_contact(a)
    point = collide(a, b, kind="point").impulse
    plastic = collide(a, b, kind="friction", normal=Z, friction=0.9)
    assert plastic.sliding is not None
    assert plastic.sliding.words == "sticks"
    np.testing.assert_allclose(plastic.impulse, point, atol=1e-11)
    far = [
        np.abs(
            collide(a, b, kind="friction", normal=Z, friction=0.9, restitution=e, hypothesis="contact").impulse - point
        ).max()
        for e in (2e-2, 1e-2, 5e-4)
    ]
    assert far[0] / far[1] == pytest.approx(2.0, rel=1e-6)
    assert far[1] / far[2] == pytest.approx(20.0, rel=1e-6)


# -- stiff contacts -------------------------------------------------------------------------------------------------


def stiff(k: float, ratio: float, e: float, mu: float, tip: Any, velocity: Any) -> tuple[float, Collision]:
    """How far the impulse of a compliant contact is from the hit's, relative: two free bodies, off their centres."""
    spot, r = np.array([0.1, 0.0, 0.2]), 0.02
    a = Robot(
        "a", (Body("body", Inertia(2.0, tensor=np.diag([0.02, 0.05, 0.06]))),), (),
        (Frame("tip", "body", Pose(translation=np.array(tip))), Frame("touch", "body", Pose(translation=tip - r * Z))),
    )  # fmt: skip
    b = Robot("b", (Body("body", Inertia(30.0, tensor=np.diag([1.0, 2.0, 1.5]))),), (),
              (Frame("spot", "body", Pose(translation=spot)),))  # fmt: skip
    states = {
        "a": State.from_velocities(a, base_velocity=velocity),
        "b": State.from_velocities(b, position=np.array(tip) - r * Z - spot),
    }
    sides = ShapeOnFrame("a/tip", Sphere(r)), ShapeOnFrame("b/spot", Plane())
    world = World({"a": a, "b": b}, elements=(Contact(*sides, k, e, mu, tangential=ratio * k, name="c"),))
    run = simulate(world, states, 40.0 / np.sqrt(k), method=Dopri853(rtol=1e-11, atol=1e-13))
    assert run.sound
    first, second = (
        FloatingSystem.from_state(a, "touch", states["a"]),
        FloatingSystem.from_state(b, "spot", states["b"]),
    )
    hit = collide(first, second, kind="friction", normal=Z, restitution=e, friction=mu, hypothesis="contact")
    gain = hit.impulse[:3]
    return float(np.linalg.norm(run.touches[0].impulse + gain) / np.linalg.norm(gain)), hit


SLIDES = (0.2, [0.05, 0.02, -0.1], [0.8, 0.3, -1.0])
STICKS = (0.9, [0.05, 0.02, -0.1], [0.3, 0.1, -1.0])
BACK = (0.15, [-0.15, 0.0, -0.1], [0.25, 0.0, -1.0])


@pytest.mark.parametrize("restitution", [0.5, 1.0])
@pytest.mark.parametrize(
    ("case", "power", "first", "range_"),
    # What sticks swings along the wall and is let go in whatever phase that has: its errors scatter about the line,
    # so that they are compared over four decades.
    [(SLIDES, 1.0, 3e1, (1e7, 1e9)), (STICKS, 1.0, 3e2, (1e6, 1e10)), (BACK, 0.5, 3e2, (1e7, 1e9))],
    ids=["slides", "sticks", "turns back"],
)
def test_stiff_contacts_tend_to_hits_with_friction(
    case: Any, power: float, first: float, range_: tuple[float, float], restitution: float
) -> None:
    """With 1 / sqrt(k), and with k / k_t to the power that theory gives: both are refined together."""
    errors = []
    for k in range_:
        error, hit = stiff(k, first * (k / 1e7) ** (0.5 / power), restitution, *case)
        errors.append(error)
    assert hit.sliding is not None
    assert errors[1] < 1e-3
    shorter = np.sqrt(range_[1] / range_[0])  # by how much the duration falls
    assert np.log(errors[0] / errors[1]) / np.log(shorter) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(("case", "most"), [(SLIDES, 6e-4), (STICKS, 6e-4), (BACK, 4e-3)])
def test_plastic_contacts_obey_coulomb_from_their_first_touch(case: Any, most: float) -> None:
    """At the usual tangential stiffness, up to the least restitution, 5e-4, and what the surfaces give way."""
    error, _ = stiff(1e8, 0.8, 0.0, *case)
    assert error < most
