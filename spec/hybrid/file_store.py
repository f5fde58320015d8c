"""Blocks in files that survive a crash (H9).

A file is written under a temporary name, synced, renamed, and its directory synced: then it is stored, for good. What
was written and not synced may be on the disk or not, each page by itself; so may a name. A crash leaves what is on the
disk. Files may also be cut, or damaged, or left by somebody whose blocks were of another size.

Two promises are kept, whatever happens at whatever step. What was reported as stored is served after a restart. And
nothing is served that is not what was stored: a file under its final name is whole, because it was synced before it got
that name; and should it not be, whoever reads it notices, and the load fails (O11).
"""

from __future__ import annotations

from ...machine import (
    Bool,
    Machine,
    Map,
    Sort,
    action,
    all_of,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    sometimes,
    step,
    when,
)
from ..pool import Hash

__all__ = ["FileStore", "Page"]


class Page(Sort):
    """A part of a file that is written to the disk as a whole."""


class FileStore(Machine):
    """One file for each hash: as the process sees it, and as it is on the disk."""

    # -------------------------------------------------------------------------------- what the process sees

    temporary = Map(Hash, to=Bool)
    """There is a file under the temporary name."""

    final = Map(Hash, to=Bool)
    """There is a file under the final name."""

    written = Map(Hash, Page, to=Bool)
    """The page of that file is what it should be."""

    ready = Map(Hash, to=Bool)
    """The store serves the hash."""

    # -------------------------------------------------------------------------------- what is on the disk

    on_disk = Map(Hash, Page, to=Bool)
    """The page of that file is there as it should be; otherwise it holds anything."""

    final_on_disk = Map(Hash, to=Bool)
    """There is a file under the final name: this one, or one that was removed and would come back."""

    found = Map(Hash, Page, to=Bool)
    """The page of the file that would be found under the final name is as it should be."""

    # -------------------------------------------------------------------------------- ghosts

    stored = Map(Hash, to=Bool)
    """It was reported that the hash is stored, and since then nobody removed or damaged it."""

    damaged = Map(Hash, to=Bool)
    """Somebody else changed the file."""

    found_damaged = Map(Hash, to=Bool)
    """So it is with the file that would be found under the final name."""

    # -------------------------------------------------------------------------------- words

    def is_whole(self, h: Hash) -> Bool:
        """Every page is what it should be. Who reads the file checks that: its size, its layout, its checksum."""
        return forall(Page, lambda p: self.written[h, p])

    # -------------------------------------------------------------------------------- storing

    @action("H9")
    def create(self, h: Hash) -> None:
        """A file is begun, under the temporary name."""
        self.require(~self.final[h])
        self.require(~self.temporary[h])
        self.temporary[h] = True
        with self.each(Page) as p:
            self.written[h, p] = False
            self.on_disk[h, p] = False

    @action("H9")
    def write(self, h: Hash, p: Page) -> None:
        """A page is written. That it reaches the disk is another matter."""
        self.require(self.temporary[h])
        self.written[h, p] = True

    @action("H9")
    def write_back(self, h: Hash, p: Page) -> None:
        """At any moment the system may bring a page to the disk."""
        self.require(self.written[h, p])
        self.on_disk[h, p] = True

    @action("H9")
    def write_back_names(self, h: Hash) -> None:
        """And the names."""
        self._sync_names(h)

    @action("H9")
    def rename(self, h: Hash) -> None:
        """A file that is whole, and on the disk, gets its final name. Syncing it is part of the step."""
        self.require(self.temporary[h])
        self.require(self.is_whole(h))
        self._sync_pages(h)
        self.temporary[h] = False
        self.final[h] = True

    @action("H9")
    def sync_directory(self, h: Hash) -> None:
        """The name is on the disk as well: only now is it reported that the hash is stored."""
        self.require(self.final[h])
        self.require(~self.ready[h])
        self._sync_names(h)
        self.ready[h] = True
        self.stored[h] = ~self.damaged[h]

    def _sync_pages(self, h: Hash) -> None:
        with self.each(Page) as p:
            self.on_disk[h, p] = self.written[h, p]

    def _sync_names(self, h: Hash) -> None:
        self.final_on_disk[h] = self.final[h]
        self.found_damaged[h] = self.damaged[h]
        with self.each(Page) as p:
            self.found[h, p] = self.on_disk[h, p]

    # -------------------------------------------------------------------------------- serving

    @action("H9, O11")
    def load(self, h: Hash) -> Bool:
        """A file is read. One that is not whole is removed, and the load fails."""
        self.require(self.ready[h])
        is_whole = self.is_whole(h)
        with when(~is_whole):
            self._remove(h)
        return is_whole

    @action("H9")
    def evict(self, h: Hash) -> None:
        """A file makes room."""
        self.require(self.ready[h])
        self._remove(h)

    def _remove(self, h: Hash) -> None:
        self.ready[h] = False
        self.final[h] = False
        self.stored[h] = False
        self.damaged[h] = False

    # -------------------------------------------------------------------------------- what else happens

    @action("H9")
    def damage(self, h: Hash, p: Page) -> None:
        """Somebody cuts or overwrites a file, or leaves one of another layout."""
        self.require(self.final[h])
        self.written[h, p] = False
        self.on_disk[h, p] = False
        self.found[h, p] = False
        self.damaged[h] = True
        self.found_damaged[h] = True
        self.stored[h] = False

    @action("H9")
    def crash(self) -> None:
        """Process and machine are gone; the next process finds what is on the disk.

        It serves what has a final name, and removes what has not.
        """
        with self.each(Hash) as h:
            self.final[h] = self.final_on_disk[h]
            self.ready[h] = self.final_on_disk[h]
            self.temporary[h] = False
            self.damaged[h] = self.found_damaged[h]
        with self.each(Hash, Page) as (h, p):
            self.written[h, p] = self.found[h, p]
            self.on_disk[h, p] = self.found[h, p]

    # -------------------------------------------------------------------------------- invariants

    @invariant("H9")
    def a_file_has_one_name(self, h: Hash) -> Bool:
        """At a time."""
        return ~(self.temporary[h] & self.final[h])

    @invariant("H9")
    def a_final_name_means_whole(self, h: Hash, p: Page) -> Bool:
        """And on the disk; unless somebody else touched the file."""
        return implies(self.final[h] & ~self.damaged[h], self.written[h, p] & self.on_disk[h, p])

    @invariant("H9")
    def the_disk_has_nothing_that_was_not_written(self, h: Hash, p: Page) -> Bool:
        """Not in this file."""
        return implies(self.on_disk[h, p], self.written[h, p])

    @invariant("H9")
    def only_final_names_are_served(self, h: Hash) -> Bool:
        """What is served has its final name, in the process as on the disk."""
        return implies(self.ready[h], self.final[h] & self.final_on_disk[h])

    @invariant("H9")
    def what_would_be_found_is_whole(self, h: Hash, p: Page) -> Bool:
        """So no crash gives a final name to a file that is not whole."""
        return implies(self.final_on_disk[h] & ~self.found_damaged[h], self.found[h, p])

    @invariant("H9")
    def what_was_stored_is_served(self, h: Hash) -> Bool:
        """Whatever happened meanwhile: it is there, and it is whole; and so it would be after a crash."""
        return implies(
            self.stored[h],
            all_of(self.ready[h], self.is_whole(h), self.final_on_disk[h], ~self.damaged[h] & ~self.found_damaged[h]),
        )

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("H9")
    def files_are_begun_where_there_are_none(self, h: Hash) -> Bool:
        """Under either name; and only what is begun is written."""
        return all_of(
            iff(can(self.create, h), ~(self.final[h] | self.temporary[h])),
            forall(Page, lambda p: iff(can(self.write, h, p), self.temporary[h])),
        )

    @corollary("H9")
    def the_system_brings_to_the_disk_what_it_likes(self, h: Hash, p: Page) -> Bool:
        """Of what is written; and names at any time."""
        return iff(can(self.write_back, h, p), self.written[h, p]) & can(self.write_back_names, h)

    @corollary("H9")
    def only_what_is_whole_gets_its_final_name(self, h: Hash) -> Bool:
        """And is reported once."""
        is_broken = exists(Page, lambda p: ~self.written[h, p])
        return all_of(
            iff(can(self.rename, h), self.temporary[h] & ~is_broken),
            iff(can(self.sync_directory, h), self.final[h] & ~self.ready[h]),
        )

    @corollary("H9, O11")
    def what_is_served_can_be_loaded_and_evicted(self, h: Hash) -> Bool:
        """And nothing else."""
        return iff(can(self.load, h), self.ready[h]) & iff(can(self.evict, h), self.ready[h])

    @corollary("H9")
    def anything_may_happen(self, h: Hash, p: Page) -> Bool:
        """A crash at any time, and damage to any file that has its final name."""
        return can(self.crash) & iff(can(self.damage, h, p), self.final[h])

    # -------------------------------------------------------------------------------- steps

    @step("H9", of="create")
    def a_file_begins_empty(self, before: FileStore, h: Hash, p: Page) -> Bool:
        """Under a name that nobody uses, whatever stood there once."""
        is_new = ~before.temporary[h] & ~before.final[h]
        return all_of(is_new, self.temporary[h], ~self.written[h, p], ~self.on_disk[h, p])

    @step("H9", of=("write", "rename"))
    def only_temporary_files_change(self, before: FileStore, h: Hash) -> Bool:
        """What has its final name is never written again."""
        return before.temporary[h]

    @step("H9", of="write")
    def what_is_written_is_there(self, before: FileStore, h: Hash, p: Page, q: Page) -> Bool:
        """For the process; of the other pages nothing changes, nor does the disk."""
        return iff(self.written[h, q], before.written[h, q] | (q == p)) & iff(self.on_disk[h, q], before.on_disk[h, q])

    @step("H9", of="write_back")
    def a_page_comes_to_the_disk_by_itself(self, before: FileStore, h: Hash, p: Page, q: Page) -> Bool:
        """Once it is written; whatever became of the others. The process sees what it saw."""
        comes = iff(self.on_disk[h, q], before.on_disk[h, q] | (q == p))
        return all_of(before.written[h, p], comes, iff(self.written[h, q], before.written[h, q]))

    @step("H9", of="rename")
    def a_file_that_is_whole_gets_its_name(self, before: FileStore, h: Hash, p: Page) -> Bool:
        """Its final one, for the temporary one; and not before the disk has all of it."""
        has_changed_names = all_of(self.final[h], ~self.temporary[h], ~self.ready[h] | before.ready[h])
        return has_changed_names & before.is_whole(h) & self.on_disk[h, p]

    @step("H9", of=("write_back_names", "sync_directory"))
    def the_disk_has_the_names(self, before: FileStore, h: Hash, p: Page) -> Bool:
        """As the process sees them, and under the final one what the disk has of that file."""
        return all_of(
            iff(self.final_on_disk[h], before.final[h]),
            iff(self.found[h, p], before.on_disk[h, p]),
            iff(self.found_damaged[h], before.damaged[h]),
        )

    @step("H9", of="sync_directory")
    def what_is_reported_is_stored(self, before: FileStore, h: Hash) -> Bool:
        """Once, when its name is on the disk; unless somebody damaged it meanwhile."""
        return all_of(before.final[h] & ~before.ready[h], self.ready[h], iff(self.stored[h], ~before.damaged[h]))

    @step("H9", of="evict")
    def what_is_evicted_is_gone(self, before: FileStore, h: Hash) -> Bool:
        """Nobody is served with it, and its name is free."""
        return before.ready[h] & self._is_gone(h)

    def _is_gone(self, h: Hash) -> Bool:
        """There is no file, and nothing is said of it."""
        return all_of(~self.temporary[h], ~self.final[h], ~self.ready[h], ~self.stored[h], ~self.damaged[h])

    @step("H9, O11", of="load")
    def only_what_is_whole_stays(self, before: FileStore, h: Hash, result: Bool) -> Bool:
        """And stays as it is; a load that fails says so, and leaves nothing that would be served."""
        is_whole = before.is_whole(h)
        return all_of(
            iff(result, is_whole),
            implies(is_whole, self.ready[h] & self.final[h] & iff(self.stored[h], before.stored[h])),
            implies(is_whole, iff(self.damaged[h], before.damaged[h])),
            implies(~is_whole, self._is_gone(h)),
        )

    @step("H9", of="damage")
    def what_is_damaged_is_so_everywhere(self, before: FileStore, h: Hash, p: Page, q: Page) -> Bool:
        """In the cache and on the disk; the other pages are what they were. Nobody promised this file any more."""
        is_lost = all_of(~self.written[h, p], ~self.on_disk[h, p], ~self.found[h, p])
        is_named = iff(self.final_on_disk[h], before.final_on_disk[h])
        is_kept = all_of(
            iff(self.written[h, q], before.written[h, q]),
            iff(self.on_disk[h, q], before.on_disk[h, q]),
            iff(self.found[h, q], before.found[h, q]),
        )
        is_known = all_of(before.final[h], self.damaged[h], self.found_damaged[h], ~self.stored[h])
        return all_of(is_lost, is_named, is_known, implies(q != p, is_kept))

    @step("H9", of="crash")
    def a_crash_loses_nothing_that_was_stored(self, before: FileStore, h: Hash) -> Bool:
        """And serves what has its final name on the disk, and nothing else."""
        return all_of(
            implies(before.stored[h], self.stored[h] & self.ready[h] & self.is_whole(h)),
            iff(self.ready[h], before.final_on_disk[h]),
        )

    @step("H9", of="crash")
    def a_crash_leaves_what_is_on_the_disk(self, before: FileStore, h: Hash, p: Page) -> Bool:
        """Under the final names; what had none is gone, and nothing is in the cache that is not on the disk."""
        return all_of(
            ~self.temporary[h] & iff(self.final[h], before.final_on_disk[h]),
            iff(self.damaged[h], before.found_damaged[h]),
            iff(self.written[h, p], before.found[h, p]) & iff(self.on_disk[h, p], before.found[h, p]),
        )

    @step(
        "H9",
        of=(
            *("create", "write", "write_back", "write_back_names", "rename"),
            *("sync_directory", "load", "evict", "damage"),
        ),
    )
    def files_have_nothing_to_do_with_each_other(self, before: FileStore, h: Hash, g: Hash) -> Bool:
        """Whatever happens to one, the others stay as they are."""
        return implies(g != h, self._is_as_it_was(before, g))

    def _is_as_it_was(self, before: FileStore, h: Hash) -> Bool:
        """Names, promises, and every page."""
        return all_of(
            self._has_its_names(before, h),
            self._has_its_pages(before, h),
            self._is_found_as_before(before, h),
            iff(self.stored[h], before.stored[h]) & iff(self.damaged[h], before.damaged[h]),
        )

    def _has_its_names(self, before: FileStore, h: Hash) -> Bool:
        return all_of(
            iff(self.temporary[h], before.temporary[h]),
            iff(self.final[h], before.final[h]),
            iff(self.ready[h], before.ready[h]),
        )

    def _has_its_pages(self, before: FileStore, h: Hash) -> Bool:
        return forall(
            Page,
            lambda p: iff(self.written[h, p], before.written[h, p]) & iff(self.on_disk[h, p], before.on_disk[h, p]),
        )

    def _is_found_as_before(self, before: FileStore, h: Hash) -> Bool:
        return all_of(
            iff(self.final_on_disk[h], before.final_on_disk[h]),
            iff(self.found_damaged[h], before.found_damaged[h]),
            forall(Page, lambda p: iff(self.found[h, p], before.found[h, p])),
        )

    @step("H9", unless=("create", "rename", "sync_directory", "load", "evict", "crash"))
    def names_stay(self, before: FileStore, h: Hash) -> Bool:
        """A file is begun, named, served or removed by the actions that say so, and by no other."""
        return self._has_its_names(before, h)

    @step("H9", unless=("create", "write", "write_back", "rename", "damage", "crash"))
    def pages_stay(self, before: FileStore, h: Hash) -> Bool:
        """Neither names nor loads write any."""
        return self._has_its_pages(before, h)

    @step("H9", unless=("write_back_names", "sync_directory", "damage"))
    def what_would_be_found_stays(self, before: FileStore, h: Hash) -> Bool:
        """Until names are brought to the disk again; a file that is removed may come back until then."""
        return self._is_found_as_before(before, h)

    @step("H9", unless=("load", "evict", "damage", "crash"))
    def what_is_damaged_stays_so(self, before: FileStore, h: Hash) -> Bool:
        """Until the file is gone."""
        return iff(self.damaged[h], before.damaged[h])

    @step("H9", unless=("sync_directory", "load", "evict", "damage"))
    def promises_stay(self, before: FileStore, h: Hash) -> Bool:
        """Nobody else says that a hash is stored, nor takes that back."""
        return iff(self.stored[h], before.stored[h])

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("H9")
    def what_is_damaged_is_about_to_be_served(self, h: Hash, g: Hash) -> Bool:
        """And another hash is stored."""
        return self.ready[h] & ~self.is_whole(h) & self.stored[g]

    @sometimes("H9")
    def a_crash_would_leave_a_part(self, h: Hash, p: Page, q: Page) -> Bool:
        """All is written, and only some of it is on the disk."""
        return all_of(self.temporary[h], self.is_whole(h), self.on_disk[h, p], ~self.on_disk[h, q])

    @sometimes("H9")
    def a_removed_file_may_come_back(self, h: Hash) -> Bool:
        """Its name was not taken from the disk yet, and it is being written anew."""
        return self.temporary[h] & self.final_on_disk[h]
