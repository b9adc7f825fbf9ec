"""Points on other machines: the workers of a Dask cluster (extra `dask`), one point a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from workbench.access.app_mode import check_scheduler
from workbench.core.errors import Unusable, cut, shown
from workbench.extras import require
from workbench.sweeps.kernels.cluster_lane import ClusterLane, workers_of
from workbench.sweeps.kernels.place import Place, about_here

if TYPE_CHECKING:
    from distributed import Client

ANSWER_S = 20.0
WORKERS_S = 120.0


class ClusterError(Unusable):
    """No place to measure: the message says what is wrong with the cluster and what to do."""


def cluster(address: str, workers: int | None = None) -> Place:
    """Return the workers of a scheduler, such as "tcp://host:8786"; use it in `with`.

    Every worker has one thread and a GPU of its own, and all have the same GPU and kernels, for
    their times are filed under one name. workers: how many have to be there, for which this waits
    up to WORKERS_S; None: those that are there now. A worker that joins later is not used.
    Errors: ClusterError; AppRefusal.
    """
    with ExitStack() as connected:
        client = connect(address, workers)
        connected.callback(client.close)
        lanes, found = _lanes(client), _agreed(client)
        return Place(str(found["device"]), found["target"], lanes, connected.pop_all().close)


def connect(address: str, workers: int | None = None) -> Client:
    """Return a client of a scheduler; it waits up to WORKERS_S for so many workers.

    Errors: ClusterError; AppRefusal.
    """
    check_scheduler(address)
    client = _connected(address)
    with ExitStack() as connected:
        connected.callback(client.close)
        if workers is not None:
            try:
                client.wait_for_workers(workers, timeout=WORKERS_S)
            except TimeoutError:
                raise ClusterError(
                    f"{len(workers_of(client))} of {workers} workers have joined {address} within "
                    f"{WORKERS_S:g} s. Start the others, or ask for fewer."
                ) from None
        connected.pop_all()
    return client


def _connected(address: str) -> Client:
    require("distributed")
    from distributed import Client
    from distributed.comm import parse_address, parse_host_port
    from distributed.comm.registry import get_backend

    try:
        # Before there is a client: one that fails half-way delays the end of the program by 40 s.
        scheme, place = parse_address(address)
        get_backend(scheme)
        if scheme != "inproc":  # of this process: it has no host
            parse_host_port(place)[0].encode("idna")
        return Client(address, timeout=ANSWER_S, set_as_default=False)
    except (OSError, TimeoutError):
        raise ClusterError(
            f"No Dask scheduler answers at {cut(address)} within {ANSWER_S:g} s. `dask scheduler` "
            "starts one and prints its address; a firewall between the machines looks the same."
        ) from None
    except (ValueError, TypeError) as error:
        raise ClusterError(
            f"{shown(address)} is not the address of a Dask scheduler ({cut(str(error))}). "
            "Expected one such as tcp://HOST:8786."
        ) from None


def _lanes(client: Client) -> tuple[ClusterLane, ...]:
    """Return one lane per worker of a cluster; nothing is run twice.

    Every worker has one thread, so that it has one point at a time, and a nanny, so that it can be
    ended and comes back. Errors: ClusterError.
    """
    workers = workers_of(client)
    if not workers:
        raise ClusterError(
            "The cluster has no workers. Start one for each GPU: `dask cuda worker ADDRESS` "
            "(package dask-cuda), or `dask worker ADDRESS --nthreads 1` with CUDA_VISIBLE_DEVICES."
        )
    if busy := sorted(name for name, worker in workers.items() if worker["nthreads"] != 1):
        raise ClusterError(
            f"Workers with more than one thread would time two points at once: {', '.join(busy)}. "
            "Start them with --nthreads 1."
        )
    if alone := sorted(name for name, worker in workers.items() if not worker["nanny"]):
        raise ClusterError(
            f"Workers without a nanny cannot be stopped or restarted: {', '.join(alone)}. "
            "Start them without --no-nanny."
        )
    try:
        client.run_on_scheduler(_never_again)
    except Exception as error:  # noqa: BLE001 - whatever it raised
        raise ClusterError(
            f"The scheduler refused the request: {type(error).__name__}: {error}. Start it "
            "where the same workbench is installed as here."
        ) from None
    executor = client.get_executor(pure=False, retries=0)
    return tuple(ClusterLane(client, executor, worker["nanny"]) for worker in workers.values())


def _agreed(client: Client) -> Mapping[str, Any]:
    """Return what all workers report about themselves. Errors: ClusterError where they differ."""
    reported: Mapping[str, Any] = client.run(about_here, on_error="return")
    for worker, about in reported.items():
        if isinstance(about, BaseException):
            raise ClusterError(
                f"The worker {worker} cannot measure: {type(about).__name__}: {about}. It needs "
                "the same workbench as this machine."
            )
    return agreed(reported, about_here()["kernels"])


def agreed(
    reported: Mapping[str, Mapping[str, Any]], kernels: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return what workers have in common.

    reported: worker -> as `about_here` returns; kernels: name -> hash.

    Errors: ClusterError for kernels that differ from these, for two kinds of devices, and for two
    workers on one GPU.
    """
    first_worker, first = next(iter(reported.items()))
    owner: dict[str, str] = {}
    for worker, about in reported.items():
        if about["kernels"] != kernels:
            raise ClusterError(
                f"The worker {worker} runs other kernels than this machine does: install the same "
                "workbench on both."
            )
        if about["device"] != first["device"]:
            raise ClusterError(
                f"Times of different devices do not mix: {first['device']} on {first_worker}, "
                f"{about['device']} on {worker}. Use a cluster for each kind."
            )
        gpu = about["gpu"]
        if gpu is not None and gpu in owner:
            raise ClusterError(
                f"The workers {owner[gpu]} and {worker} share a GPU and would disturb each other: "
                "give each its own by CUDA_VISIBLE_DEVICES (`dask cuda worker` does)."
            )
        owner[gpu] = worker
    return first


def _never_again(dask_scheduler: Any) -> None:
    """Keep a point that killed its worker from being sent to another one."""
    dask_scheduler.allowed_failures = 0
