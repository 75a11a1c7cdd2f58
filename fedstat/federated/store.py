"""What thousands of clients keep: one row for each, shared between versions of the store until it is written.

A row is one client's tensors end to end. Rows lie in the numbered slots of a row space, and a store is no more than a
table from client to slot, in pages; writing m rows fills m free slots and makes new pages for them. So an old store
still reads what it always read, clients that were never written share one row, and a round costs the rows of its
participants, however many other clients there are.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from weakref import WeakSet

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from fedstat._checks import whole
from fedstat._files import atomic_folder, link
from fedstat.federated.client.network import Params

#: Stores whose clients could fill more than this lie in memory-mapped files.
IN_MEMORY_BYTES = 2**30
_BLOCK_BYTES = 2**28
#: Clients of a page of a store's table. A write copies a page for each client, and the list of all pages.
_PAGE = 256
#: For each so many clients there are free slots for one more write, so that they need not be sought in every round.
_SOUGHT = 2**14
_INDEX = "index.json"


class ClientStore(Mapping[str, Tensor]):
    """Named tensors of K clients, immutable: writing returns a new store.

    The store keeps rows on the CPU, whatever device they come from. Where K rows would exceed `limit` they lie in
    memory-mapped files in the temporary folder (``TMPDIR``), which vanish with the process, however it ends. A store
    is false where it is `empty`.

    Parameters
    ----------
    space, slots
        Internal: build stores by `empty`, `filled`, `of` or `load`.

    Attributes
    ----------
    clients : int
        Number of clients K; 0 in an empty store.
    nbytes : int
        Bytes set aside for rows, in memory or on disk; shared by all stores written from one another.
    versions : tuple of str
        Every client's content as a hash: equal exactly where the rows are, bit for bit.

    Examples
    --------
    Writing returns a new store, and leaves the old one as it was:

    >>> import torch
    >>> from fedstat.federated import ClientStore
    >>> store = ClientStore.filled({"w": torch.zeros(2)}, clients=1000)
    >>> ids = torch.tensor([3, 7])
    >>> new = store.write(ids, {"w": torch.ones(2, 2)})
    >>> new.rows(ids)["w"].sum().item(), store.rows(ids)["w"].sum().item()
    (4.0, 0.0)
    """

    def __init__(self, space: _RowSpace, slots: _Slots) -> None:
        self._space, self._slots = space, slots
        space.stores.add(self)

    @classmethod
    @cache  # it cannot be written to
    def empty(cls) -> ClientStore:
        """Return a store in which no client keeps anything: it has no names, and the rows of all clients are empty."""
        return cls(_RowSpace({}, torch.float32, 0, 0), _Slots.of(np.empty(0, int)))

    @classmethod
    def filled(cls, row: Params, clients: int, *, limit: int = IN_MEMORY_BYTES) -> ClientStore:
        """Return a store where every client holds `row`; it takes the space of one row.

        Parameters
        ----------
        row : dict of Tensor
            The tensors that one client keeps, all of one dtype.
        clients : int
            Number of clients K, at least 1.
        limit : int
            Bytes that K rows may take in memory; beyond it they lie in memory-mapped files.

        Raises
        ------
        ValueError
            If there is no client, no tensor, or more than one dtype.
        """
        whole("clients", clients, 1)
        space = _RowSpace.like("row", row, clients, limit)
        slots = space.take(1)
        space.put(slots, {name: leaf[None] for name, leaf in row.items()})
        return cls(space, _Slots.of(np.broadcast_to(slots, clients)))

    @classmethod
    def of(cls, stacked: Params, *, limit: int = IN_MEMORY_BYTES) -> ClientStore:
        """Return a store of stacked tensors, each (K, ...), with the `limit` of `filled`.

        Raises
        ------
        ValueError
            If there is no tensor, more than one dtype, or the tensors' first axes differ or are empty.
        """
        lengths = {name: leaf.shape[0] if leaf.dim() else 0 for name, leaf in stacked.items()}
        if stacked and (len(set(lengths.values())) > 1 or 0 in lengths.values()):
            raise ValueError(f"stacked must hold tensors (K, ...) with one K of at least 1, got K = {lengths}.")
        clients = next(iter(lengths.values()), 0)
        space = _RowSpace.like("stacked", {name: leaf[0] for name, leaf in stacked.items()}, clients, limit)
        slots = space.take(clients)
        space.put(slots, stacked)
        return cls(space, _Slots.of(slots))

    @classmethod
    def load(cls, folder: str | Path, *, limit: int = IN_MEMORY_BYTES) -> ClientStore:
        """Read a store that `save` wrote, with the `limit` of `filled`, and check every row against its hash.

        Raises
        ------
        ValueError
            If a file is missing or damaged; the message names it.
        """
        index = Path(folder) / _INDEX
        try:
            content = json.loads(index.read_text(encoding="utf-8"))
            if not content["clients"] or not all(re.fullmatch("[0-9a-f]{40}", name) for name in content["clients"]):
                raise ValueError("clients must be a list of hashes")
            shapes = {name: torch.Size(shape) for name, shape in content["shapes"].items()}
            versions, client_row = np.unique(content["clients"], return_inverse=True)
            space = _RowSpace(shapes, getattr(torch, content["dtype"]), len(client_row), limit)
        except Exception as error:  # any bytes may lie there
            raise ValueError(f"{index} is not the index of a complete client store: {error!r}.") from error
        files = [index.with_name(f"{version}.safetensors") for version in versions]
        if missing := [file for file in files if not file.is_file()]:
            raise ValueError(f"{missing[0]} is missing.")
        slots = np.empty(0, int)
        for i, (file, version) in enumerate(zip(files, versions, strict=True)):
            try:
                row = load_file(file)
            except Exception as error:
                raise ValueError(f"{file} is damaged: {error!r}.") from error
            fits = {name: (leaf.shape, leaf.dtype) for name, leaf in row.items()} == {
                name: (shape, space.dtype) for name, shape in shapes.items()
            }
            if fits and i == 0:  # slots are taken for what was seen, not for what an index claims
                slots = space.take(len(versions))
            if fits:
                space.put(slots[i : i + 1], {name: leaf[None] for name, leaf in row.items()})
            if not fits or space.version(int(slots[i])) != version:
                raise ValueError(f"{file} is damaged: its content is not what its name, a hash, promises.")
        return cls(space, _Slots.of(slots[client_row]))

    def save(self, folder: str | Path, previous: str | Path | None = None) -> int:
        """Write the store into `folder`: one safetensors file per distinct row, named by its hash, and an index.

        The folder appears whole or not at all, and replaces an earlier one there.

        Parameters
        ----------
        folder : path
            The folder to write; it may equal `previous`.
        previous : path, optional
            The folder of an earlier save: rows found there are hard-linked, or copied where links are impossible.

        Returns
        -------
        int
            Number of rows written anew.
        """
        with atomic_folder(folder) as temporary:
            return self.fill(temporary, previous)

    def fill(self, folder: Path, previous: str | Path | None = None) -> int:
        """Write the files of `save` into an empty folder, which the caller makes appear whole."""
        written = 0
        versions = self.versions
        for version, slot in dict(zip(versions, self._slots.all(), strict=True)).items():
            file = folder / f"{version}.safetensors"
            if previous is not None and (old := Path(previous) / file.name).is_file():
                link(old, file)
            else:
                file.write_bytes(save({name: leaf[0] for name, leaf in self._space.get(slot[None]).items()}))
                written += 1
        (folder / _INDEX).write_text(json.dumps({**self._space.layout, "clients": versions}) + "\n")
        return written

    @property
    def clients(self) -> int:
        """Number of clients K; 0 in an empty store."""
        return self._slots.clients

    @property
    def nbytes(self) -> int:
        """Bytes set aside for rows by this store and those it shares them with."""
        return len(self._space.rows) * self._space.row_bytes

    @property
    def versions(self) -> tuple[str, ...]:
        """Every client's row as a hash of its bytes; computed once per row."""
        return tuple(self._space.version(slot) for slot in self._slots.all().tolist())

    def rows(self, ids: Tensor, device: torch.device | str | None = None) -> Params:
        """Return the rows of clients `ids` as fresh tensors.

        Parameters
        ----------
        ids : Tensor of int, shape (m,)
            Clients, repeated or not.
        device : optional
            The device of the rows; by default that of `ids`.

        Returns
        -------
        dict of Tensor, each (m, ...)

        Raises
        ------
        ValueError
            If `ids` is no vector of numbers in 0..K-1; an empty store takes all numbers.
        """
        if not self:
            return {}
        found = self._space.get(self._slots.of_clients(self._positions(ids)))
        return {name: leaf.to(ids.device if device is None else device) for name, leaf in found.items()}

    def write(self, ids: Tensor, params: Params) -> ClientStore:
        """Return a store where clients `ids` hold `params`; this store stays as it is.

        Parameters
        ----------
        ids : Tensor of int, shape (m,)
            Clients, each once.
        params : dict of Tensor, each (m, ...)
            New values, on any device; tensors that are not named keep theirs. Without any the store is returned.

        Raises
        ------
        ValueError
            If `ids` is no vector of distinct numbers in 0..K-1, or `params` has an unknown name, another shape or
            another dtype.
        """
        if not params:
            return self
        if unknown := [name for name in params if name not in self]:
            names = ", ".join(self) or "none"
            raise ValueError(f"params must only name tensors of the store ({names}); got {unknown[0]!r}.")
        positions, space = self._positions(ids), self._space
        if len(np.unique(positions)) < len(positions):
            raise ValueError(f"ids must name each client once, got {ids.tolist()}.")
        for name, leaf in params.items():
            if (leaf.shape, leaf.dtype) != (expected := (len(positions), *space.shapes[name]), space.dtype):
                raise ValueError(
                    f"params[{name!r}] must have shape {expected} and dtype {space.dtype}, "
                    f"got {tuple(leaf.shape)} and {leaf.dtype}."
                )
        taken = space.take(len(positions))
        kept = [name for name in space.shapes if name not in params]
        space.put(taken, space.get(self._slots.of_clients(positions), kept) | params)
        return ClientStore(space, self._slots.written(positions, taken))

    def __getitem__(self, name: str) -> Tensor:
        return self._space.get(self._slots.all(), [name])[name]

    def __contains__(self, name: object) -> bool:
        return name in self._space.shapes  # a mapping's own would read the tensor of all clients

    def __iter__(self) -> Iterator[str]:
        return iter(self._space.shapes)

    def __len__(self) -> int:
        return len(self._space.shapes)

    # a mapping would compare tensors; a store is itself only, and the row space keeps a set of stores
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"ClientStore({self.clients} clients; {self._space.layout['shapes']}; {self.nbytes} bytes)"

    def _positions(self, ids: Tensor) -> np.ndarray:
        found = ids.detach().cpu().numpy()
        if found.ndim != 1 or found.dtype.kind not in "iu" or ((found < 0) | (found >= self.clients)).any():
            raise ValueError(f"ids must be a vector of client numbers in 0..{self.clients - 1}, got {ids.tolist()}.")
        return found


class _Slots:
    """The slot of every client, in pages that tables share where they agree."""

    def __init__(self, pages: list[np.ndarray], clients: int) -> None:
        self.pages, self.clients = pages, clients

    @classmethod
    def of(cls, slots: np.ndarray) -> _Slots:
        """Return the table of the slots of all clients."""
        return cls([slots[first : first + _PAGE] for first in range(0, len(slots), _PAGE)], len(slots))

    def all(self) -> np.ndarray:
        """Return the slots of all clients."""
        return np.concatenate(self.pages) if self.pages else np.empty(0, int)

    def distinct(self) -> np.ndarray:
        """Return every slot of the table, once or several times."""
        return np.concatenate(list({id(page): page for page in self.pages}.values())) if self.pages else self.all()

    def of_clients(self, clients: np.ndarray) -> np.ndarray:
        """Return the slots of some clients."""
        return np.fromiter((self.pages[k // _PAGE][k % _PAGE] for k in clients.tolist()), int, len(clients))

    def written(self, clients: np.ndarray, slots: np.ndarray) -> _Slots:
        """Return a table in which some clients have other slots."""
        pages, fresh = list(self.pages), set[int]()
        for page, at, slot in zip(*(part.tolist() for part in (*np.divmod(clients, _PAGE), slots)), strict=True):
            if page not in fresh:
                pages[page] = pages[page].copy()
                fresh.add(page)
            pages[page][at] = slot
        return _Slots(pages, self.clients)


class _RowSpace:
    """Hold rows of one layout in numbered slots; a slot is free while no living store refers to it."""

    def __init__(self, shapes: dict[str, torch.Size], dtype: torch.dtype, clients: int, limit: int) -> None:
        sizes = [math.prod(shape) for shape in shapes.values()]
        ends = np.cumsum(sizes).tolist()
        self.shapes, self.dtype, self.width = shapes, dtype, sum(sizes)
        self.columns = {name: slice(end - n, end) for name, n, end in zip(shapes, sizes, ends, strict=True)}
        self.layout = {"shapes": {name: list(shape) for name, shape in shapes.items()}, "dtype": str(dtype)[6:]}
        self.row_bytes = self.width * dtype.itemsize
        self.allocate = _mapped if clients * self.row_bytes > limit else torch.empty
        self.rows: list[Tensor] = []  # by slot; views of larger blocks
        self.clients, self.free = clients, np.empty(0, int)
        self.versions: dict[int, str] = {}
        self.stores: WeakSet[ClientStore] = WeakSet()

    @classmethod
    def like(cls, argument: str, row: Params, clients: int, limit: int) -> _RowSpace:
        """Return an empty space for rows such as `row`; messages call it `argument`."""
        found = {leaf.dtype: name for name, leaf in row.items()}
        if len(found) != 1:
            told = ", ".join(f"{dtype} in {name!r}" for dtype, name in found.items()) or "none"
            raise ValueError(f"{argument} must hold tensors of one dtype, got {told}.")
        return cls({name: leaf.shape for name, leaf in row.items()}, next(iter(found)), clients, limit)

    def take(self, count: int) -> np.ndarray:
        """Return `count` free slots, for a store that will refer to them."""
        if len(self.free) < count:
            self.seek(count)
        slots, self.free = self.free[:count], self.free[count:]
        for slot in slots.tolist():
            self.versions.pop(slot, None)
        return slots

    def seek(self, count: int) -> None:
        """Find all free slots, and make more where they are fewer than `count`, or where they would soon be."""
        used = np.zeros(len(self.rows), bool)
        for store in self.stores:
            used[store._slots.distinct()] = True
        soon = min(count * (1 + self.clients // _SOUGHT), max(count, self.clients // 16))
        missing = soon - int(np.count_nonzero(~used))
        if missing > 0:  # double the space while it is small
            new = max(missing, min(len(self.rows), _BLOCK_BYTES // max(1, self.row_bytes)))
            self.rows += self.allocate(new * self.width, dtype=self.dtype).view(new, self.width).unbind()
            used = np.pad(used, (0, new))
        self.free = np.flatnonzero(~used)

    def get(self, slots: np.ndarray, names: list[str] | None = None) -> Params:
        """Return copies of the rows in `slots`, each tensor (m, ...)."""
        chosen = self.shapes if names is None else names
        found = {name: torch.empty(len(slots), *self.shapes[name], dtype=self.dtype) for name in chosen}
        for i, slot in enumerate(slots.tolist()):
            for name, leaf in found.items():
                leaf[i].view(-1).copy_(self.rows[slot][self.columns[name]])
        return found

    def put(self, slots: np.ndarray, params: Params) -> None:
        """Copy tensors (m, ...) into the rows in `slots`."""
        for name, leaf in params.items():
            for slot, values in zip(slots.tolist(), leaf.detach().cpu(), strict=True):
                self.rows[slot][self.columns[name]].copy_(values.reshape(-1))

    def version(self, slot: int) -> str:
        """Return the hash of a row's bytes and of their layout."""
        if slot not in self.versions:
            digest = hashlib.blake2b(json.dumps(self.layout).encode(), digest_size=20)
            digest.update(self.rows[slot].view(torch.uint8).numpy().data)
            self.versions[slot] = digest.hexdigest()
        return self.versions[slot]


def _mapped(size: int, *, dtype: torch.dtype) -> Tensor:
    """Return an uninitialised vector in a file that has no name any more, so that it vanishes with the process."""
    handle, name = tempfile.mkstemp(prefix="fedstat-")
    try:
        if hasattr(os, "posix_fallocate"):  # a full disk is an OSError here, but a crash at the first write
            os.posix_fallocate(handle, 0, size * dtype.itemsize)
        return torch.from_file(name, shared=True, size=size, dtype=dtype)
    finally:
        os.close(handle)
        with suppress(PermissionError):  # Windows keeps the name of a mapped file
            os.unlink(name)
