"""Which pages a row of slots is: nothing of the release is needed to say that."""

__all__ = ["pages_of"]


def pages_of(row: list[int], page: int) -> list[int]:
    """Return the pages of a row of slots; the null page where slots that belong together do not lie so."""
    if page == 1:
        return list(row)
    pages = []
    for at in range(0, len(row), page):
        slots = row[at : at + page]
        first = slots[0]
        together = first % page == 0 and slots == list(range(first, first + len(slots)))
        pages.append(first // page if together else 0)
    return pages
