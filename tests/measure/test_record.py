"""Records: channels with clocks of their own, cut, joined, resampled, aligned, and as data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray
from scipy.signal import chirp

from spacearm.errors import InputError
from spacearm.measure import Channel, Record
from spacearm.simulate import pulse, spline

FAST, SLOW = np.arange(0.0, 10.0, 0.01), np.arange(0.0, 10.0, 0.25)


def both(commands: bool = False) -> Record:
    gyro = Channel(FAST, np.stack([np.sin(FAST), np.cos(FAST), 0.0 * FAST], axis=1), "rad/s", 1e-3)
    camera = Channel(SLOW, np.sin(SLOW), "m", np.linspace(0.1, 0.2, SLOW.size))
    signals = {"joint1": spline([0.0, 5.0, 10.0], [0.0, 1.0, 0.0]), "jet": pulse(1.0, 0.0, 3.0)}
    return Record("a", {"rate": gyro, "camera": camera}, signals if commands else {})


def test_channels_have_their_own_clocks() -> None:
    record = both()
    assert record.span == (0.0, FAST[-1])
    with pytest.raises(InputError, match="resample"):
        _ = record.times
    with pytest.raises(InputError, match="did you mean 'rate'"):
        _ = record["rates"]
    with pytest.raises(InputError, match="time goes from"):
        Channel(np.array([0.0, 0.0]), np.zeros(2))
    with pytest.raises(InputError, match="samples"):
        Channel(FAST, np.zeros(3))


def test_cut_and_join_give_the_whole() -> None:
    record = both()
    first, second = record.cut(0.0, 4.995), record.cut(5.0, 10.0)
    whole = first.join(second)
    for name in record.channels:
        assert np.array_equal(whole[name], record[name])
        assert np.array_equal(whole.channel(name).times, record.channel(name).times)
        assert np.array_equal(whole.channel(name).sigma, record.channel(name).sigma)
    with pytest.raises(InputError, match="begins at"):
        second.join(first)
    with pytest.raises(InputError, match="fewer than two readings"):
        record.cut(20.0, 30.0)
    with pytest.raises(InputError, match="other channels"):
        first.join(second.select(["rate"]))


def test_commands_change_where_the_later_part_begins() -> None:
    first, second = both(commands=True).cut(0.0, 4.9), both(commands=True).cut(5.0, 10.0)
    joined = first.join(second)
    times = np.linspace(-1.0, 12.0, 400)
    for name, old in first.commands.items():
        expected = np.where(times < 5.0, old(times), second.commands[name](times))
        assert np.allclose(joined.commands[name](times), expected, atol=1e-12)


def test_resampling_is_linear_between_neighbours_or_a_spline() -> None:
    record = both()
    times = np.arange(0.0, 9.5, 0.1)
    line = record.resample(times)
    assert np.allclose(line["camera"], np.interp(times, SLOW, np.sin(SLOW)), atol=1e-15)
    assert np.abs(line["rate"][:, 0] - np.sin(times)).max() < 2e-5
    at_middle = Channel(np.array([0.0, 1.0]), np.array([0.0, 2.0]), sigma=0.1).resample(np.array([0.5, 1.0]))
    assert np.allclose(at_middle.sigma, [0.1 / np.sqrt(2.0), 0.1])
    smooth = record.resample(times, "spline")
    assert np.abs(smooth["camera"] - np.sin(times)).max() < 2e-4
    assert np.isnan(record.resample([-1.0, 0.0, 20.0])["camera"][[0, 2]]).all()
    gap = Channel(np.arange(4.0), np.array([0.0, np.nan, 2.0, 3.0]))
    assert np.isnan(gap.resample(np.array([0.0, 0.5, 2.0, 2.5])).values).tolist() == [False, True, False, False]


@pytest.mark.parametrize("delay", [0.237, -0.31])
def test_a_delay_is_found_with_its_deviation(delay: float) -> None:
    """The shift of a chirp with noise in both channels: its errors are as large as its deviation says."""
    rng = np.random.default_rng(3)
    errors = []
    for _ in range(60):
        times, other = np.arange(0.0, 12.0, 0.02), np.arange(0.0, 12.0, 0.05)
        true = Channel(other, chirp(other, 0.1, 12.0, 0.8) + 0.02 * rng.standard_normal(other.size))
        late = Channel(times, 3.0 + 0.5 * chirp(times - delay, 0.1, 12.0, 0.8))
        noisy = Channel(times, late.values + 0.001 * rng.standard_normal(times.size))
        record, shift = Record("a", {"camera": noisy, "encoder": true}).align("camera", "encoder", longest=1.0)
        errors.append((shift.seconds - delay) / shift.std)
        assert np.allclose(record.channel("camera").times, times - shift.seconds)
        assert shift.std < 5e-3
    assert 0.8 < np.std(errors) < 1.25
    assert abs(np.mean(errors)) < 0.4


@pytest.mark.parametrize(
    ("steps", "noise"), [((0.05, 0.01), (0.02, 0.005)), ((0.01, 0.05), (0.02, 0.005)), ((0.02, 0.02), (0.01, 0.01))]
)
def test_the_deviation_of_a_delay_holds_whichever_channel_is_noisy(
    steps: tuple[float, float], noise: tuple[float, float]
) -> None:
    """The late channel slower, faster, as fast as the other: noise is not counted twice, nor taken for motion."""
    rng = np.random.default_rng(4)
    errors = []
    for _ in range(16):
        delay = rng.uniform(-0.3, 0.3)
        late, true = (np.arange(0.0, 8.0, step) + rng.uniform(0.0, step) for step in steps)
        first = Channel(late, 1.7 * chirp(late - delay, 0.1, 8.0, 0.8) + noise[0] * rng.standard_normal(late.size))
        second = Channel(true, chirp(true, 0.1, 8.0, 0.8) + noise[1] * rng.standard_normal(true.size))
        _, shift = Record("a", {"camera": first, "encoder": second}).align("camera", "encoder", longest=0.5)
        errors.append((shift.seconds - delay) / shift.std)
    assert 0.5 < np.std(errors) < 1.6
    assert abs(np.mean(errors)) < 0.9


def test_what_cannot_be_aligned_ends_in_words() -> None:
    still = Channel(FAST, np.ones(FAST.size))
    moving = Channel(FAST, np.sin(FAST))
    with pytest.raises(InputError, match="nothing moves"):
        Record("a", {"a": still, "b": moving}).align("a", "b")
    with pytest.raises(InputError, match="in common"):
        Record("a", {"a": Channel(FAST + 50.0, np.sin(FAST)), "b": moving}).align("a", "b")
    with pytest.raises(InputError, match="largest shift"):
        Record("a", {"a": Channel(FAST, np.sin(FAST - 1.0)), "b": moving}).align("a", "b", longest=0.5)
    with pytest.raises(InputError, match="sizes"):
        both().align("camera", "rate")


def test_through_xarray_and_back(tmp_path: Path) -> None:
    record = both(commands=True)
    path = tmp_path / "a.nc"
    record.to_xarray().to_netcdf(path, engine="h5netcdf")
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        back = Record.from_xarray(data)
    assert back.name == "a"
    assert list(back.channels) == ["rate", "camera"]
    for name, own in record.channels.items():
        assert np.array_equal(back[name], own.values)
        assert np.array_equal(back.channel(name).times, own.times)
        assert np.array_equal(back.channel(name).sigma, own.sigma)
        assert back.units[name] == own.unit
    for name, signal in record.commands.items():
        assert np.array_equal(back.commands[name](FAST), signal(FAST))


def test_from_a_data_set_of_others() -> None:
    import pandas

    times = pandas.Timestamp("2024-03-01") + pandas.to_timedelta(SLOW, "s")
    data = xarray.Dataset({"x": ("time", np.sin(SLOW), {"units": "m"})}, coords={"time": times})
    record = Record.from_xarray(data, "camera")
    assert np.allclose(record.times, SLOW)
    assert record.units == {"x": "m"}
    with pytest.raises(InputError, match="SI"):
        Record.from_xarray(xarray.Dataset({"x": ("time", SLOW, {"units": "mm"})}, coords={"time": SLOW}))
    with pytest.raises(InputError, match="has no time"):
        Record.from_xarray(xarray.Dataset({"x": ("row", SLOW)}))
