"""The flat state has no gaps and no overlaps, and is the one that State writes."""

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.model.layout import Layout
from spacearm.simulate import State


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("start", [0, 13])
def test_the_parts_cover_the_state_once(n: int, start: int) -> None:
    at = Layout(n, start)
    parts = (at.position, at.quaternion, at.joints, at.linear_velocity, at.angular_velocity, at.rates)
    places = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    assert places.tolist() == list(range(start, start + 13 + 2 * n))
    assert (at.whole.start, at.whole.stop) == (start, at.stop)
    assert at.velocity == slice(at.linear_velocity.start, at.rates.stop)
    assert at.pose == slice(at.position.start, at.quaternion.stop)
    assert [at.joint(i) for i in range(n)] == list(range(at.joints.start, at.joints.stop))
    assert [at.speed(j) for j in range(at.dofs)] == list(range(at.velocity.start, at.velocity.stop))


def test_it_is_the_order_of_a_state() -> None:
    state = State([1, 2, 3], [0.5, 0.5, 0.5, 0.5], [4, 5], np.arange(6, 14))
    at = Layout.from_size(state.vector.size)
    assert at.n == 2
    for name in ("position", "quaternion", "joints", "velocity", "rates"):
        np.testing.assert_array_equal(state.vector[getattr(at, name)], getattr(state, name))


@pytest.mark.parametrize("size", [0, 12, 14])
def test_no_robot_has_such_a_state(size: int) -> None:
    with pytest.raises(InputError, match="13 \\+ 2 n"):
        Layout.from_size(size)
