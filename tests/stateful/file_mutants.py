"""Must-fail: stores of blocks in files, each wrong in one thing (H9, O11)."""

from collections.abc import Mapping

from kvproof.harness.hybrid.files_target import CAPACITY, LAYOUT, FileStoreTarget
from kvproof.harness.hybrid.memory_disk import MemoryProcess
from kvproof.refimpl.hybrid.block_file import encode_file, remove_file
from kvproof.refimpl.hybrid.file_store import FileStore


class NeverSyncs(FileStoreTarget):
    """H9: a file gets its final name before its content is on the disk."""

    class process_kind(MemoryProcess):
        def sync(self, file):
            pass


class NeverSyncsNames(FileStoreTarget):
    """H9: it is reported that a file is stored, whose name may not survive."""

    class process_kind(MemoryProcess):
        def sync_directory(self, path):
            pass


class SyncsAfterTheRename(FileStoreTarget):
    """H9: the order of the two is the other one."""

    class process_kind(MemoryProcess):
        def sync(self, file):
            self.late = self._open[file][0]

        def sync_directory(self, path):
            self.late.on_disk[:] = self.late.seen
            super().sync_directory(path)


class ServesTooEarly(FileStoreTarget):
    """H9: a file is served as soon as it has its final name."""

    class store_kind(FileStore):
        def putting(self, key, content):
            for step in super().putting(key, content):
                if step == "renamed":
                    self._ready.add(key)
                yield step


class NeverServes(FileStoreTarget):
    """H9: what was stored is not served before the next start."""

    class store_kind(FileStore):
        def putting(self, key, content):
            for step in super().putting(key, content):
                self._ready.discard(key)
                yield step


class ChecksNothing(FileStoreTarget):
    """H9: what stands in the file is served."""

    class store_kind(FileStore):
        def load(self, key):
            if key not in self._ready:
                return None
            file = self._ops.open(self._path(key))
            return self._ops.read(file, CAPACITY)[len(encode_file(key, b"", LAYOUT)) :]


class KeepsWhatIsDamaged(FileStoreTarget):
    """O11: a load that failed leaves the file there, to be found at the next start."""

    class store_kind(FileStore):
        def _reject(self, key, reason, *, remove):
            super()._reject(key, reason, remove=False)


class OffersWhatIsDamaged(FileStoreTarget):
    """O11: a load that failed will be tried again."""

    class store_kind(FileStore):
        def _reject(self, key, reason, *, remove):
            self.faults[reason] += 1


class EvictsNoFile(FileStoreTarget):
    """H9: what is evicted comes back at the next start."""

    class store_kind(FileStore):
        def _forget(self, key):
            self._ready.discard(key)


class EvictsWhatIsServed(FileStoreTarget):
    """H9: the file of what is evicted goes, and the key stays."""

    class store_kind(FileStore):
        def _forget(self, key):
            remove_file(self._ops, self._path(key))


class ServesWhatWasNotFinished(FileStoreTarget):
    """H9: at a start, files under temporary names are taken for stored."""

    class store_kind(FileStore):
        def _recover(self):
            for path in self.directory.iterdir():
                if path.name.endswith(".tmp"):
                    self._ops.rename(path, path.parent / path.name.removesuffix(".tmp"))
            super()._recover()


class RemovesNothing(MemoryProcess):
    """What is removed stays."""

    def remove(self, path):
        pass


class LeavesWhatWasNotFinished(FileStoreTarget):
    """H9: at a start, files under temporary names stay, and nobody can write them any more."""

    class store_kind(FileStore):
        def _recover(self):
            assert isinstance(self._ops, MemoryProcess)
            ops, self._ops = self._ops, RemovesNothing(self._ops.disk)
            super()._recover()
            self._ops = ops


class FindsNothing(FileStoreTarget):
    """H9: a restart begins with nothing."""

    class store_kind(FileStore):
        def _recover(self):
            super()._recover()
            self._ready.clear()


class WritesInPlace(FileStoreTarget):
    """H9: a file has its final name from the beginning."""

    class store_kind(FileStore):
        def _path(self, key, suffix=""):
            return super()._path(key)


class ForgetsThatItIsPinned(FileStoreTarget):
    """O12: the bytes of what is being written do not count as pinned, so that room is made where there is none."""

    class store_kind(FileStore):
        def _reserve(self, key, content):
            before = self._index._pinned_bytes
            reserved = super()._reserve(key, content)
            self._index._pinned_bytes = before
            return reserved


class CountsNoFault(FileStoreTarget):
    """O11: nobody learns that a file was damaged."""

    class store_kind(FileStore):
        def _reject(self, key, reason, *, remove):
            super()._reject(key, reason, remove=remove)
            self.faults.clear()


class TakesAnyKey(FileStoreTarget):
    """H9: a key of no bytes is a key."""

    class store_kind(FileStore):
        def put(self, key, content):
            return bool(key) and super().put(key, content)


FILES: Mapping[str, tuple[type[FileStoreTarget], set[str]]] = {
    kind.__name__: (kind, oracles)
    for kind, oracles in (
        (NeverSyncs, {"on_disk"}),
        (NeverSyncsNames, {"final_on_disk"}),
        (SyncsAfterTheRename, {"on_disk"}),
        (ServesTooEarly, {"ready"}),
        (NeverServes, {"ready"}),
        (ChecksNothing, {"result"}),
        (KeepsWhatIsDamaged, {"final"}),
        (OffersWhatIsDamaged, {"final"}),
        (EvictsNoFile, {"final"}),
        (EvictsWhatIsServed, {"ready", "refusal"}),
        (ServesWhatWasNotFinished, {"final"}),
        (LeavesWhatWasNotFinished, {"temporary"}),
        (FindsNothing, {"ready"}),
        (WritesInPlace, {"temporary"}),
        (ForgetsThatItIsPinned, {"ready"}),
        (CountsNoFault, {"result"}),
        (TakesAnyKey, {"stray"}),
    )
}
"""By name: the target, and what it must be noticed by."""
